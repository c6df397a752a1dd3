"""Renderings of a comparison, one format a file; all pure."""
