"""The catalogue of metrics and its exporter."""
