"""engram-stream: streaming workers that make every reply attributable."""

__version__ = "0.1.0"
