"""What each command does: opens the two ends, calls the middle, prints. Gives the exit status.

One module a command, or a few that belong together; ``running`` and ``printing`` are what they share.
"""
