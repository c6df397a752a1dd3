"""Stored trajectories, given again: for tests of checks, and for agents that ran elsewhere."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

from refcompare.agents.checks.shell import shell_line
from refcompare.agents.checks.shell_reads import shell_reads, skills_read
from refcompare.agents.model.gateway import GatewayHandle
from refcompare.agents.model.wire import Api
from refcompare.agents.programs.interface import Task
from refcompare.agents.programs.trajectory import Ending, Trajectory
from refcompare.agents.programs.trajectory_lines import read_lines
from refcompare.agents.sandbox.boundary import Boundary
from refcompare.errors import UsageError
from refcompare.trials import trial_from

_VARIABLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_VALUE = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True, slots=True)
class ReplayAgent:
    """Gives the trajectory that ``path`` holds: as an agent's program writes one, or the first stored trial.

    ``{name}`` in the path stands for the task's variable of that name. Nothing is run, so the workspace
    stays as it is.
    """

    path: str
    name: str = "replay"
    api: Api | None = None

    def prepare(self) -> None:
        """See that a file whose name does not depend on the eval can be read; see Agent."""
        if not _VARIABLE.search(self.path):
            _bytes(Path(self.path))

    def run(self, task: Task, boundary: Boundary, gateway: GatewayHandle | None) -> Trajectory:
        """Give the trajectory. Raises UsageError for a file that is not there or holds none."""
        path = Path(_VARIABLE.sub(lambda found: _value(found[1], task), self.path))
        data = _bytes(path)
        stored = _trial(data)
        if stored is not None:
            return stored
        try:
            account = read_lines(data)
        except ValueError as error:
            raise UsageError(f"{path} is no stored trajectory: {error}.") from error
        reads = list(account.reads)
        lines = list(map(shell_line, account.calls))
        for index, line in enumerate(lines):
            if line is not None:
                reads += shell_reads(line, account.calls[index].output, index, task.workspace)
        read = skills_read(account.calls, lines, reads)
        return Trajectory(
            agent=self.name,
            calls=tuple(account.calls),
            skills=tuple(dict.fromkeys([*account.skills, *read])),
            reads=tuple(reads),
            final_message=account.final_message,
            usage=account.usage,
            cost=account.cost,
            ending=account.ending or Ending.DONE,
            error=account.error,
            model=account.model,
        )


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"The stored trajectory {path} cannot be read: {error.strerror}.") from error


def _value(name: str, task: Task) -> str:
    value = task.variables.get(name)
    if value is None:
        raise UsageError(
            f"The path of a stored trajectory names {{{name}}}, which is no variable of the eval."
        )
    if not _VALUE.fullmatch(value) or set(value) == {"."}:
        raise UsageError(f"The variable {name} is {value!r}, which is no part of a path.")
    return value


def _trial(data: bytes) -> Trajectory | None:
    """Give the trajectory of the first trial in a file of results; None for a file of another kind."""
    try:
        first = json.loads(data.split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return None
    if not isinstance(first, dict) or "type" in first:
        return None
    try:
        return replace(trial_from(first).trajectory)
    except (ValueError, TypeError, LookupError):
        return None
