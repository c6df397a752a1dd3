"""Trials for tests, built by naming only what matters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from refcompare.agents.programs.trajectory import Call, Ending, FileRead, Trajectory, Usage
from refcompare.agents.workspace.capture import FileChange, WorkspaceChange
from refcompare.trials import Metric, MetricOutcome, Trial

PASSED, FAILED = MetricOutcome.PASSED, MetricOutcome.FAILED


def metric(name: str = "read AGENTS.md", passed: bool = True, **fields: Any) -> Metric:
    fields.setdefault("outcome", PASSED if passed else FAILED)
    fields.setdefault("score", float(passed))
    return Metric(name, **fields)


def trial(
    *metrics: Metric, number: int = 1, case: str = "greets", ending: Ending = Ending.DONE, **fields: Any
) -> Trial:
    trajectory = Trajectory(
        agent="claude",
        calls=(Call("Read", {"file_path": "AGENTS.md"}, "Be kind.\n", seconds=0.5, id="1"),),
        skills=("greeting",),
        reads=(FileRead("AGENTS.md", "", 0),),
        final_message="Done.",
        usage=Usage(input_tokens=100, output_tokens=20, requests=2),
        cost=0.01,
        ending=ending,
        model="scripted-1",
        seconds=2.5,
        **fields,
    )
    change = WorkspaceChange((FileChange("a.txt", "added", None, "file", "+x\n"),), notes=("a note",))
    return Trial(
        case.partition("[")[0], case, "guide", number, trajectory, metrics or (metric(),), change, {"a": "1"}
    )


def arm(passes: int, trials: int, name: str = "read AGENTS.md", **fields: Any) -> tuple[Trial, ...]:
    """Give trials of which so many passed a metric."""
    return tuple(
        trial(metric(name, number <= passes, message="" if number <= passes else "0% of it came back"),
              number=number, **fields)
        for number in range(1, trials + 1)
    )  # fmt: skip


def scored(values: Iterable[float], name: str = "rubric", **fields: Any) -> tuple[Trial, ...]:
    """Give trials with these scores, of which those of 0.7 and above passed."""
    return tuple(
        trial(metric(name, value >= 0.7, score=value), number=number, **fields)
        for number, value in enumerate(values, 1)
    )
