"""Turns judged by the batch, in columns; rows in doubt go to the reference path."""
