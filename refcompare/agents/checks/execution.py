"""The check that grades execution tests which the agent wrote: by their reference, and by every cheat."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from refcompare.agents.checks.interface import CheckResult, Evidence
from refcompare.agents.workspace.capture import read_file
from refcompare.errors import EnvironmentFailure
from refcompare.execution.audit import audit_test
from refcompare.execution.exploits import battery
from refcompare.execution.model import Candidate, ExecutionTest, InvalidTest, Limits
from refcompare.globs import covers
from refcompare.pipeline import reference_candidate
from refcompare.results import ErrorKind, Record, Verdict
from refcompare.suites import SuiteSet, load_suites
from refcompare.tree import TreeFile
from refcompare.wording import quoted

MOST_TESTS = 20
"""How many tests one trial may add or edit for them to be graded."""

MOST_SECONDS = 900.0
"""Wall time in which all of them are graded, in seconds."""

_LARGEST = 4 * 1024 * 1024
_MOST_FILES = 50
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ExecutionTests:
    """Every execution test that was added or edited in ``path``, a glob, is worth having.

    Its reference passes in a fresh WordPress, no cheat of the whole battery does, each PHP snippet of
    ``accepts`` passes too and none of ``rejects``. No test of the arm may be gone or have become one that
    cannot be graded. ``ids`` names tests that have to be among those that were added or edited; without
    it, any one will do. The score is the share of the tests that hold. ``seconds`` bounds one candidate.
    """

    path: str
    ids: tuple[str, ...] = ()
    accepts: tuple[str, ...] = ()
    rejects: tuple[str, ...] = ()
    seconds: float = 30.0

    @property
    def label(self) -> str:
        """``execution-tests PATH``."""
        return f"execution-tests {self.path}"

    def grade(self, evidence: Evidence) -> CheckResult:
        """Load what changed from both trees, and put candidates before the tests that differ."""
        if evidence.change.omitted:
            return CheckResult.of(False, "more files changed than are listed")
        paths = [change.path for change in evidence.change.files if covers(self.path, change.path)]
        if len(paths) > _MOST_FILES:
            return CheckResult.of(False, f"{len(paths):,} suite files changed, {_MOST_FILES} are looked at")
        before = _load({path: evidence.arm.read(path) for path in paths})
        after = _load({path: read_file(evidence.workspace, path, _LARGEST) for path in paths})
        written = _written(before, after)
        if len(written) > MOST_TESTS:
            return CheckResult.of(False, f"{len(written)} tests were written, {MOST_TESTS} are graded")
        faults = [*_lost(before, after), *self._unwritten(written)]
        if not written and not faults:
            return CheckResult.of(False, "no test was added or edited")
        grading = _Grading(self, evidence, time.monotonic() + MOST_SECONDS)
        faulty = [fault for test in written for fault in grading.fault(test)]
        judged = len(written) + len(faults)
        faults += faulty
        return CheckResult.of(not faults, _sentence(faults), 1 - len(faults) / judged)

    def _unwritten(self, written: tuple[ExecutionTest, ...]) -> Iterator[str]:
        """Say which of the tests that had to be written were not."""
        found = {test.id for test in written}
        for test_id in self.ids:
            if test_id not in found:
                yield f"{quoted(test_id)} was neither added nor edited"


@dataclass(frozen=True, slots=True)
class _Grading:
    """Puts candidates before one test after the other, until ``deadline`` on the monotonic clock."""

    check: ExecutionTests
    evidence: Evidence
    deadline: float

    def fault(self, test: ExecutionTest) -> Iterator[str]:
        """Give the sentence on the first thing that is wrong with a test, if anything is."""
        reference = self._grade(test, reference_candidate(test))
        if reference.verdict is not Verdict.PASS:
            yield f"{quoted(test.id)}: its reference does not pass ({_why(reference)})"
            return
        for number, code in enumerate(self.check.accepts, 1):
            record = self._grade(test, Candidate(f"completion:right-{number}", code))
            if record.verdict is not Verdict.PASS:
                yield f"{quoted(test.id)}: right answer {number} does not pass ({_why(record)})"
                return
        for number, code in enumerate(self.check.rejects, 1):
            if self._grade(test, Candidate(f"completion:wrong-{number}", code)).verdict is Verdict.PASS:
                yield f"{quoted(test.id)}: wrong answer {number} passes"
                return
        cheats = battery(test, mutants=0)
        if not cheats.auditable:
            yield f"{quoted(test.id)}: no cheat can be put before it ({cheats.reason})"
            return
        audit, _ = audit_test(test, cheats, self._grade)
        if audit.passing_exploits:
            labels = ", ".join(item.label for item in audit.passing_exploits[:_SHOWN])
            yield f"{quoted(test.id)}: a cheat passes ({labels})"

    def _grade(self, test: ExecutionTest, candidate: Candidate) -> Record:
        """Grade one candidate. Raises EnvironmentFailure where nothing can be said of it."""
        if time.monotonic() > self.deadline:
            raise EnvironmentFailure(f"the tests could not all be graded within {MOST_SECONDS:g} s")
        record = self.evidence.tools.wordpress(test, candidate, Limits(seconds=self.check.seconds))
        if record.error_kind is ErrorKind.INFRASTRUCTURE:
            raise EnvironmentFailure(record.message or "WordPress could not grade it")
        return record


@dataclass(frozen=True, slots=True)
class _Files:
    """The changed suite files of one side as a tree."""

    contents: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """One over paths and bytes."""
        return sha256(repr(sorted(self.contents.items())).encode()).hexdigest()

    def files(self) -> Iterator[TreeFile]:
        """Give the files by path."""
        for path in sorted(self.contents):
            yield TreeFile(path, len(self.contents[path]))

    def read(self, path: str) -> bytes:
        """Give a file's bytes."""
        return self.contents[path]


def _load(files: Mapping[str, bytes | None]) -> SuiteSet:
    """Load the tests of files; a file that is longer than is read has bytes that no JSON ends in."""
    present = {path: data for path, data in files.items() if data is not None}
    return load_suites(_Files(present), tuple(present))


def _written(before: SuiteSet, after: SuiteSet) -> tuple[ExecutionTest, ...]:
    """Give the tests that only the result has, or has differently."""
    known = {test.id: test.entry_digest for test in before.tests}
    return tuple(test for test in after.tests if known.get(test.id) != test.entry_digest)


def _lost(before: SuiteSet, after: SuiteSet) -> Iterator[str]:
    """Say which tests of the arm are gone, and what the result has that cannot be graded."""
    left = {test.id for test in after.tests} | {item.id for item in after.invalid}
    known = {(item.id, item.reason) for item in before.invalid}
    for test in before.tests:
        if test.id not in left:
            yield f"{quoted(test.id)} is gone"
    for item in after.invalid:
        if (item.id, item.reason) not in known:
            yield _invalid(item)


def _invalid(item: InvalidTest) -> str:
    return f"{item.path}:{item.line}: {item.reason}"


def _why(record: Record) -> str:
    failure = record.first_failure
    if failure is not None:
        return f"{failure.description}: {failure.message or 'it did not hold'}"
    if record.forbidden:
        return f"it holds what is forbidden: {record.forbidden[0]}"
    return record.message or record.verdict.value


def _sentence(faults: list[str]) -> str:
    rest = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    return "; ".join(faults[:_SHOWN]) + rest
