"""Compare execution tests and agent evals between two git refs."""

__version__ = "0.1.0"
