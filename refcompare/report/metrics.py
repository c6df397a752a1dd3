"""The metrics of agent evals in every format: what changed, by how much, and whether that is real. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from refcompare.codec import Value
from refcompare.metrics import CaseRow, CaseSide, MetricChange, TrialComparison
from refcompare.report.escape import code, one_line
from refcompare.report.layout import Ink, table, wrap
from refcompare.report.words import Tone, duration, plural
from refcompare.results import JSON
from refcompare.statistics import Estimate, Interval, MetricVerdict

_TONES = {
    MetricVerdict.REGRESSED: Tone.BAD,
    MetricVerdict.IMPROVED: Tone.GOOD,
    MetricVerdict.TOO_FEW_TRIALS: Tone.DOUBTFUL,
    MetricVerdict.NO_DIFFERENCE: Tone.NEUTRAL,
}
_HEADERS = ("metric", "base", "head", "difference", "verdict")
_CASE_HEADERS = ("eval", "", "trials", "graded", "ended", "time", "tokens", "cost")


@dataclass(frozen=True, slots=True)
class _Cells:
    """One metric in words. ``case``, ``metric`` and ``examples`` are somebody else's text."""

    case: str
    metric: str
    measure: str
    base: str
    head: str
    difference: str
    verdict: str
    tone: Tone
    examples: tuple[str, ...]


def _cells(change: MetricChange) -> _Cells:
    return _Cells(
        case=change.case,
        metric=change.metric,
        measure="" if change.measure == "rate" else " (mean score)",
        base=_estimate(change, change.base, "base"),
        head=_estimate(change, change.head, "head"),
        difference=_difference(change),
        verdict=_verdict(change),
        tone=Tone.NEUTRAL if change.verdict is None else _TONES[change.verdict],
        examples=change.examples if change.verdict is MetricVerdict.REGRESSED else (),
    )


def _estimate(change: MetricChange, side: Estimate, arm: str) -> str:
    """Write one arm's value: ``4 of 5: 80 % (38 to 96)`` for a rate, ``0.82 (0.71 to 0.93)`` for a score."""
    if arm in change.absent:
        return f"not on {arm}"
    if side.value is None or side.interval is None:
        return "no trial"
    if change.measure == "score":
        return f"{side.value:.2f} ({side.interval.low:.2f} to {side.interval.high:.2f})"
    passes = round(side.value * side.trials)
    low, high = round(100 * side.interval.low), round(100 * side.interval.high)
    return f"{passes} of {side.trials}: {100 * side.value:.0f} % ({low} to {high})"


def _difference(change: MetricChange) -> str:
    """Write the difference: ``+60 points (8 to 88)`` for a rate, ``+0.12 (-0.01 to 0.25)`` for a score."""
    difference, interval = change.difference.difference, change.interval
    if difference is None or interval is None or change.absent:
        return ""
    if change.measure == "score":
        return f"{_signed(difference, 2)} ({_plain(interval, 1, 2)})"
    points = _signed(100 * difference, 0)
    return f"{points} points ({_plain(interval, 100, 0)})"


def _signed(value: float, digits: int) -> str:
    text = f"{value:+.{digits}f}"
    return text.lstrip("+-") if not float(text) else text


def _plain(interval: Interval, factor: float, digits: int) -> str:
    low, high = (round(factor * end, digits) + 0.0 for end in (interval.low, interval.high))
    return f"{low:.{digits}f} to {high:.{digits}f}"


def _verdict(change: MetricChange) -> str:
    if change.verdict is None:
        return "on neither arm" if len(change.absent) > 1 else f"not on {change.absent[0]}"
    if change.verdict in (MetricVerdict.IMPROVED, MetricVerdict.REGRESSED):
        shown = f"{change.adjusted:.3f}" if change.adjusted >= 0.001 else "under 0.001"
        return f"{change.verdict.value} (p {shown})"
    if change.difference.difference is None:
        return change.verdict.value
    seen = change.difference.detectable
    if seen is None:
        return f"{change.verdict.value} to show any difference"
    least = f"{100 * seen:.0f} points" if change.measure == "rate" else f"{seen:.2f}"
    return f"{change.verdict.value}: {least} or more would show"


