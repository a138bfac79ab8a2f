"""The path inventory of all workers: the compacted topic ``producer-paths``, held as it is now."""

from __future__ import annotations
