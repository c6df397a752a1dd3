"""What keeps an agent, and whatever it starts, to its workspace and its model."""
