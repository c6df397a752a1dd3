"""Checks of what the agent read: contents that came back from tools, not paths that were named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from refcompare.agents.checks.calls import is_search
from refcompare.agents.checks.interface import CheckResult, Evidence
from refcompare.agents.checks.landmarks import landmarks, share_seen, words
from refcompare.agents.programs.trajectory import Call
from refcompare.results import JSON

MOST_READ = 0.9
"""The share of a file from which it counts as read."""

LEAST_READ = 0.2
"""The share of a file up to which it counts as not read: somebody looked in and turned away."""

_LARGEST = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Read:
    """The agent was given at least this share of a file's contents. The score is the share."""

    path: str
    at_least: float = MOST_READ

    @property
    def label(self) -> str:
        """``read PATH``."""
        return f"read {self.path}"

    def grade(self, evidence: Evidence) -> CheckResult:
        """Look for the file's landmarks, as this arm has them, in what tools gave back."""
        share = _share(self.path, evidence)
        if isinstance(share, CheckResult):
            return share
        return CheckResult.of(share >= self.at_least, f"{share:.0%} of it came back", share)


@dataclass(frozen=True, slots=True)
class NotRead:
    """The agent was given at most this share of a file's contents. The score is the share not read."""

    path: str
    at_most: float = LEAST_READ

    @property
    def label(self) -> str:
        """``not-read PATH``."""
        return f"not-read {self.path}"

    def grade(self, evidence: Evidence) -> CheckResult:
        """Look for the file's landmarks, as this arm has them, in what tools gave back."""
        share = _share(self.path, evidence)
        if isinstance(share, CheckResult):
            return share
        return CheckResult.of(share <= self.at_most, f"{share:.0%} of it came back", 1 - share)


def _share(path: str, evidence: Evidence) -> float | CheckResult:
    data = evidence.arm.read(path)
    if data is None:
        return CheckResult.missing(f"{path} is not on this arm")
    marks = landmarks(data[:_LARGEST].decode("utf-8", "replace"))
    if not marks:
        return CheckResult.missing(f"{path} has no text on this arm by which reading it could be told")
    return share_seen(marks, _returned(path, evidence))


def _returned(path: str, evidence: Evidence) -> Iterator[str]:
    """Give every text that came back and may be of the file."""
    wanted = evidence.arm.canonical(path)
    known: dict[int, set[str]] = {}
    for read in evidence.trajectory.reads:
        where = evidence.arm.canonical(read.path)
        known.setdefault(read.call, set()).add(where)
        if where == wanted:
            yield read.content
    for number, call in enumerate(evidence.trajectory.calls):
        others = known.get(number, {wanted})
        failed = call.is_error and call.exit_code is None
        if wanted in others and not failed and not is_search(call):
            yield _without_input(call)


def _without_input(call: Call) -> str:
    """Give an output without the lines that the agent itself had put into the call."""
    given = words("\n".join(_strings(call.input)))
    lines = call.output.splitlines()
    return "\n".join(line for line in lines if not line.strip() or words(line) not in given)


def _strings(value: JSON) -> Iterator[str]:
    """Give every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _strings(item)
