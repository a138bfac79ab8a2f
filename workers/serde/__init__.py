"""Framing, schemas, decoding and encoding of records."""
