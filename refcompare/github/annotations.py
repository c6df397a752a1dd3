"""What is shown beside a changed test's line in the pull request's diff. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from refcompare.changes import Change, Comparison
from refcompare.gate import GateResult
from refcompare.report import words
from refcompare.report.escape import one_line

PER_LEVEL = 10
"""How many annotations of one level GitHub shows for one step; it drops the rest."""

_TEXT = 400


class Level(StrEnum):
    """How an annotation is shown; the words are those of workflow commands."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Annotation:
    """One changed test. ``path`` is relative to the repository's root, ``line`` counts from 1.

    Both are empty for a test that the head no longer has: there is no line to show it at.
    """

    level: Level
    title: str
    message: str
    path: str = ""
    line: int = 0

    @property
    def properties(self) -> dict[str, str | int]:
        """What a workflow command says beside the message."""
        place: dict[str, str | int] = {"file": self.path, "line": max(1, self.line)} if self.path else {}
        return place | {"title": self.title}


def annotate(comparison: Comparison, gate: GateResult) -> tuple[Annotation, ...]:
    """Give an annotation for each change that somebody should look at, the most severe first.

    What fails the build is an error, what is doubtful or bad a warning, what got better a notice.
    """
    gated = {change.test_id for change in gate.gated}
    found = []
    for change in words.changed_rows(comparison):
        level = _level(change, change.test_id in gated)
        if level is not None:
            found.append(_annotation(change, level))
    return tuple(sorted(found, key=lambda item: list(Level).index(item.level)))


def shown(items: Iterable[Annotation], per_level: int = PER_LEVEL) -> tuple[Annotation, ...]:
    """Give those that GitHub will show, the first of each level."""
    counts: Counter[Level] = Counter()
    kept = []
    for item in items:
        counts[item.level] += 1
        if counts[item.level] <= per_level:
            kept.append(item)
    return tuple(kept)


def left_out(items: Sequence[Annotation], kept: Sequence[Annotation]) -> str:
    """Say in one sentence what was left out; empty where nothing was."""
    rest = len(items) - len(kept)
    if not rest:
        return ""
    verb = "is" if rest == 1 else "are"
    return f"{words.plural(rest, 'more change')} {verb} not shown beside the diff; the summary has them all."


def _level(change: Change, gated: bool) -> Level | None:
    if gated:
        return Level.ERROR
    match words.tone(change.kind):
        case words.Tone.BAD | words.Tone.DOUBTFUL:
            return Level.WARNING
        case words.Tone.GOOD:
            return Level.NOTICE
        case _:
            return None


def _annotation(change: Change, level: Level) -> Annotation:
    told = [words.transition(change)]
    for fact in words.facts(change):
        said = " ".join(part for part in (one_line(fact.data, _TEXT), fact.text) if part)
        told.append(f"{fact.label}: {said}" if said else fact.label)
    title = f"{', '.join(change.kinds)}: {one_line(change.test_id, 120)}"
    place = change.head
    return Annotation(level, title, "\n".join(told), place.path if place else "", place.line if place else 0)
