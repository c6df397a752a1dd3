"""Which paths a glob names. In time that no hostile pattern can stretch. Pure.

``*`` and ``?`` stand for characters of one path segment and ``**`` for any number of segments; the rest is
taken as it stands, case included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
P = TypeVar("P")


def path_matches(pattern: Sequence[str], segments: Sequence[str]) -> bool:
    """Say whether a path is what a pattern names, both split at their slashes."""
    return _wildcard(pattern, segments, "**", text_matches)


def covers(glob: str, path: str) -> bool:
    """Say whether a glob names a path or a folder that it lies in: ``docs`` and ``docs/**`` are the same."""
    pattern = glob.removeprefix("./").strip("/").split("/")
    segments = path.split("/")
    return any(path_matches(pattern, segments[:end]) for end in range(len(segments), 0, -1))


def text_matches(pattern: str, text: str) -> bool:
    """Say whether a text is what a pattern of characters, ``*`` and ``?`` names."""
    return _wildcard(pattern, text, "*", lambda wanted, found: wanted in ("?", found))


def _wildcard(pattern: Sequence[P], items: Sequence[T], star: P, same: Callable[[P, T], bool]) -> bool:
    """Match a sequence against a pattern in which ``star`` stands for any number of items.

    Only the last star met is ever tried again, so the time is the product of the lengths at most,
    whatever a hostile pattern looks like.
    """
    at = found = 0
    star_at, resume = -1, 0
    while found < len(items):
        if at < len(pattern) and pattern[at] == star:
            star_at, resume, at = at, found, at + 1
        elif at < len(pattern) and same(pattern[at], items[found]):
            at, found = at + 1, found + 1
        elif star_at >= 0:
            resume += 1
            at, found = star_at + 1, resume
        else:
            return False
    return all(left == star for left in pattern[at:])
