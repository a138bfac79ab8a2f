"""Replay fidelity of one runtime manifest."""
