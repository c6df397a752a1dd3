"""Names of files and refs, which to git are bytes."""

from __future__ import annotations


def decoded(raw: bytes) -> str:
    """Give a name as text; bytes that are not UTF-8 become surrogate escapes."""
    return raw.decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    """Give a name as git has it, the reverse of `decoded`."""
    return text.encode("utf-8", "surrogateescape")
