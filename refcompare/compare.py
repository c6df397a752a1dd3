"""What changed between two arms, test by test. Pure: two results in, one comparison out.

The rules are written down once, here:

* An attempt that ended in an infrastructure error says nothing about its candidate, so it counts
  only where there is no other attempt.
* A reference passes when every attempt passed. Between the arms only passing and not passing are
  compared: a fail that becomes a timeout is no change, a pass that becomes ``invalid`` is one.
* A candidate whose attempts disagree makes its test ``unstable``. Its difference to the other arm
  is reported beside that only where it holds whichever attempt is believed.
* A cheat counts as passing only when every attempt of it passed.
* Exposure (the set of passing cheats) is compared only where both arms were audited. That no cheat
  passes a test whose reference does not pass either proves nothing: such a test was not hardened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from refcompare.changes import (
    CategoryCounts,
    CategoryRow,
    Change,
    ChangeKind,
    Comparison,
    Difference,
    Reason,
    RunSummary,
    Side,
)
from refcompare.results import (
    REFERENCE,
    Audit,
    Environment,
    ErrorKind,
    Record,
    RunResult,
    TestEntry,
    Verdict,
)

__all__ = [
    "EXPLOIT_PREFIX",
    "CategoryCounts",
    "CategoryRow",
    "Change",
    "ChangeKind",
    "Comparison",
    "Difference",
    "Reason",
    "RunSummary",
    "Side",
    "category_counts",
    "compare",
    "sides",
    "summary",
    "suspects",
]

EXPLOIT_PREFIX = "exploit:"
"""What the candidate name of every cheat starts with; the rest is the cheat's label."""


def compare(base: RunResult, head: RunResult) -> Comparison:
    """Pair the tests of two runs by id and classify each. The order of records does not matter."""
    base_view, head_view = _View.of(base), _View.of(head)
    environment = _environment_reasons(base.arm.environment, head.arm.environment)
    changes = [
        _change(test_id, base_view, head_view, environment)
        for test_id in base_view.sides.keys() | head_view.sides.keys()
    ]
    changes.sort(key=lambda change: (change.kind.severity, change.category, change.test_id))
    return Comparison(
        base=base.arm,
        head=head.arm,
        base_run=summary(base),
        head_run=summary(head),
        changes=tuple(changes),
        categories=_categories(base_view.sides.values(), head_view.sides.values()),
    )


def sides(run: RunResult) -> Mapping[str, Side]:
    """Say of each test of one run, by its id, what a row would say of it."""
    return _View.of(run).sides


def suspects(base: RunResult, head: RunResult) -> tuple[tuple[str, str, str], ...]:
    """Say which candidates to run again before a change for the worse is believed.

    Gives ``(arm, test id, candidate)`` with arm ``base`` or ``head``: for a regression the reference
    and for a new exploit each passing cheat, on every arm that has the test. An arm on which that
    cheat cannot be made (its test is written differently) has nothing to run again.
    """
    found: list[tuple[str, str, str]] = []
    for change in compare(base, head).changes:
        candidates: list[str] = []
        if {ChangeKind.REGRESSED, ChangeKind.BROKEN_WHEN_ADDED} & set(change.kinds):
            candidates.append(REFERENCE)
        if {ChangeKind.NEWLY_EXPLOITABLE, ChangeKind.EXPLOITABLE_WHEN_ADDED} & set(change.kinds):
            assert change.head is not None
            candidates += [EXPLOIT_PREFIX + exploit.label for exploit in change.head.exploits]
        for arm, side in (("base", change.base), ("head", change.head)):
            if side is not None:
                found += [(arm, change.test_id, candidate) for candidate in candidates]
    return tuple(found)


class _Exposure(StrEnum):
    """What an arm knows of whether a test can be cheated."""

    EXPLOITABLE = "exploitable"
    UNSTABLE = "unstable"
    UNGRADED = "ungraded"
    NOT_AUDITABLE = "not auditable"
    UNPROVEN = "unproven"
    SAFE = "safe"


