"""The contenders, each the whole of one process: ``python -m bench.contenders.NAME TASK``."""
