"""Pure functions on decoded records; no Kafka, no clock of their own, no metrics."""
