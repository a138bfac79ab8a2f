"""State that outlives a worker: compacted topics read to their end."""
