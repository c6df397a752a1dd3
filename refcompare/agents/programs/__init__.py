"""The agents: one file for each program, and what all of them answer."""
