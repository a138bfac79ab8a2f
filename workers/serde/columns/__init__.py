"""Turns decoded by the batch, into columns: an accelerator of `workers.serde.decoder`, which stays the reference.

Only this package needs pyruhvro, pyarrow and numpy; nothing outside imports it without having asked for columns.
"""
