"""From what a worker says of a candidate to a record, and the threads that keep workers busy."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from refcompare.errors import EnvironmentFailure
from refcompare.execution.model import Candidate, ExecutionTest, InvalidTest, Limits
from refcompare.execution.worker import Outcome, TooLarge, Worker, WorkerDied, effective_assertions
from refcompare.results import AssertionResult, ErrorKind, Phase, Record, Verdict
from refcompare.wordpress.runtime import Runtime

PASS_SCORE = 0.999
"""The weighted share of passed assertions from which a test counts as passed (wp-bench scoring 3.0)."""

_TRIES = 2
"""How often a candidate is put before a fresh worker when the worker dies under it."""


class GradingThread:
    """Grades one candidate after the other on a worker of its own, replaced when it is no longer fit.

    Belongs to one thread, since a worker ends with the thread that started it; only ``abort`` may
    be called from another one.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._worker: Worker | None = None
        self._aborted = False

    def grade(self, test: ExecutionTest, candidate: Candidate, limits: Limits, attempt: int = 1) -> Record:
        """Grade a candidate; every failure of the environment becomes an ``infrastructure`` record.

        A worker that dies or hangs is replaced and the candidate graded anew. The candidate is blamed
        only where that happens again and nothing outside of the worker has ended either.
        """
        cause: str | None = None
        for _ in range(_TRIES):
            try:
                outcome = self._ready().grade(test, candidate, limits)
            except WorkerDied as error:
                self.close()
                if self._aborted:
                    return _error(test, candidate, attempt, ErrorKind.INFRASTRUCTURE, "the run was stopped")
                died, cause = error, cause or error.cause
                continue
            except EnvironmentFailure as failure:
                return _error(test, candidate, attempt, ErrorKind.INFRASTRUCTURE, str(failure))
            except TooLarge as large:
                message = f"the test or the candidate is too large: {large}"
                return _error(test, candidate, attempt, ErrorKind.INVALID, message)
            return record_of(test, candidate, outcome, attempt)
        if cause is not None:
            message = f"the worker died under this candidate {_TRIES} times, and not by itself: {cause}"
            return _error(test, candidate, attempt, ErrorKind.INFRASTRUCTURE, message)
        if died.stuck:
            message = f"the worker itself did not answer within {limits.seconds:g} s, {_TRIES} times"
            return _error(test, candidate, attempt, ErrorKind.TIMEOUT, message)
        message = f"the worker died under this candidate {_TRIES} times: {died}"
        return _error(test, candidate, attempt, ErrorKind.TAMPERED, message)

    def close(self) -> None:
        """End the worker, if there is one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def prepare(self) -> None:
        """Start the worker now. Raises EnvironmentFailure where it cannot be started."""
        self._ready()

    def process_id(self) -> int:
        """Give the id of the worker's outermost process, starting it if need be."""
        return self._ready().process_id

    def abort(self) -> None:
        """Stop what is being graded, from any thread; its record says that the run was stopped."""
        self._aborted = True
        worker = self._worker
        if worker is not None:
            worker.kill()

    def _ready(self) -> Worker:
        if self._worker is not None and not self._worker.fit:
            self.close()
        if self._worker is None:
            self._worker = Worker(self._runtime)
        return self._worker


def _error(test: ExecutionTest, candidate: Candidate, attempt: int, kind: ErrorKind, message: str) -> Record:
    return Record(
        test.id, candidate.name, Verdict.ERROR, 0.0, error_kind=kind, message=message, attempt=attempt
    )


def invalid_record(test: InvalidTest, candidate: str) -> Record:
    """Give the record of a test that cannot be graded: nothing ran."""
    message = f"{test.path}:{test.line}: {test.reason}"
    return Record(test.id, candidate, Verdict.ERROR, 0.0, error_kind=ErrorKind.INVALID, message=message)


def record_of(test: ExecutionTest, candidate: Candidate, outcome: Outcome, attempt: int = 1) -> Record:
    """Judge an outcome (pure).

    Only a statement that the grader signed can lead to pass or fail. A pass needs the candidate to
    have run to its end, a weighted score of at least ``PASS_SCORE`` and no forbidden pattern.
    """
    if outcome.verdict is not None:
        try:
            return _judge(test, candidate, outcome, outcome.verdict, attempt)
        except (KeyError, TypeError, ValueError):
            # Signed, but not made by the grader: whoever got at the secret ends up here.
            outcome = replace(outcome, verdict=None, forged=True)
    kind, where, message = _why_unsigned(outcome)
    return Record(
        test.id,
        candidate.name,
        Verdict.ERROR,
        round(outcome.ms, 3),
        error_kind=kind,
        phase=where,
        message=message,
        output=outcome.ending.stderr,
        attempt=attempt,
    )


