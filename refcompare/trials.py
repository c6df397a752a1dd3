"""Trials of agent evals, and their JSON form: a line of ``trials.jsonl``, beside the records of an arm.

Pure. The published schema describes the same shape; what is decoded is checked before it is used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from math import isfinite
from typing import Any, Literal

from refcompare.agents.programs.trajectory import Call, Ending, FileRead, Trajectory, Usage
from refcompare.agents.workspace.capture import FileChange, WorkspaceChange
from refcompare.fields import HIGHEST, Fields, Unexpected
from refcompare.results import JSON

GRADED_ENDINGS = frozenset({Ending.DONE, Ending.TURNS, Ending.TIME, Ending.MONEY})
"""How a trial can end by the agent's own doing. Any other ending says nothing about the agent."""


class MetricOutcome(StrEnum):
    """What a trial says of one metric. Only the first two are counted."""

    PASSED = "passed"
    FAILED = "failed"
    ABSENT = "absent"
    NOT_GRADED = "not graded"


@dataclass(frozen=True, slots=True)
class Metric:
    """One measurement of a trial. ``score`` is from 0 to 1, None where the outcome is not counted.

    ``absent`` is said where this arm's tree has not what the metric is about; ``message`` says why.
    """

    name: str
    outcome: MetricOutcome
    score: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of one agent on one case of an eval, on one arm.

    ``case`` is the eval's id with the point of its matrix; trials are paired by it. ``number`` counts
    from 1. ``notes`` are sentences for the reader.
    """

    eval_id: str
    case: str
    suite: str
    number: int
    trajectory: Trajectory
    metrics: tuple[Metric, ...] = ()
    change: WorkspaceChange = field(default_factory=WorkspaceChange)
    variables: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def graded(self) -> bool:
        """Whether the agent ended by its own doing, so that its metrics say something."""
        return self.trajectory.ending in GRADED_ENDINGS


# ------------------------------------------------------------------------- what is kept


_DEEPEST = 40
"""Levels of lists and objects in a call's input that are kept."""


@dataclass(frozen=True, slots=True)
class TrialCaps:
    """What of a trial is kept, at most: characters of one text, calls, changed files, characters of all
    texts of the calls and of all diffs together."""

    text: int = 16_000
    calls: int = 2_000
    files: int = 2_000
    together: int = 600_000


def kept(trial: Trial, redact: Callable[[str], str], caps: TrialCaps) -> Trial:
    """Give what of a trial is kept: without the secrets that ``redact`` knows, and cut to size.

    The secrets first: half of one would not be known any more.
    """
    return compact(_redacted(trial, redact, 0), caps)


