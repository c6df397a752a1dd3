"""The exploit audit of one test: hands out a battery's candidates and says what their records mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from refcompare.execution.exploits.model import Battery, Exploit, Mutant
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.results import Audit, ErrorKind, PassingExploit, Record, Verdict, WeakSpot

Grade = Callable[[ExecutionTest, Candidate], Record]
"""Grades one candidate. Failing to grade is a record with verdict ``error``, never an exception."""


PATIENCE = (5.0, 15.0, 45.0)
"""Seconds that a cheat may take, of which one is chosen: few, so that a known verdict is found again."""

TIMES_THE_REFERENCE = 20
"""A cheat is no more work than the reference; what takes so many times as long will not end."""


def patience(limits: Limits, reference: Record | None) -> Limits:
    """Give the limits for the cheats of a test: fewer seconds where its reference passes in a moment.

    A cheat that times out is a loop without an end, a mutant's mostly. Errors are not kept for the next run,
    so that it would cost its whole limit in each. Without a passing reference the limits stay as they are.
    """
    if reference is None or reference.verdict is not Verdict.PASS:
        return limits
    needed = TIMES_THE_REFERENCE * reference.ms / 1000
    enough = next((seconds for seconds in PATIENCE if seconds >= needed), limits.seconds)
    return replace(limits, seconds=min(enough, limits.seconds))


class AuditPlan:
    """One test's audit as steps, so that several workers can take part in it.

    Call ``next`` for candidates until it gives None, and ``record`` with each one's record, in any
    order. By default no more cheats of a class are handed out once one of it has passed
    (``exhaustive``: all are); mutants are always all tried. What the result says does not depend
    on how many candidates were under way at once: a record that one worker alone would not have
    asked for is left out.
    """

    def __init__(self, test_id: str, battery: Battery, *, exhaustive: bool = False) -> None:
        self._test_id = test_id
        self._battery = battery
        self._exhaustive = exhaustive
        self._waiting: list[Exploit | Mutant] = [*reversed(battery.mutants), *reversed(battery.exploits)]
        self._handed_out: set[str] = set()
        self._records: dict[str, Record] = {}
        self._passed: set[str] = set()

    def next(self) -> Candidate | None:
        """Give the next candidate to grade; None when no more will be needed."""
        while self._waiting:
            item = self._waiting.pop()
            if isinstance(item, Exploit) and item.exploit_class in self._passed and not self._exhaustive:
                continue
            self._handed_out.add(item.candidate.name)
            return item.candidate
        return None

    def record(self, record: Record) -> None:
        """Take one candidate's record. Raises ValueError for one that was not handed out."""
        if record.candidate not in self._handed_out:
            raise ValueError(f"no candidate {record.candidate!r} of {self._test_id} is under way")
        self._handed_out.remove(record.candidate)
        self._records[record.candidate] = record
        if record.verdict is Verdict.PASS:
            name = record.candidate
            self._passed |= {
                item.exploit_class for item in self._battery.exploits if item.candidate.name == name
            }

    @property
    def finished(self) -> bool:
        """Whether every candidate that is needed has its record."""
        return not self._handed_out and all(
            isinstance(item, Exploit) and item.exploit_class in self._passed and not self._exhaustive
            for item in self._waiting
        )

    def records(self) -> tuple[Record, ...]:
        """Give the records that count, cheats in battery order and then mutants."""
        items: list[Exploit | Mutant] = [*self._counted(), *self._battery.mutants]
        found = (self._records.get(item.candidate.name) for item in items)
        return tuple(record for record in found if record is not None)

    def result(self) -> Audit:
        """Say what the records so far mean. An unfinished audit says so in its reason.

        A candidate that the environment failed to grade counts neither as tried nor as not
        passing: its number is in the reason.
        """
        counted = self._counted()
        records = self.records()
        tried = {record.candidate for record in records if not _failed(record)}
        passing = {record.candidate for record in records if record.verdict is Verdict.PASS}
        return Audit(
            test_id=self._test_id,
            auditable=self._battery.auditable,
            passing_exploits=tuple(
                PassingExploit(item.label, item.exploit_class, item.code)
                for item in counted
                if item.candidate.name in passing
            ),
            weak_spots=tuple(
                WeakSpot(item.line, item.mutation, item.label)
                for item in self._battery.mutants
                if item.candidate.name in passing
            ),
            candidates_tried=sum(item.candidate.name in tried for item in counted),
            mutants_tried=sum(item.candidate.name in tried for item in self._battery.mutants),
            gateway=self._battery.gateway,
            inferred=self._battery.inferred,
            stopped_early=len(counted) < len(self._battery.exploits),
            reason=self._reason(sum(_failed(record) for record in records)),
        )

    def _counted(self) -> list[Exploit]:
        """Give the cheats up to and including the first passing one of each class."""
        counted: list[Exploit] = []
        passed: set[str] = set()
        for item in self._battery.exploits:
            if item.exploit_class in passed and not self._exhaustive:
                continue
            counted.append(item)
            record = self._records.get(item.candidate.name)
            if record is not None and record.verdict is Verdict.PASS:
                passed.add(item.exploit_class)
        return counted

    def _reason(self, failed: int) -> str | None:
        sentences = [self._battery.reason, *self._battery.notes]
        if failed:
            sentences.append(f"the environment failed to grade {failed} of the candidates")
        if not self.finished:
            sentences.append("the audit was stopped before every candidate was tried")
        return "; ".join(sentence for sentence in sentences if sentence) or None


def audit_test(
    test: ExecutionTest, battery: Battery, grade: Grade, *, exhaustive: bool = False
) -> tuple[Audit, tuple[Record, ...]]:
    """Audit one test, one candidate after the other; give the audit and the records behind it."""
    plan = AuditPlan(test.id, battery, exhaustive=exhaustive)
    while (candidate := plan.next()) is not None:
        plan.record(grade(test, candidate))
    return plan.result(), plan.records()


def _failed(record: Record) -> bool:
    return record.verdict is Verdict.ERROR and record.error_kind is ErrorKind.INFRASTRUCTURE
