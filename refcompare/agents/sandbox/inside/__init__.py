"""Programs that run inside an agent's boundary, on the system's own Python: one file each, no imports.

They are handed in as text. Nothing of refcompare can be imported there, and the Python may be as
old as 3.8.
"""