def compact(trial: Trial, caps: TrialCaps) -> Trial:
    """Cut a trial to size, saying where something was cut. What was read is told by its call."""
    calls: list[Call] = []
    left = caps.together
    for call in trial.trajectory.calls[: caps.calls]:
        given = _shortened_json(call.input, min(caps.text, left))
        output = shortened(call.output, max(0, min(caps.text, left)))
        left = max(0, left - len(output) - _size(given))
        calls.append(replace(call, input=given, output=output))
    files: list[FileChange] = []
    left = caps.together
    for item in trial.change.files[: caps.files]:
        diff = shortened(item.diff, min(4 * caps.text, left))
        left = max(0, left - len(diff))
        files.append(replace(item, diff=diff))
    notes = list(trial.notes)
    if len(calls) < len(trial.trajectory.calls):
        notes.append(f"{len(trial.trajectory.calls) - len(calls):,} more calls are not kept")
    omitted = trial.change.omitted + len(trial.change.files) - len(files)
    kept = len(calls)
    trajectory = replace(
        trial.trajectory,
        calls=tuple(calls),
        reads=tuple(replace(read, content="") for read in trial.trajectory.reads if read.call < kept),
        final_message=shortened(trial.trajectory.final_message, caps.text),
        error=None if trial.trajectory.error is None else shortened(trial.trajectory.error, caps.text),
    )
    metrics = tuple(
        replace(metric, message=shortened(metric.message, caps.text // 8)) for metric in trial.metrics
    )
    change = replace(trial.change, files=tuple(files), omitted=omitted)
    return replace(trial, trajectory=trajectory, change=change, metrics=metrics, notes=tuple(notes))


def shortened(text: str, most: int) -> str:
    """Keep the start and the end of a text, and say how much is missing between."""
    if len(text) <= most:
        return text
    missing = f"\n… ({len(text) - most:,} characters are not kept) …\n"
    end = most // 4
    return text[: most - end] + missing + (text[-end:] if end else "")


def _shortened_json(value: JSON, most: int) -> JSON:
    if isinstance(value, str):
        return shortened(value, max(0, most))
    if _size(value) <= most:
        return value
    if isinstance(value, Mapping):
        each = most // max(1, len(value))
        return {key: _shortened_json(item, each) for key, item in list(value.items())[:100]}
    if isinstance(value, list | tuple):
        each = most // max(1, len(value))
        return [_shortened_json(item, each) for item in value[:100]]
    return value


def _size(value: JSON) -> int:
    """Count the characters of every text in a JSON value, keys included."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(key) + _size(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return sum(map(_size, value))
    return 8


def _redacted(value: Any, redact: Callable[[str], str], depth: int) -> Any:
    """Apply ``redact`` to every text in a value, keys included, and make of its JSON what can be written."""
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if depth > _DEEPEST and isinstance(value, Mapping | list | tuple):
        return "…"
    if isinstance(value, Mapping):
        return {redact(key): _redacted(item, redact, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_redacted(item, redact, depth + 1) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [item.name for item in dataclasses.fields(value)]
        return replace(value, **{name: _redacted(getattr(value, name), redact, depth) for name in names})
    return value


# ------------------------------------------------------------------------------ encoding


def trial_value(trial: Trial) -> dict[str, JSON]:
    """Give a trial as one line of ``trials.jsonl`` has it."""
    trajectory = trial.trajectory
    always: dict[str, JSON] = {
        "eval_id": trial.eval_id,
        "case": trial.case,
        "suite": trial.suite,
        "number": trial.number,
        "agent": trajectory.agent,
        "ending": trajectory.ending.value,
        "metrics": [_metric_value(metric) for metric in trial.metrics],
        "calls": [_call_value(call) for call in trajectory.calls],
        "usage": _present(dataclasses.asdict(trajectory.usage)),
        "change": _change_value(trial.change),
    }
    return always | _present(
        {
            "model": trajectory.model,
            "error": trajectory.error,
            "seconds": trajectory.seconds,
            "cost": trajectory.cost,
            "variables": dict(trial.variables),
            "skills": list(trajectory.skills),
            "reads": [{"path": read.path, "call": read.call} for read in trajectory.reads],
            "final_message": trajectory.final_message,
            "notes": list(trial.notes),
        }
    )


def _metric_value(metric: Metric) -> dict[str, JSON]:
    value: dict[str, JSON] = {"name": metric.name, "outcome": metric.outcome.value}
    return value | _present({"score": metric.score, "message": metric.message})


def _call_value(call: Call) -> dict[str, JSON]:
    always: dict[str, JSON] = {"name": call.name, "input": call.input, "output": call.output}
    rest: dict[str, JSON] = {
        "is_error": call.is_error or None,
        "seconds": call.seconds,
        "duration": call.duration,
        "id": call.id,
        "exit_code": call.exit_code,
    }
    return always | _present(rest)


def _change_value(change: WorkspaceChange) -> dict[str, JSON]:
    files: list[JSON] = [
        {"path": item.path, "kind": item.kind}
        | _present({"before": item.before, "after": item.after, "diff": item.diff, "note": item.note})
        for item in change.files
    ]
    return {"files": files, "omitted": change.omitted, "notes": list(change.notes)}


def _present(values: Mapping[str, JSON]) -> dict[str, JSON]:
    return {key: value for key, value in values.items() if value not in (None, "", [], {})}


# ------------------------------------------------------------------------------ decoding


def trial_from(value: object) -> Trial:
    """Read a trial back. Raises Unexpected for whatever its schema does not allow."""
    fields = Fields(value)
    return Trial(
        eval_id=fields.text("eval_id"),
        case=fields.text("case"),
        suite=fields.text("suite"),
        number=fields.integer("number", least=1),
        trajectory=_trajectory_from(fields),
        metrics=tuple(_metric_from(item) for item in fields.items("metrics", required=True)),
        change=_change_from(fields.get("change")),
        variables=_texts_from(fields.get("variables")),
        notes=fields.texts("notes"),
    )


def _trajectory_from(fields: Fields) -> Trajectory:
    usage = Fields(fields.get("usage"))
    return Trajectory(
        agent=fields.text("agent"),
        calls=tuple(_call_from(item) for item in fields.items("calls", required=True)),
        skills=fields.texts("skills"),
        reads=tuple(
            FileRead(item.text("path"), "", item.integer("call"))
            for item in map(Fields, fields.items("reads"))
        ),
        final_message=fields.text("final_message", ""),
        usage=Usage(**{item.name: usage.integer_or_none(item.name) for item in dataclasses.fields(Usage)}),
        cost=fields.number_or_none("cost"),
        ending=fields.word("ending", Ending),
        error=fields.text_or_none("error"),
        model=fields.text_or_none("model"),
        seconds=fields.number_or_none("seconds"),
    )


def _metric_from(value: object) -> Metric:
    fields = Fields(value)
    return Metric(
        name=fields.text("name"),
        outcome=fields.word("outcome", MetricOutcome),
        score=fields.number_or_none("score", most=1),
        message=fields.text("message", ""),
    )


def _call_from(value: object) -> Call:
    fields = Fields(value)
    exit_code = fields.integer("exit_code", least=-int(HIGHEST)) if "exit_code" in fields else None
    return Call(
        name=fields.text("name"),
        input=fields.get("input"),
        output=fields.text("output"),
        is_error=fields.flag("is_error", False),
        seconds=fields.number_or_none("seconds"),
        duration=fields.number_or_none("duration"),
        id=fields.text("id", ""),
        exit_code=exit_code,
    )


_KINDS: Mapping[str, Literal["added", "modified", "deleted"]] = {
    "added": "added",
    "modified": "modified",
    "deleted": "deleted",
}


def _change_from(value: object) -> WorkspaceChange:
    fields = Fields(value)
    files = []
    for item in map(Fields, fields.items("files", required=True)):
        kind = _KINDS.get(item.text("kind"))
        if kind is None:
            raise Unexpected
        before, after = item.text_or_none("before"), item.text_or_none("after")
        files.append(
            FileChange(
                item.text("path"), kind, before, after, item.text("diff", ""), item.text_or_none("note")
            )
        )
    return WorkspaceChange(tuple(files), fields.integer("omitted", 0), fields.texts("notes"))


def _texts_from(value: object) -> dict[str, str]:
    if value is None:
        return {}
    fields = Fields(value)
    return {name: fields.text(name) for name in (value if isinstance(value, dict) else {})}