def _case_rows(trials: TrialComparison, quote: Callable[[str], str]) -> Iterator[list[str]]:
    for row in trials.cases:
        name = quote(row.case)
        for arm, side in (("base", row.base), ("head", row.head)):
            yield [name, arm, *_case_cells(side)]
            name = ""


def _case_cells(side: CaseSide) -> list[str]:
    return [
        str(side.trials),
        str(side.graded),
        ", ".join(f"{count} {ending.replace('_', ' ')}" for ending, count in side.endings),
        "" if side.seconds is None else duration(side.seconds),
        "" if side.tokens is None else f"{side.tokens:,.0f}",
        "unknown" if side.cost is None else f"${side.cost:.4f}",
    ]


def _errors(row: CaseRow) -> Iterator[tuple[str, str]]:
    for arm, side in (("base", row.base), ("head", row.head)):
        for error in side.errors:
            yield arm, error


# ------------------------------------------------------------------------------ a terminal


def metric_blocks(trials: TrialComparison, width: int, ink: Ink) -> Iterator[str]:
    """Give the tables of metrics and cases for a terminal of ``width`` columns, and what went wrong."""
    if not trials:
        return
    if trials.metrics:
        yield _terminal_metrics(trials, width, ink)
    yield table(_case_rows(trials, lambda text: wrap(one_line(text, 120), 32)), _CASE_HEADERS)
    told = [
        wrap(f"not graded: {one_line(row.case, 120)} on {arm}: {one_line(error)}", width, "  ")
        for row in trials.cases
        for arm, error in _errors(row)
    ]
    told += [wrap(f"note: {one_line(note)}", width, "  ") for note in trials.notes]
    if told:
        yield "\n".join(told)


