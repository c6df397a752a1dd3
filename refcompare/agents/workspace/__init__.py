"""What an agent works in: a copy of one arm's tree, and what became of it."""
