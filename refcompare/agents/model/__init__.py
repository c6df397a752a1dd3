"""The one way from an agent to its model, and a model that says what a script tells it to."""
