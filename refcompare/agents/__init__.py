"""Agent evals: a coding agent works on each ref's tree in a sandbox and is judged by what it did."""
