"""The catalogue of alerts and the Prometheus rules rendered from it."""