@dataclass(frozen=True, slots=True)
class _View:
    """One run, arranged by test. ``failed`` holds the labels of cheats known not to pass, by test."""

    sides: Mapping[str, Side]
    failed: Mapping[str, frozenset[str]]
    stopped_early: frozenset[str]
    audited: bool
    partial: bool

    @classmethod
    def of(cls, run: RunResult) -> _View:
        references: defaultdict[str, list[Record]] = defaultdict(list)
        cheats: defaultdict[str, defaultdict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
        for record in run.records:
            if record.candidate == REFERENCE:
                references[record.test_id].append(record)
            elif record.candidate.startswith(EXPLOIT_PREFIX):
                cheats[record.test_id][record.candidate.removeprefix(EXPLOIT_PREFIX)].append(record)
        audits = {audit.test_id: audit for audit in run.audits}
        verdicts = {test_id: _cheat_verdicts(attempts) for test_id, attempts in cheats.items()}
        nothing = _CheatVerdicts()
        by_id = {
            entry.test_id: _side(
                entry,
                references.get(entry.test_id, []),
                verdicts.get(entry.test_id, nothing),
                audits.get(entry.test_id),
            )
            for entry in _distinct(run.tests)
        }
        return cls(
            sides=by_id,
            failed={test_id: found.failed for test_id, found in verdicts.items()},
            stopped_early=frozenset(audit.test_id for audit in run.audits if audit.stopped_early),
            audited=run.audited,
            partial=run.partial,
        )

    def exposure(self, side: Side) -> _Exposure:
        """What is known of whether the test can be cheated."""
        if side.exploits:
            return _Exposure.EXPLOITABLE
        if side.unstable_exploits:
            return _Exposure.UNSTABLE
        # An audit that a stopped run did not reach is missing, not clean.
        unreached = self.partial and not side.audited and side.error_kind is not ErrorKind.INVALID
        if side.ungraded_exploits or unreached:
            return _Exposure.UNGRADED
        if not side.auditable:
            return _Exposure.NOT_AUDITABLE
        return _Exposure.SAFE if side.passing else _Exposure.UNPROVEN

    def refutes(self, test_id: str, label: str) -> bool:
        """Whether this arm knows that the cheat does not pass, rather than having left it untried."""
        return test_id not in self.stopped_early or label in self.failed.get(test_id, frozenset())


@dataclass(frozen=True, slots=True)
class _CheatVerdicts:
    """What the attempts of one test's cheats say, each a set of labels."""

    failed: frozenset[str] = frozenset()
    unstable: frozenset[str] = frozenset()
    ungraded: frozenset[str] = frozenset()


def _distinct(entries: Iterable[TestEntry]) -> list[TestEntry]:
    """Keep one entry for each id: an invalid one, so that a duplicate cannot hide it, else the first."""
    ordered = sorted(entries, key=lambda entry: (entry.invalid is None, entry.path, entry.line, entry.digest))
    kept: dict[str, TestEntry] = {}
    for entry in ordered:
        kept.setdefault(entry.test_id, entry)
    return list(kept.values())


def _telling(attempts: list[Record]) -> list[Record]:
    """The attempts that say something of the candidate, in order; all of them where none does."""
    if len(attempts) == 1:
        return attempts
    ordered = sorted(attempts, key=_attempt_order)
    return [item for item in ordered if item.error_kind is not ErrorKind.INFRASTRUCTURE] or ordered


def _attempt_order(record: Record) -> tuple[int, str, str, str, float]:
    return record.attempt, record.verdict, record.error_kind or "", record.message or "", record.ms


def _cheat_verdicts(cheats: Mapping[str, list[Record]]) -> _CheatVerdicts:
    failed, unstable, ungraded = set(), set(), set()
    for label, attempts in cheats.items():
        telling = [item for item in attempts if item.error_kind is not ErrorKind.INFRASTRUCTURE]
        passes = {item.verdict is Verdict.PASS for item in telling}
        if not telling:
            ungraded.add(label)
        elif len(passes) == 2:
            unstable.add(label)
        elif passes == {False}:
            failed.add(label)
    return _CheatVerdicts(frozenset(failed), frozenset(unstable), frozenset(ungraded))


def _side(entry: TestEntry, references: list[Record], cheats: _CheatVerdicts, audit: Audit | None) -> Side:
    telling = _telling(references)
    shown = next(
        (item for item in telling if item.verdict is not Verdict.PASS), telling[0] if telling else None
    )
    if shown is None and entry.invalid is not None:
        # A test that cannot be graded never reaches the grader, and is an error all the same.
        shown = Record(entry.test_id, REFERENCE, Verdict.ERROR, 0.0, ErrorKind.INVALID, message=entry.invalid)
        telling = [shown]
    exploits = () if audit is None else audit.passing_exploits
    return Side(
        suite=entry.suite,
        category=entry.category,
        path=entry.path,
        line=entry.line,
        digest=entry.digest,
        fields=entry.fields,
        verdict=shown.verdict if shown else None,
        verdicts=tuple(item.verdict for item in telling),
        error_kind=shown.error_kind if shown else None,
        phase=shown.phase if shown else None,
        message=(shown.message or entry.invalid) if shown else None,
        failure=shown.first_failure if shown else None,
        forbidden=shown.forbidden if shown else (),
        ms=shown.ms if shown else None,
        reused=shown.reused if shown else False,
        audited=audit is not None,
        auditable=audit is not None and audit.auditable,
        audit_reason=audit.reason if audit else None,
        exploits=tuple(item for item in exploits if item.label not in cheats.unstable),
        unstable_exploits=tuple(sorted(cheats.unstable)),
        ungraded_exploits=tuple(sorted(cheats.ungraded)),
        weak_spots=audit.weak_spots if audit else (),
        mutants_tried=audit.mutants_tried if audit else 0,
    )


def _change(test_id: str, base_view: _View, head_view: _View, environment: tuple[Reason, ...]) -> Change:
    base, head = base_view.sides.get(test_id), head_view.sides.get(test_id)
    shown = head or base
    assert shown is not None
    reasons: tuple[Reason, ...] = ()
    if head is None:
        kinds = {ChangeKind.REMOVED}
    elif base is None:
        kinds = _added_kinds(head, head_view)
    else:
        kinds = _reference_kinds(base, head)
        if base_view.audited and head_view.audited:
            kinds |= _exposure_kinds(test_id, base_view, head_view) | _mutant_kinds(base, head)
        edited = base.digest != head.digest
        reasons = (_edit(base, head), *environment) if edited else environment
        if not kinds:
            kinds = {ChangeKind.EDITED if edited else ChangeKind.UNCHANGED}
    kind, *also = sorted(kinds, key=lambda item: item.severity)
    return Change(test_id, shown.suite, shown.category, kind, tuple(also), base, head, reasons)


def _edit(base: Side, head: Side) -> Reason:
    """Say which fields were edited, where both arms say what theirs are."""
    edited = (name for name, digest in base.fields.items() if head.fields.get(name, digest) != digest)
    return Reason(Difference.TEST, fields=tuple(edited))


def _added_kinds(head: Side, view: _View) -> set[ChangeKind]:
    kinds = set()
    if not head.graded:
        kinds.add(ChangeKind.NOT_GRADED)
    elif head.never_passing:
        kinds.add(ChangeKind.BROKEN_WHEN_ADDED)
    if not head.stable or head.unstable_exploits:
        kinds.add(ChangeKind.UNSTABLE)
    if view.audited:
        exposure = view.exposure(head)
        if exposure is _Exposure.EXPLOITABLE:
            kinds.add(ChangeKind.EXPLOITABLE_WHEN_ADDED)
        elif exposure is _Exposure.UNGRADED:
            kinds.add(ChangeKind.NOT_GRADED)
    if not kinds & {ChangeKind.BROKEN_WHEN_ADDED, ChangeKind.EXPLOITABLE_WHEN_ADDED}:
        kinds.add(ChangeKind.ADDED)
    return kinds


def _reference_kinds(base: Side, head: Side) -> set[ChangeKind]:
    kinds = set()
    if not (base.stable and head.stable):
        kinds.add(ChangeKind.UNSTABLE)
    if not (base.graded and head.graded):
        kinds.add(ChangeKind.NOT_GRADED)
    # Neither needs a stable fail: a reference that now fails or times out, but never passes, regressed.
    elif base.passing and head.never_passing:
        kinds.add(ChangeKind.REGRESSED)
    elif base.never_passing and head.passing:
        kinds.add(ChangeKind.FIXED)
    return kinds


def _exposure_kinds(test_id: str, base_view: _View, head_view: _View) -> set[ChangeKind]:
    base, head = base_view.sides[test_id], head_view.sides[test_id]
    before, after = base_view.exposure(base), head_view.exposure(head)
    kinds = set()
    if base.unstable_exploits or head.unstable_exploits:
        kinds.add(ChangeKind.UNSTABLE)
    if _Exposure.UNGRADED in (before, after):
        kinds.add(ChangeKind.NOT_GRADED)
    match before, after:
        case ((_Exposure.SAFE | _Exposure.UNPROVEN), _Exposure.EXPLOITABLE):
            kinds.add(ChangeKind.NEWLY_EXPLOITABLE)
        case _Exposure.EXPLOITABLE, _Exposure.SAFE:
            kinds.add(ChangeKind.HARDENED)
        case _Exposure.EXPLOITABLE, _Exposure.EXPLOITABLE:
            gone = {item.label for item in base.exploits} - {item.label for item in head.exploits}
            new = {item.label for item in head.exploits} - {item.label for item in base.exploits}
            # A cheat that the other arm left untried, having found one before it, is no difference.
            if any(head_view.refutes(test_id, label) for label in gone) or any(
                base_view.refutes(test_id, label) for label in new
            ):
                kinds.add(ChangeKind.EXPOSURE_CHANGED)
        case (
            (_Exposure.EXPLOITABLE, _Exposure.NOT_AUDITABLE)
            | (_Exposure.EXPLOITABLE, _Exposure.UNPROVEN)
            | (_Exposure.NOT_AUDITABLE, _Exposure.EXPLOITABLE)
        ):
            # Neither new nor gone as far as anyone knows, but what is known did change.
            kinds.add(ChangeKind.EXPOSURE_CHANGED)
    return kinds


def _mutant_kinds(base: Side, head: Side) -> set[ChangeKind]:
    """More mutants survive, of as many tried or by share where the arms tried different numbers."""
    if not (base.auditable and head.auditable and base.mutants_tried and head.mutants_tried):
        return set()
    before, after = len(base.weak_spots), len(head.weak_spots)
    worse = after > before and after * base.mutants_tried > before * head.mutants_tried
    return {ChangeKind.WEAKENED} if worse else set()


def _environment_reasons(base: Environment | None, head: Environment | None) -> tuple[Reason, ...]:
    if base is None or head is None:
        return ()
    found = []
    if base.grader_digest != head.grader_digest:
        found.append(Reason(Difference.GRADER))
    if (base.wordpress, base.wordpress_digest) != (head.wordpress, head.wordpress_digest):
        found.append(Reason(Difference.WORDPRESS, base.wordpress, head.wordpress))
    if (base.php, base.php_digest) != (head.php, head.php_digest):
        found.append(Reason(Difference.PHP, base.php, head.php))
    for what, before, after in (
        (Difference.SQLITE, base.sqlite, head.sqlite),
        (Difference.DATABASE, base.database, head.database),
        (Difference.RUNTIME, base.runtime, head.runtime),
    ):
        if before != after:
            found.append(Reason(what, before, after))
    return tuple(found)


def summary(run: RunResult) -> RunSummary:
    """Say what the reader should know of one run beside its tests."""
    return RunSummary(
        audited=run.audited,
        partial=run.partial,
        seconds=run.seconds,
        tests=len(run.tests),
        records=len(run.records),
        reused=sum(record.reused for record in run.records),
        notes=run.notes,
    )


def _categories(base: Iterable[Side], head: Iterable[Side]) -> tuple[CategoryRow, ...]:
    before, after = category_counts(base), category_counts(head)
    nothing = CategoryCounts()
    return tuple(
        CategoryRow(category, before.get(category, nothing), after.get(category, nothing))
        for category in sorted(before.keys() | after.keys())
    )


def category_counts(members: Iterable[Side]) -> dict[str, CategoryCounts]:
    """Count the tests of one run by category, in the order of the categories' names."""
    grouped: defaultdict[str, list[Side]] = defaultdict(list)
    for side in members:
        grouped[side.category].append(side)
    return {category: _counts(grouped[category]) for category in sorted(grouped)}


def _counts(members: Collection[Side]) -> CategoryCounts:
    return CategoryCounts(
        tests=len(members),
        passing=sum(side.passing for side in members),
        exploitable=sum(bool(side.exploits) for side in members),
        not_auditable=sum(side.audited and not side.auditable for side in members),
        invalid=sum(side.error_kind is ErrorKind.INVALID for side in members),
        not_graded=sum(not side.graded for side in members),
    )
