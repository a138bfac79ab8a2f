"""Local Kafka, generators and clocks for tests, demo and benchmarks."""