def _judge(
    test: ExecutionTest, candidate: Candidate, outcome: Outcome, statement: Mapping[str, Any], attempt: int
) -> Record:
    """Judge what the grader signed. Raises KeyError, TypeError or ValueError where it is not of its form."""
    static = statement["static"]
    phase = Phase(statement["phase"]) if statement["phase"] else None
    assertions = _assertions(test, statement["assertions"], complete=phase is None)
    score = _score(assertions)
    forbidden = tuple(
        item["description"]
        for item in static["forbidden"]
        if item["severity"] == "error" and (item["found"] or item["error"])
    )
    verdict, kind_or_none = Verdict.FAIL, None
    if statement["tampered"]:
        verdict, kind_or_none = Verdict.ERROR, ErrorKind.TAMPERED
    elif phase is None and score is not None and score >= PASS_SCORE and not forbidden:
        verdict = Verdict.PASS
    return Record(
        test.id,
        candidate.name,
        verdict,
        round(outcome.ms, 3),
        error_kind=kind_or_none,
        phase=phase,
        message=statement["tampered"] or statement["message"],
        assertions=assertions,
        score=score,
        forbidden=forbidden,
        missing=tuple(item["description"] for item in static["required"] if not item["found"]),
        output=statement["output"] or outcome.ending.stderr,
        attempt=attempt,
    )


def _assertions(
    test: ExecutionTest, results: list[Mapping[str, Any]], *, complete: bool
) -> tuple[AssertionResult, ...]:
    """Pair results with what was asked, in order; ``complete`` says that none may be missing."""
    return tuple(
        AssertionResult(
            type=str(authored.get("type", "")),
            description=str(authored.get("description") or authored.get("type", "")),
            passed=result["passed"] is True,
            weight=float(authored.get("weight", 1.0)),
            message=result["message"],
            expected=result["expected"],
            actual=result["actual"],
        )
        for authored, result in zip(effective_assertions(test), results, strict=complete)
    )


def _score(assertions: tuple[AssertionResult, ...]) -> float | None:
    total = sum(item.weight for item in assertions)
    if not assertions:
        return None
    return round(sum(item.weight for item in assertions if item.passed) / total, 4) if total else 0.0


def _why_unsigned(outcome: Outcome) -> tuple[ErrorKind, Phase, str]:
    """Name the error of a candidate whose process ended without a signed verdict."""
    ending = outcome.ending
    phase = Phase.ASSERTIONS if outcome.finished else Phase.CANDIDATE
    where = "while the assertions ran" if outcome.finished else "before the assertions ran"
    if outcome.forged:
        return ErrorKind.TAMPERED, phase, f"something else than the grader answered {where}"
    if ending.timeout:
        return ErrorKind.TIMEOUT, phase, f"it did not finish in time: the limit passed {where}"
    text = ending.stderr.strip()
    if ending.status == _NO_MEMORY_STATUS or "Allowed memory size" in text or "Out of memory" in text:
        return ErrorKind.OUT_OF_MEMORY, phase, _fatal(text) or "it ran out of memory"
    if ending.signal == _FATAL_SIGNAL or ending.status is not None:
        return ErrorKind.CRASH, phase, _fatal(text) or f"PHP ended with a fatal error {where}"
    if ending.signal is not None and ending.signal != _EXIT_SIGNAL:
        return ErrorKind.CRASH, phase, f"the process was killed by signal {ending.signal} {where}"
    return ErrorKind.TAMPERED, phase, f"the process ended itself {where}"


# A child never lives through PHP's own shutdown (see Child::guard() in php/src/class-child.php),
# so one that has a status was ended by PHP's C code, which does so when the system denies it memory.
_EXIT_SIGNAL = signal.SIGTERM
_FATAL_SIGNAL = signal.SIGABRT
_NO_MEMORY_STATUS = 1


def _fatal(text: str) -> str | None:
    """Give PHP's own sentence about a fatal error out of what it printed."""
    for line in text.splitlines():
        for mark in ("Fatal error: ", "Parse error: "):
            if mark in line:
                return line.split(mark, 1)[1].strip()[:500]
    return None
