"""Measurements, side by side in one run: ratios rather than seconds, since machines differ."""
