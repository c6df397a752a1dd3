"""Where the files that ship with refcompare lie, installed as a wheel or run from a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _shipped(packaged: str, in_checkout: str) -> Path:
    inside = _PACKAGE / packaged
    return inside if inside.is_dir() else _PACKAGE.parent / in_checkout


def grader_source() -> Path:
    """Give the directory that holds ``worker.php``, the resident grader."""
    return _shipped("_php", "php")


def schema_directory() -> Path:
    """Give the directory that holds the published JSON Schemas."""
    return _shipped("_schema", "datasets/schema")
