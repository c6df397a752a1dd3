"""Scripted runs of the guidance's evals: what an agent does that follows it, and what one does that does not."""
