"""The one orchestrator: arms become records, and records are confirmed before they are believed."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from refcompare.compare import suspects
from refcompare.execution.audit import AuditPlan, patience
from refcompare.execution.bench import Bench, Floor, Memory
from refcompare.execution.exploits import battery
from refcompare.execution.grading import invalid_record
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.results import REFERENCE, Arm, Audit, Record, RunResult, Verdict
from refcompare.suites import SuiteSet, entries
from refcompare.wordpress.runtime import Runtime


@dataclass(frozen=True, slots=True)
class ArmInput:
    """One arm before it runs: what it is, the tests of its tree, and what grades them."""

    arm: Arm
    suites: SuiteSet
    runtime: Runtime


@dataclass(frozen=True, slots=True)
class Plan:
    """How arms are run. ``confirm`` counts the reruns on each side before a change is reported.

    With ``fresh`` no verdict is reused, neither from the cache nor from the other arm.
    """

    limits: Limits = field(default_factory=Limits)
    jobs: int = 1
    confirm: int = 3
    references: bool = True
    audit: bool = True
    exhaustive: bool = False
    mutants: int = 20
    seed: int = 0
    fresh: bool = False


class Listener(Protocol):
    """Hears what happens during a run. Called in the main thread."""

    def begin(self, phase: str, total: int) -> None:
        """A phase starts: ``grading`` with a number of tests, or ``confirming`` with one of reruns."""

    def recorded(self, arm: str, record: Record) -> None:
        """A record came into being on an arm."""

    def advance(self) -> None:
        """One more of the phase's total is done."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A test to be graded once for every arm named in ``arms``, all alike in what grading depends on."""

    test: ExecutionTest
    runtime: Runtime
    arms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Graded:
    piece: _Piece
    records: tuple[Record, ...]
    audit: Audit | None = None


@dataclass(frozen=True, slots=True)
class _Rerun:
    arm: str
    test: ExecutionTest
    candidate: Candidate
    runtime: Runtime
    attempt: int


class Interrupted(Exception):
    """The run was stopped; ``results`` hold what there was, marked partial."""

    def __init__(self, results: tuple[RunResult, ...]) -> None:
        super().__init__("the run was stopped")
        self.results = results


def run_arms(
    arms: Sequence[ArmInput], plan: Plan, memory: Memory, listener: Listener
) -> tuple[RunResult, ...]:
    """Grade every test of every arm, audit it where asked, and confirm what looks like a change.

    Raises Interrupted on Ctrl-C, and EnvironmentFailure where nothing can be graded.
    """
    started = time.monotonic()
    graded: list[_Graded] = []
    reruns: dict[str, list[Record]] = defaultdict(list)
    floor: Floor[_Piece, _Graded] = Floor(plan.jobs, lambda: Bench(memory, plan.limits))
    pieces = _pieces(arms, plan)

    def results(partial: bool) -> tuple[RunResult, ...]:
        seconds = round(time.monotonic() - started, 3)
        return tuple(_result(arm, graded, reruns[arm.arm.name], plan, partial, seconds) for arm in arms)

    try:
        for arm in arms:
            for test in arm.suites.invalid:
                listener.recorded(arm.arm.name, invalid_record(test, REFERENCE))
        listener.begin("grading", len(pieces))
        for done in floor.work(pieces, lambda bench, piece: _grade(bench, piece, plan)):
            graded.append(done)
            for name in done.piece.arms:
                for record in done.records:
                    listener.recorded(name, record)
            listener.advance()
        if len(arms) == 2 and plan.confirm:
            _confirm(arms, results(False), plan, memory, listener, reruns)
    except KeyboardInterrupt:
        raise Interrupted(results(True)) from None
    return results(False)


def begun(arm: ArmInput, plan: Plan) -> RunResult:
    """Give an arm's result before anything has run."""
    return _result(arm, (), (), plan, True, 0.0)


def _pieces(arms: Sequence[ArmInput], plan: Plan) -> list[_Piece]:
    """Give the tests to grade; one that is the same on both arms is graded once for both."""
    together: dict[object, list[tuple[str, ExecutionTest, Runtime]]] = {}
    for arm in arms:
        for test in arm.suites.tests:
            key: object = (test.id, test.entry_digest, test.digest, arm.runtime.environment)
            if plan.fresh:
                key = (key, arm.arm.name)
            together.setdefault(key, []).append((arm.arm.name, test, arm.runtime))
    return [
        _Piece(group[0][1], group[0][2], tuple(name for name, _, _ in group)) for group in together.values()
    ]


