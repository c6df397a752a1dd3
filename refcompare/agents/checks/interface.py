"""What every check answers: what a trial left behind goes in, passed and a score come out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from refcompare.agents.programs.trajectory import Trajectory
from refcompare.agents.workspace.capture import WorkspaceChange
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.results import Record


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check says: whether it passed, a score from 0 to 1, and why.

    Both are None where nothing can be said: because what the check is about is ``absent`` from this arm's
    tree, or because the environment failed. Such a trial does not count for this metric.
    """

    passed: bool | None
    score: float | None
    message: str = ""
    absent: bool = False

    @classmethod
    def of(cls, passed: bool, message: str = "", score: float | None = None) -> CheckResult:
        """Give a result that counts; without a score it is 1 or 0."""
        return cls(passed, float(passed) if score is None else score, "" if passed else message)

    @classmethod
    def missing(cls, message: str) -> CheckResult:
        """Say that this arm's tree has not what the check is about."""
        return cls(None, None, message, absent=True)

    @classmethod
    def ungraded(cls, message: str) -> CheckResult:
        """Say that the environment failed, so that nothing is known."""
        return cls(None, None, message)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a confined command ended. ``exit_code`` is None where it was stopped at its time limit.

    ``output`` is the start of what it printed on both streams.
    """

    exit_code: int | None
    output: str


class ArmFiles(Protocol):
    """The files that the agent was given, as they were: what this arm's own tree says."""

    def read(self, path: str) -> bytes | None:
        """Give a file's bytes, also by the path of a link to it; None where the arm has no such file."""

    def canonical(self, path: str) -> str:
        """Give the path under which the tree has a file that was reached by a link or as a copy."""


class Tools(Protocol):
    """What grades a result by running it, always confined."""

    def command(self, command: str, seconds: float) -> CommandResult:
        """Run a shell command in the workspace as the agent left it, without network.

        Raises EnvironmentFailure where nothing can be run.
        """

    def wordpress(self, test: ExecutionTest, candidate: Candidate, limits: Limits) -> Record:
        """Grade a plugin in a fresh WordPress."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a trial left behind. ``workspace`` is the host's path of the workspace after the run."""

    trajectory: Trajectory
    change: WorkspaceChange
    workspace: Path
    arm: ArmFiles
    tools: Tools


class Check(Protocol):
    """One check of an eval, the same on both arms."""

    @property
    def label(self) -> str:
        """What the metric is called where the eval gives it no name."""

    def grade(self, evidence: Evidence) -> CheckResult:
        """Judge one trial. Raises EnvironmentFailure where what it needs is missing or broken."""
