"""What every report says of a comparison, in words; how it is marked up is each report's own. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from refcompare.changes import CategoryCounts, CategoryRow, Change, ChangeKind, Comparison, RunSummary, Side
from refcompare.gate import count_kinds
from refcompare.results import Arm, AssertionResult, ErrorKind, PassingExploit, Verdict, WeakSpot

K = ChangeKind
SHOWN_AT_ONCE = 3
"""How many cheats, weak spots and the like one row names before it counts the rest."""

PASSING_CHEAT = "passing cheat"
"""The label of a fact that shows a cheat's code."""

_PLAIN = re.compile(r"[A-Za-z0-9 .,;+>_()-]{1,300}")

FORGER = "forger"
"""The class of exploits that tamper with the grader: one that passes is a bug of refcompare."""


class Tone(StrEnum):
    """How a kind of change is to be taken, for colours and signs."""

    BAD = "bad"
    DOUBTFUL = "doubtful"
    GOOD = "good"
    NEUTRAL = "neutral"


_TONES = {
    **dict.fromkeys(
        (K.REGRESSED, K.NEWLY_EXPLOITABLE, K.BROKEN_WHEN_ADDED, K.EXPLOITABLE_WHEN_ADDED), Tone.BAD
    ),
    **dict.fromkeys((K.REMOVED, K.UNSTABLE, K.NOT_GRADED, K.EXPOSURE_CHANGED, K.WEAKENED), Tone.DOUBTFUL),
    **dict.fromkeys((K.FIXED, K.HARDENED), Tone.GOOD),
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One line under a row: ``label`` and ``text`` are refcompare's words, ``data`` is somebody else's.

    ``place`` says that the data is a path with a line, of which the end matters most.
    """

    label: str
    data: str = ""
    text: str = ""
    place: bool = False


def tone(kind: ChangeKind) -> Tone:
    """Say how a kind of change is to be taken."""
    return _TONES.get(kind, Tone.NEUTRAL)


def headline(comparison: Comparison) -> str:
    """Say it all in one line: ``2 regressed, 1 newly exploitable, 1 fixed; 79 unchanged``."""
    parts = [] if comparison.trials and not comparison.changes else [_tests_headline(comparison)]
    return "; ".join([*parts, comparison.trials.headline] if comparison.trials else parts)


def _tests_headline(comparison: Comparison) -> str:
    totals = comparison.totals
    unchanged = totals.pop(K.UNCHANGED, 0)
    if not totals:
        return (
            f"nothing changed; {plural(unchanged, 'test')} unchanged" if unchanged else "no tests to compare"
        )
    changed = count_kinds(change.kind for change in comparison.changes if change.kind is not K.UNCHANGED)
    return f"{changed}; {unchanged} unchanged" if unchanged else changed


def changed_rows(comparison: Comparison) -> tuple[Change, ...]:
    """Give the rows that a reader wants to see: all but the unchanged ones."""
    return tuple(change for change in comparison.changes if change.kind is not K.UNCHANGED)


def plural(count: int, noun: str) -> str:
    """Put a count before its noun: ``1 test``, ``2 tests``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def duration(seconds: float) -> str:
    """Write seconds as a person would: ``340 ms``, ``12.3 s``, ``4 min 5 s``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def before_and_after(before: int, after: int) -> str:
    """Write two counts as ``12 -> 11``, or as one where they are equal."""
    return f"{before:,}" if before == after else f"{before:,} -> {after:,}"


# --------------------------------------------------------------------------- categories


def category_columns(comparison: Comparison) -> dict[str, str]:
    """Name the columns of the summary by category: a ``CategoryCounts`` field and its title.

    Columns in which both arms have nothing to count are left out, ``tests`` and ``passing`` never.
    """
    columns = {"tests": "tests", "passing": "passing"}
    if comparison.base_run.audited or comparison.head_run.audited:
        columns["exploitable"] = "exploitable"
    total = totals(comparison)
    for name, title in (
        ("not_auditable", "not auditable"),
        ("invalid", "invalid"),
        ("not_graded", "not graded"),
    ):
        if getattr(total.base, name) or getattr(total.head, name):
            columns[name] = title
    return columns


def category_cell(row: CategoryRow, column: str, comparison: Comparison) -> str:
    """Write one cell of the summary; an arm that was not audited has ``?`` exploitable tests."""
    before, after = getattr(row.base, column), getattr(row.head, column)
    if column in {"exploitable", "not_auditable"} and not comparison.audited:
        known = (comparison.base_run.audited, comparison.head_run.audited)
        return " -> ".join(
            f"{value:,}" if is_known else "?" for value, is_known in zip((before, after), known, strict=True)
        )
    return before_and_after(before, after)


def totals(comparison: Comparison) -> CategoryRow:
    """Add up all categories."""
    return added_up(comparison.categories)


def added_up(rows: Iterable[CategoryRow]) -> CategoryRow:
    """Add up some categories; the row is called ``total``."""
    counts = [(row.base, row.head) for row in rows]
    return CategoryRow(
        "total",
        sum((base for base, _ in counts), CategoryCounts()),
        sum((head for _, head in counts), CategoryCounts()),
    )


# --------------------------------------------------------------------------------- rows


def verdict_words(side: Side | None) -> str:
    """Say what became of the reference on one arm: ``pass``, ``error (timeout)``, ``pass, fail, pass``."""
    if side is None:
        return "absent"
    if side.verdict is None:
        return "no verdict"
    if not side.stable:
        return ", ".join(side.verdicts)
    if side.verdict is Verdict.ERROR and side.error_kind is not None:
        return f"error ({side.error_kind.replace('_', ' ')})"
    return side.verdict.value


def transition(change: Change) -> str:
    """Say what happened to the reference: ``pass -> fail``, ``added: pass``, ``removed: pass``."""
    if change.base is None:
        return f"added: {verdict_words(change.head)}"
    if change.head is None:
        return f"removed: {verdict_words(change.base)}"
    before, after = verdict_words(change.base), verdict_words(change.head)
    return f"{before} -> {after}" if before != after else before


def facts(change: Change) -> tuple[Fact, ...]:
    """Say everything else that a row tells: why it failed, which cheats pass, what differs, where it is."""
    found = [*_failure(change), *_exploits(change), *_doubts(change), *_mutants(change), *_reasons(change)]
    side = change.head or change.base
    if side is not None and found:
        found.append(Fact("at", data=f"{side.path}:{side.line}", place=True))
    return tuple(found)


def exploit_words(exploit: PassingExploit) -> str:
    """Name a cheat by its label and class: ``return-1 (generic)``."""
    return f"{exploit.label} ({exploit.exploit_class})"


def weak_spot_words(spot: WeakSpot) -> str:
    """Say where the reference can be changed unnoticed: ``line 12: capability check removed``."""
    return f"line {spot.line}: {spot.mutation}"


def failure_facts(side: Side) -> Iterator[Fact]:
    """Say why a reference did not pass."""
    if side.failure is not None:
        yield Fact("first failing", data=_assertion_words(side.failure))
        if side.failure.message:
            yield Fact("message", data=side.failure.message)
        if side.failure.expected is not None:
            yield Fact("expected", data=side.failure.expected)
        if side.failure.actual is not None:
            yield Fact("actual", data=side.failure.actual)
    if side.message and (side.failure is None or side.message != side.failure.message):
        phase = f" in {side.phase.value}" if side.phase else ""
        yield Fact(f"{'error' if side.verdict is Verdict.ERROR else 'message'}{phase}", data=side.message)
    for pattern in side.forbidden[:SHOWN_AT_ONCE]:
        yield Fact("forbidden pattern", data=pattern)


def _assertion_words(assertion: AssertionResult) -> str:
    described = assertion.description and assertion.description != assertion.type
    return f"{assertion.type}: {assertion.description}" if described else assertion.type


def _failure(change: Change) -> Iterator[Fact]:
    """Explain the head where it does not pass, or else the base where that is what changed."""
    head, base = change.head, change.base
    if head is not None and not head.passing:
        yield from failure_facts(head)
    elif base is not None and not base.passing and {K.FIXED, K.UNSTABLE, K.NOT_GRADED} & set(change.kinds):
        for fact in failure_facts(base):
            yield Fact(f"base {fact.label}", fact.data, fact.text)


def passing_cheats(change: Change) -> tuple[PassingExploit, ...]:
    """Give the cheats that a row is about: all that pass on head, or those that did not on base."""
    kinds = set(change.kinds)
    after = change.head.exploits if change.head else ()
    if kinds & {K.NEWLY_EXPLOITABLE, K.EXPLOITABLE_WHEN_ADDED}:
        return after
    if K.EXPOSURE_CHANGED in kinds and change.base:
        before = {item.label for item in change.base.exploits}
        return tuple(item for item in after if item.label not in before)
    return ()


def _exploits(change: Change) -> Iterator[Fact]:
    yield from cheat_facts(PASSING_CHEAT, passing_cheats(change))
    if {K.EXPOSURE_CHANGED, K.HARDENED} & set(change.kinds) and change.base and change.head:
        after = {item.label for item in change.head.exploits}
        gone = tuple(item for item in change.base.exploits if item.label not in after)
        yield from cheat_facts("no longer passing", gone)


def cheat_facts(label: str, exploits: tuple[PassingExploit, ...]) -> Iterator[Fact]:
    """Show the first few cheats with their code, each in one line."""
    for exploit in exploits[:SHOWN_AT_ONCE]:
        yield Fact(label, data=f"{exploit_words(exploit)}: {exploit.code}")
        if exploit.exploit_class == FORGER:
            yield Fact("forged", text="a bug of refcompare's grader, not of the test: please report it")
    if len(exploits) > SHOWN_AT_ONCE:
        yield Fact(label, text=f"and {plural(len(exploits) - SHOWN_AT_ONCE, 'other')}")


def _doubts(change: Change) -> Iterator[Fact]:
    """What could not be known: cheats that flip, that were never graded, tests that cannot be audited."""
    for name, side in (("base", change.base), ("head", change.head)):
        if side is None:
            continue
        if side.unstable_exploits:
            yield Fact(f"passes only sometimes on {name}", data=some(side.unstable_exploits))
        if side.ungraded_exploits:
            yield Fact(f"cheats without a verdict on {name}", data=some(side.ungraded_exploits))
        if side.audited and not side.auditable and side.error_kind is not ErrorKind.INVALID:
            yield Fact(f"not auditable on {name}", data=side.audit_reason or "")


def some(labels: tuple[str, ...]) -> str:
    """Name the first few labels and count the rest."""
    rest = len(labels) - SHOWN_AT_ONCE
    return ", ".join(labels[:SHOWN_AT_ONCE]) + (f" and {plural(rest, 'other')}" if rest > 0 else "")


def _mutants(change: Change) -> Iterator[Fact]:
    if K.WEAKENED not in change.kinds or change.base is None or change.head is None:
        return
    before, after = (f"{len(side.weak_spots)} of {side.mutants_tried}" for side in (change.base, change.head))
    yield Fact("surviving mutants", text=f"{before} -> {after}")
    known = {(spot.label, spot.mutation) for spot in change.base.weak_spots}
    new = [spot for spot in change.head.weak_spots if (spot.label, spot.mutation) not in known]
    for spot in new[:SHOWN_AT_ONCE]:
        yield Fact("weak spot", data=weak_spot_words(spot))


def _reasons(change: Change) -> Iterator[Fact]:
    if change.reasons:
        said = "; ".join(reason.text for reason in change.reasons)
        # Versions come with the results, so they are somebody else's words unless they look like versions.
        yield Fact("differs", text=said) if _PLAIN.fullmatch(said) else Fact("differs", data=said)
    elif change.kind not in {K.NOT_GRADED, K.UNCHANGED} and change.base and change.head:
        yield Fact("differs", text="nothing that grading depends on")


# ---------------------------------------------------------------------------------- arms


def arm_columns(arm: Arm, run: RunSummary) -> dict[str, str]:
    """Say what an arm is and what its run cost, title by title, for a table of the arms."""
    environment = arm.environment
    if environment is None and not run.tests:
        return _bare_columns(arm, run)
    columns = {
        "ref": arm.ref,
        "commit": arm.commit[:12] if arm.commit else "uncommitted",
        "WordPress": environment.wordpress if environment else "unknown",
        "PHP": environment.php if environment else "unknown",
        "database": _database(arm),
        "runtime": environment.runtime if environment else "unknown",
        "time": duration(run.seconds),
        "verdicts": verdict_count(run),
    }
    if run.partial:
        columns["run"] = "stopped before its end"
    return columns


def _bare_columns(arm: Arm, run: RunSummary) -> dict[str, str]:
    """What there is to say of an arm on which no test was graded."""
    columns = {"ref": arm.ref}
    if arm.commit:
        columns["commit"] = arm.commit[:12]
    if run.seconds:
        columns["time"] = duration(run.seconds)
    return columns | ({"run": "stopped before its end"} if run.partial else {})


def verdict_count(run: RunSummary) -> str:
    """Say how many verdicts a run has, and how many of them were known before: ``84 (60 reused)``."""
    return f"{run.records:,} ({run.reused:,} reused)" if run.reused else f"{run.records:,}"


def _database(arm: Arm) -> str:
    if arm.environment is None:
        return "unknown"
    if arm.environment.database == "sqlite":
        return f"SQLite {arm.environment.sqlite}"
    return arm.environment.database