def _terminal_metrics(trials: TrialComparison, width: int, ink: Ink) -> str:
    rows = []
    several = len(trials.cases) > 1
    room = max(24, width // 4)
    for change in trials.metrics:
        cells = _cells(change)
        name = wrap(one_line(cells.metric, 120) + cells.measure, room)
        if several:
            name += f"\n{ink.dim(wrap(one_line(cells.case, 120), room))}"
        verdict = "\n".join(ink.tone(line, cells.tone) for line in wrap(cells.verdict, 20).split("\n"))
        for example in cells.examples:
            name += f"\n{wrap(f'head: {one_line(example, 200)}', room, '  ')}"
        rows.append([name, _stacked(cells.base), _stacked(cells.head), _stacked(cells.difference), verdict])
    return table(rows, _HEADERS)


def _stacked(text: str) -> str:
    """Put an interval under the value that it belongs to."""
    return text.replace(" (", "\n(", 1)


# -------------------------------------------------------------------------------- Markdown


def metric_lines(trials: TrialComparison, room: int) -> list[str]:
    """Give the tables for GitHub's Markdown in at most ``room`` characters; what does not fit is counted."""
    if not trials:
        return []
    several = len(trials.cases) > 1
    rows, left = _fitting((_markdown_row(_cells(change), several) for change in trials.metrics), room)
    lines: list[str] = []
    if rows:
        lines += ["", f"| {' | '.join(_HEADERS)} |", "| --- | --- | --- | --- | --- |", *rows]
    lines += _left_out(len(trials.metrics) - len(rows), "more metric")
    cases, _ = _fitting((f"| {' | '.join(row)} |" for row in _case_rows(trials, _named)), left // 2)
    cases += _left_out(2 * len(trials.cases) - len(cases), "more row")
    errors = (
        f"- {_named(row.case)} on {arm}: {code(error)}" for row in trials.cases for arm, error in _errors(row)
    )
    told, _ = _fitting((*errors, *(f"- {code(note)}" for note in trials.notes)), left // 2)
    rule = " | ".join("---" for _ in _CASE_HEADERS)
    head = [f"| {' | '.join(_CASE_HEADERS)} |", f"| {rule} |"]
    summary = "<details><summary>Trials: how they ended, time, tokens, cost</summary>"
    return [*lines, "", summary, "", *head, *cases, "", *told, *([""] if told else []), "</details>"]


def _left_out(count: int, noun: str) -> list[str]:
    verb = "is" if count == 1 else "are"
    return ["", f"{plural(count, noun)} {verb} left out here."] if count else []


def _named(text: str) -> str:
    return code(text, 120)


def _markdown_row(cells: _Cells, several: bool) -> str:
    name = f"{code(cells.metric, 120)}{cells.measure}"
    if several:
        name += f"<br>{code(cells.case, 120)}"
    for example in cells.examples:
        name += f"<br>head: {code(example, 200)}"
    verdict = f"**{cells.verdict}**" if cells.tone in (Tone.BAD, Tone.GOOD) else cells.verdict
    values = (_unbroken(_stacked(cell)) for cell in (cells.base, cells.head, cells.difference))
    return f"| {name} | {' | '.join(values)} | {verdict} |"


def _unbroken(lines: str) -> str:
    """Keep each line of a cell in one piece, however narrow the page."""
    return lines.replace(" ", "\N{NO-BREAK SPACE}").replace("\n", "<br>")


def _fitting(lines: Iterable[str], room: int) -> tuple[list[str], int]:
    kept = []
    for line in lines:
        size = len(line.encode("utf-16-le", "surrogatepass")) // 2 + 1
        if size > room:
            break
        room -= size
        kept.append(line)
    return kept, room


# ------------------------------------------------------------------------------------ JSON


def metrics_value(trials: TrialComparison) -> Value:
    """Give the members that a comparison with agent evals has beside the others."""
    if not trials:
        return {}
    return {
        "metrics": [_metric_value(change) for change in trials.metrics],
        "cases": [_case_value(row) for row in trials.cases],
        "eval_notes": list(trials.notes),
    }


def _metric_value(change: MetricChange) -> Value:
    value: Value = {
        "eval_id": change.eval_id,
        "case": change.case,
        "suite": change.suite,
        "metric": change.metric,
        "measure": change.measure,
        "base": _estimate_value(change.base),
        "head": _estimate_value(change.head),
        "p_value": change.difference.p_value,
        "adjusted_p_value": change.adjusted,
    }
    optional: dict[str, JSON] = {
        "difference": change.difference.difference,
        "interval": _interval_value(change.interval),
        "detectable": change.difference.detectable,
        "verdict": change.verdict.value if change.verdict else None,
        "absent": list(change.absent) or None,
        "examples": list(change.examples) or None,
    }
    return value | {key: item for key, item in optional.items() if item is not None}


def _estimate_value(side: Estimate) -> Value:
    value: Value = {"trials": side.trials}
    if side.value is not None:
        value |= {"value": side.value, "interval": _interval_value(side.interval)}
    return value


def _interval_value(interval: Interval | None) -> JSON:
    return None if interval is None else [interval.low, interval.high]


def _case_value(row: CaseRow) -> Value:
    return {
        "eval_id": row.eval_id,
        "case": row.case,
        "suite": row.suite,
        "agents": list(row.agents),
        "base": _side_value(row.base),
        "head": _side_value(row.head),
    }


def _side_value(side: CaseSide) -> Value:
    value: Value = {"trials": side.trials, "graded": side.graded, "endings": dict(side.endings)}
    optional: dict[str, JSON] = {
        "seconds": side.seconds,
        "cost": side.cost,
        "tokens": side.tokens,
        "errors": list(side.errors) or None,
    }
    return value | {key: item for key, item in optional.items() if item is not None}
