"""Records that leave: verdicts, alerts, dead letters."""
