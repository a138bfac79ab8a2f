"""Faust agents: decode, process, emit, commit."""
