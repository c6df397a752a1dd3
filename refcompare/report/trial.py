"""Everything that is known of one trial on each arm: for a person, or for a script. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from refcompare.agents.programs.trajectory import Call
from refcompare.codec import Value
from refcompare.errors import UsageError
from refcompare.metrics import compare_trials
from refcompare.report import words
from refcompare.report.escape import clip_lines, one_line, visible
from refcompare.report.interface import DEFAULTS, Options
from refcompare.report.json import dump
from refcompare.report.layout import MIN_WIDTH, Ink, fact_lines, table, wrap
from refcompare.report.metrics import metric_blocks
from refcompare.report.words import Fact, Tone
from refcompare.results import JSON, SCHEMA_VERSION
from refcompare.trials import MetricOutcome, Trial, trial_value
from refcompare.wording import quoted

_OUTPUT_LINES = 30
_DIFF_LINES = 400
_TONES = {
    MetricOutcome.PASSED: Tone.GOOD,
    MetricOutcome.FAILED: Tone.BAD,
    MetricOutcome.ABSENT: Tone.NEUTRAL,
    MetricOutcome.NOT_GRADED: Tone.DOUBTFUL,
}

Trials = Mapping[str, Sequence[Trial]]
"""The trials of each arm by its name."""


def find(name: str, trials: Trials) -> dict[str, tuple[Trial, ...]]:
    """Give each arm's trials of an eval, or of one case of it; empty where no arm has any."""
    mine = {
        arm: tuple(trial for trial in items if name in (trial.eval_id, trial.case))
        for arm, items in trials.items()
    }
    return mine if any(mine.values()) else {}


def show_eval(name: str, trials: Trials, options: Options = DEFAULTS) -> str:
    """Tell a person how the trials of an eval ended on both arms. ``trials`` is what `find` gave."""
    ink, width = Ink(colour=options.colour), max(options.width, MIN_WIDTH)
    compared = compare_trials(trials.get("base", ()), trials.get("head", ()))
    more = f"refcompare show {one_line(name, 120)} --trial N tells all about one trial on each arm."
    blocks = [ink.bold(wrap(one_line(name, 200), width)), *metric_blocks(compared, width, ink), more]
    return "\n\n".join(block for block in blocks if block) + "\n"


def show_trial(name: str, number: int, trials: Trials, options: Options = DEFAULTS) -> str:
    """Tell a person all about the trials with a number. Raises UsageError where there is none."""
    ink, width = Ink(colour=options.colour), max(options.width, MIN_WIDTH)
    blocks = [
        block for arm, trial in _numbered(name, number, trials) for block in _trial(arm, trial, width, ink)
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def trials_json(name: str, number: int | None, trials: Trials) -> str:
    """Tell a script the same, all that is kept. Raises UsageError where there is no such trial."""
    found: list[tuple[str, Trial]] = [(arm, trial) for arm, items in trials.items() for trial in items]
    if number is not None:
        found = _numbered(name, number, trials)
    arms: list[JSON] = [
        {"arm": arm, "trials": [trial_value(trial) for owner, trial in found if owner == arm]}
        for arm in trials
    ]
    value: Value = {"schema_version": SCHEMA_VERSION, "eval": name, "arms": arms}
    return dump(value)


def _numbered(name: str, number: int, trials: Trials) -> list[tuple[str, Trial]]:
    found = [(arm, trial) for arm, items in trials.items() for trial in items if trial.number == number]
    if not found:
        most = max(trial.number for items in trials.values() for trial in items)
        raise UsageError(f"There is no trial {number} of {quoted(name)}: they are numbered from 1 to {most}.")
    return found


def _trial(arm: str, trial: Trial, width: int, ink: Ink) -> Iterator[str]:
    trajectory = trial.trajectory
    title = f"{arm}: trial {trial.number} of {one_line(trial.case, 120)}"
    facts = [
        Fact(
            "agent", data=f"{trajectory.agent} ({trajectory.model})" if trajectory.model else trajectory.agent
        ),
        Fact("ended", data=trajectory.ending.value.replace("_", " ")),
    ]
    if trajectory.error:
        facts.append(Fact("error", data=trajectory.error))
    if trajectory.seconds is not None:
        facts.append(Fact("time", text=words.duration(trajectory.seconds)))
    facts.append(Fact("cost", text="unknown" if trajectory.cost is None else f"${trajectory.cost:.4f}"))
    facts += [Fact("skill used", data=skill) for skill in trajectory.skills]
    facts += [Fact("note", data=note) for note in trial.notes]
    yield "\n".join([ink.bold(wrap(title, width)), *fact_lines(facts, width, ink, limit=1_000)])
    if trial.metrics:
        yield _metrics(trial, width, ink)
    for number, call in enumerate(trajectory.calls, 1):
        yield _call(number, call, width, ink)
    if trajectory.final_message.strip():
        said = clip_lines(visible(trajectory.final_message).strip("\n"), _OUTPUT_LINES)
        yield f"{ink.dim('final message')}\n{said}"
    yield from _change(trial, width, ink)


def _metrics(trial: Trial, width: int, ink: Ink) -> str:
    room = max(width - 60, 24)
    rows = [
        [
            wrap(one_line(metric.name, 120), 32),
            ink.tone(metric.outcome.value, _TONES[metric.outcome]),
            "" if metric.score is None else f"{metric.score:.2f}",
            wrap(one_line(metric.message, 500), room),
        ]
        for metric in trial.metrics
    ]
    return table(rows, ["metric", "outcome", "score", "why"], right=(2,))


def _call(number: int, call: Call, width: int, ink: Ink) -> str:
    given = call.input if isinstance(call.input, str) else json.dumps(call.input, ensure_ascii=False)
    ended = " (failed)" if call.is_error else ""
    if call.exit_code not in (None, 0):
        ended = f" (exit code {call.exit_code})"
    at = "" if call.seconds is None else f"{words.duration(call.seconds)}  "
    head = wrap(f"{number}. {at}{one_line(call.name, 60)}{ended}: {one_line(given, 600)}", width, "   ")
    output = clip_lines(visible(call.output).strip("\n"), _OUTPUT_LINES)
    return f"{ink.tone(head, Tone.BAD if ended else Tone.NEUTRAL)}\n{output}".rstrip("\n")


def _change(trial: Trial, width: int, ink: Ink) -> Iterator[str]:
    change = trial.change
    noted = [f"{item.kind} {one_line(item.path, 200)}: {item.note}" for item in change.files if item.note]
    noted += [one_line(note) for note in change.notes]
    if change.omitted:
        noted.append(f"{words.plural(change.omitted, 'more changed file')} not shown")
    if not change.files and not noted:
        yield "nothing was changed"
        return
    lines = clip_lines(visible(change.diff).strip("\n"), _DIFF_LINES).split("\n")
    yield "\n".join([ink.dim("change"), *(_diff_line(line, ink) for line in lines if line or change.diff)])
    if noted:
        yield "\n".join(wrap(note, width, "  ") for note in noted)


def _diff_line(line: str, ink: Ink) -> str:
    if line.startswith("+"):
        return ink.tone(line, Tone.GOOD)
    return ink.tone(line, Tone.BAD) if line.startswith("-") else line