def reference_candidate(test: ExecutionTest) -> Candidate:
    """Give a test's own solution as a candidate: its files for a plugin, its code otherwise."""
    if test.artifact_kind == "wp_plugin_files":
        return Candidate(REFERENCE, files=test.reference_files or {})
    return Candidate(REFERENCE, code=test.reference_solution or "")


def _grade(bench: Bench, piece: _Piece, plan: Plan) -> _Graded:
    records = []
    reference = None
    if plan.references:
        reference = bench.grade(piece.runtime, piece.test, reference_candidate(piece.test))
        records.append(reference)
    if not plan.audit:
        return _Graded(piece, tuple(records))
    # Mutants of a reference that does not pass say nothing about the test.
    passes = reference is not None and reference.verdict is Verdict.PASS
    cheats = battery(piece.test, mutants=plan.mutants if passes else 0, seed=plan.seed)
    limits = patience(plan.limits, reference)
    audit = AuditPlan(piece.test.id, cheats, exhaustive=plan.exhaustive)
    while (candidate := audit.next()) is not None:
        record = bench.grade(piece.runtime, piece.test, candidate, limits=limits)
        audit.record(record)
        records.append(record)
    return _Graded(piece, tuple(records), audit.result())


def _confirm(
    arms: Sequence[ArmInput],
    results: tuple[RunResult, ...],
    plan: Plan,
    memory: Memory,
    listener: Listener,
    reruns: Mapping[str, list[Record]],
) -> None:
    """Run again, on both sides, whatever would be reported as a change for the worse."""
    wanted = list(_reruns(arms, results, plan.confirm))
    if not wanted:
        return
    listener.begin("confirming", len(wanted))
    floor: Floor[_Rerun, tuple[str, Record]] = Floor(plan.jobs, lambda: Bench(memory, plan.limits))
    for name, record in floor.work(wanted, _rerun):
        reruns[name].append(record)
        listener.recorded(name, record)
        listener.advance()


def _rerun(bench: Bench, rerun: _Rerun) -> tuple[str, Record]:
    return rerun.arm, bench.grade(rerun.runtime, rerun.test, rerun.candidate, rerun.attempt)


def _reruns(arms: Sequence[ArmInput], results: tuple[RunResult, ...], times: int) -> Iterable[_Rerun]:
    base, head = results
    tests = {(arm.arm.name, test.id): test for arm in arms for test in arm.suites.tests}
    runtimes = {arm.arm.name: arm.runtime for arm in arms}
    for arm, test_id, candidate_name in suspects(base, head):
        test = tests.get((arm, test_id))
        if test is None:
            continue  # invalid on this arm: there is nothing to run
        if candidate_name == REFERENCE:
            candidate = reference_candidate(test)
        else:
            # A label may stand for other code on the other arm: each arm runs its own again, and
            # an arm for which there is no cheat of that name is asked about the head's.
            own = _cheats(test).get(candidate_name)
            candidate = own or _cheats(tests[head.arm.name, test_id])[candidate_name]
        for attempt in range(2, 2 + times):
            yield _Rerun(arm, test, candidate, runtimes[arm], attempt)


def _cheats(test: ExecutionTest) -> Mapping[str, Candidate]:
    """Give a test's cheats by candidate name. Planned anew, since keeping those of every test is dear."""
    return {exploit.candidate.name: exploit.candidate for exploit in battery(test, mutants=0).exploits}


def _result(
    arm: ArmInput,
    graded: Iterable[_Graded],
    reruns: Sequence[Record],
    plan: Plan,
    partial: bool,
    seconds: float,
) -> RunResult:
    mine = [item for item in graded if arm.arm.name in item.piece.arms]
    ids = [*(test.id for test in arm.suites.tests), *(test.id for test in arm.suites.invalid)]
    order = {test_id: index for index, test_id in enumerate(ids)}
    records = [invalid_record(test, REFERENCE) for test in arm.suites.invalid]
    records += [record for item in mine for record in item.records]
    records += reruns
    records.sort(key=lambda record: order[record.test_id])
    audits = sorted((item.audit for item in mine if item.audit), key=lambda audit: order[audit.test_id])
    return RunResult(
        arm=replace(arm.arm, environment=arm.runtime.environment),
        tests=entries(arm.suites),
        records=tuple(records),
        audits=tuple(audits),
        audited=plan.audit,
        partial=partial,
        seconds=seconds,
        notes=arm.suites.notes,
    )
