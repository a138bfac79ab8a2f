"""The main job at work on one machine: real Kafka, real workers, what their metrics say, and that in words."""
