"""Everything that knows Kafka clients: batches, offsets, the Faust transport."""
