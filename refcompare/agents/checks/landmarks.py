"""How much of a file came back from tools: landmarks are sampled through it and looked for. Pure.

Tools number lines, indent them, quote them for JSON and cut them off. So only words are compared, a
landmark never crosses the end of a line, and the share of the landmarks that came back is taken for the
share of the file that was read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

SAMPLES = 24
"""How many landmarks a file has at most; one that is read up to its middle has half of them."""

_LONGEST = 60
_SHORTEST = 12
"""Characters of a landmark's words. Shorter ones are found by accident."""

_NO_WORD = re.compile(r"[\W_]+")


def words(text: str) -> str:
    """Give a text's words, one blank between them and one at each end."""
    return f" {_NO_WORD.sub(' ', text).strip()} "


def landmarks(text: str) -> tuple[str, ...]:
    """Sample a file: pieces of its lines, evenly spread, each of them only once in it where that can be.

    Empty for a text without a word.
    """
    pieces = [(number, piece) for number, line in enumerate(text.splitlines()) for piece in _pieces(line)]
    counts = Counter(piece for _, piece in pieces)
    candidates = [item for item in pieces if counts[item[1]] == 1 and len(item[1]) >= _SHORTEST]
    if not candidates:
        candidates = [item for item in pieces if len(item[1]) == max(len(piece) for _, piece in pieces)]
    total = sum(len(piece) for _, piece in candidates)
    chosen: list[str] = []
    passed = 0
    for _, piece in candidates:
        # The piece in whose span one of the evenly spread points lies.
        if (len(chosen) + 0.5) * total / SAMPLES < passed + len(piece):
            chosen.append(piece)
        passed += len(piece)
    return tuple(dict.fromkeys(chosen))


def _pieces(line: str) -> list[str]:
    """Cut a line's words into pieces that are long enough to tell and short enough to survive a cut."""
    found: list[str] = []
    here = ""
    for word in words(line).split():
        for start in range(0, len(word), _LONGEST):
            part = word[start : start + _LONGEST]
            if here and len(here) + 1 + len(part) > _LONGEST:
                found.append(here)
                here = ""
            here = f"{here} {part}" if here else part
    return [*found, here] if here else found


def share_seen(marks: Sequence[str], texts: Iterable[str]) -> float:
    """Give the share of the landmarks, from 0 to 1, that are in any of the texts. 0 without landmarks."""
    left = set(marks)
    for text in texts:
        if not left:
            break
        searched = words(text)
        left = {mark for mark in left if mark not in searched}
    return 1 - len(left) / len(set(marks)) if marks else 0.0
