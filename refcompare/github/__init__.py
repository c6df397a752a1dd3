"""GitHub: what an event means, and where a comparison is shown there."""
