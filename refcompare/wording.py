"""How names that came from elsewhere are put into a sentence, and which known name was meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

_LONGEST_GUESS = 200


def printable(text: str) -> str:
    """Escape what a terminal or an annotation could act on: control and format characters, bad bytes.

    A byte that was not UTF-8 (a surrogate escape) is shown as ``\\xNN``.
    """
    return text if text.isprintable() else "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def quoted(text: str, limit: int = 80) -> str:
    """Give ``text`` printable, in single quotes, cut after ``limit`` characters."""
    return f"'{printable(text[:limit])}{'…' if len(text) > limit else ''}'"


def kind(value: Any) -> str:
    """Name the JSON type of a decoded value as a reader knows it: ``a list``, ``null``, ``a number``."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list() | tuple():
            return "a list"
        case _:
            return "an object"


def alternatives(words: Iterable[str]) -> str:
    """Join names for a sentence: ``a``, ``a or b``, ``a, b or c``."""
    listed = list(words)
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} or {listed[-1]}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Give ``did you mean 'a' or 'b'?`` for the nearest known names, or an empty string."""
    near = get_close_matches(word[:_LONGEST_GUESS], list(known), n=3, cutoff=0.65)
    return f"did you mean {alternatives(quoted(name) for name in near)}?" if near else ""
