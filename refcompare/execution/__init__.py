"""Execution tests: loading, candidates, exploits, grading and the worker client."""
