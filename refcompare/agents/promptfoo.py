"""Results that promptfoo wrote, read as trials, so that evals which exist already are compared today.

Takes the results JSON of version 3 (``promptfoo eval --output FILE.json``). A row is a trial: what its
test is called, or else its variables, with the provider and the prompt, is the case, since the order of
rows says nothing; rows of the same case are repetitions. Each assertion is a metric, and so is the row's
own verdict. A row that failed with an error says nothing. The file is somebody's, so nothing in it is
taken on trust.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

from refcompare.agents.programs.trajectory import Call, Ending, Trajectory, Usage
from refcompare.errors import UsageError
from refcompare.fields import HIGHEST
from refcompare.results import JSON
from refcompare.trials import Metric, MetricOutcome, Trial
from refcompare.wording import printable

LARGEST_FILE = 256 * 1024 * 1024
MOST_ROWS = 100_000
VERSION = 3
SUITE = "promptfoo"
OVERALL = "all assertions"
"""What the metric of a row's own verdict is called."""

_ERROR = 2
"""promptfoo's failureReason of a row whose provider or assertion broke, rather than did not hold."""

_LONGEST_NAME = 100


def read_promptfoo(data: bytes, path: str) -> tuple[Trial, ...]:
    """Read a results file; ``path`` is for messages. Raises UsageError for any other file."""
    shown = printable(path)
    if len(data) > LARGEST_FILE:
        raise UsageError(f"{shown} has {len(data):,} bytes; at most {LARGEST_FILE:,} are read.")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        what = printable(str(error))[:200]
        raise UsageError(
            f"{shown} is not JSON ({what}): give what `promptfoo eval --output` wrote."
        ) from None
    results = _object(_object(value).get("results"))
    version = results.get("version")
    if version != VERSION or isinstance(version, bool):
        raise UsageError(
            f"{shown} is not a results file of promptfoo with version {VERSION}: "
            "run `promptfoo eval --output FILE.json` with a promptfoo that writes one."
        )
    rows = [_object(row) for row in _list(results.get("results"))]
    if len(rows) > MOST_ROWS:
        raise UsageError(f"{shown} has {len(rows):,} rows; at most {MOST_ROWS:,} are read.")
    if not rows:
        raise UsageError(f"{shown} has no results.")
    return tuple(_trials(rows))


def _trials(rows: Sequence[Mapping[str, Any]]) -> Iterator[Trial]:
    providers = {_provider(row) for row in rows}
    prompts = {_prompt(row) for row in rows}
    numbers: Counter[str] = Counter()
    for row in rows:
        name = _name(row)
        point = {}
        if len(providers) > 1:
            point["agent"] = _provider(row)
        if len(prompts) > 1:
            point["prompt"] = _prompt(row)
        words = ", ".join(f"{key}={text}" for key, text in point.items())
        case = f"{name}[{words}]" if words else name
        numbers[case] += 1
        yield _trial(row, name, case, numbers[case])


def _trial(row: Mapping[str, Any], name: str, case: str, number: int) -> Trial:
    broke = row.get("failureReason") == _ERROR or (bool(row.get("error")) and not row.get("gradingResult"))
    trajectory = _trajectory(row, broke)
    metrics = () if broke else tuple(_metrics(row))
    variables = {str(key): _text(item) for key, item in _object(row.get("vars")).items()}
    return Trial(name, case, SUITE, number, trajectory, metrics, variables=variables)


def _provider(row: Mapping[str, Any]) -> str:
    provider = row.get("provider")
    found = (
        provider
        if isinstance(provider, str)
        else _object(provider).get("label") or _object(provider).get("id")
    )
    return found if isinstance(found, str) and found else "unknown"


def _prompt(row: Mapping[str, Any]) -> str:
    prompt = _object(row.get("prompt"))
    found = prompt.get("label") or prompt.get("raw") or row.get("promptId") or ""
    return _short(_text(found))


def _name(row: Mapping[str, Any]) -> str:
    """Name a row's test: by its description, or else by its variables."""
    described = _object(row.get("testCase")).get("description") or row.get("description")
    if isinstance(described, str) and described.strip():
        return _short(described)
    variables = {
        str(key): item for key, item in _object(row.get("vars")).items() if not str(key).startswith("_")
    }
    words = ", ".join(f"{key}={_text(item)}" for key, item in sorted(variables.items()))
    return _short(words) or "the only test"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"


def _trajectory(row: Mapping[str, Any], broke: bool) -> Trajectory:
    response, metadata = _object(row.get("response")), _object(row.get("metadata"))
    metadata = {**_object(response.get("metadata")), **metadata}
    tokens = _object(row.get("tokenUsage"))
    latency, cost = _number(row.get("latencyMs")), _number(row.get("cost"))
    error = row.get("error") or response.get("error")
    return Trajectory(
        agent=_provider(row),
        calls=tuple(_call(_object(item)) for item in _list(metadata.get("toolCalls"))),
        skills=tuple(_skills(metadata)),
        final_message=_text(response.get("output") or ""),
        usage=Usage(
            input_tokens=_count(tokens.get("prompt")),
            output_tokens=_count(tokens.get("completion")),
            cache_read_tokens=_count(tokens.get("cached")),
            requests=_count(tokens.get("numRequests")),
        ),
        cost=cost,
        ending=Ending.API_ERROR if broke else Ending.DONE,
        error=_text(error) if error else None,
        seconds=None if latency is None else latency / 1000,
    )


def _call(item: Mapping[str, Any]) -> Call:
    given: JSON = item.get("input", item.get("arguments"))
    return Call(
        name=_text(item.get("name") or "unknown"),
        input=given,
        output=_text(item.get("output") or ""),
        is_error=item.get("is_error") is True,
        id=_text(item.get("id") or ""),
    )


def _skills(metadata: Mapping[str, Any]) -> Iterator[str]:
    seen = set()
    for item in _list(metadata.get("skillCalls")):
        name = item if isinstance(item, str) else _object(item).get("name") or _object(item).get("skill")
        if isinstance(name, str) and name and name not in seen:
            seen.add(name)
            yield name


def _metrics(row: Mapping[str, Any]) -> Iterator[Metric]:
    grading = _object(row.get("gradingResult"))
    passed = row.get("success") if isinstance(row.get("success"), bool) else grading.get("pass")
    yield _metric(
        OVERALL, passed, row.get("score", grading.get("score")), grading.get("reason") or row.get("error")
    )
    names: Counter[str] = Counter({OVERALL: 1})
    for item in _list(grading.get("componentResults")):
        component = _object(item)
        name = _assertion_name(_object(component.get("assertion")))
        names[name] += 1
        label = name if names[name] == 1 else f"{name} #{names[name]}"
        yield _metric(label, component.get("pass"), component.get("score"), component.get("reason"))


def _assertion_name(assertion: Mapping[str, Any]) -> str:
    """Name an assertion: by the metric that its author gave it, or else by what it asserts."""
    metric = assertion.get("metric")
    if isinstance(metric, str) and metric.strip():
        return _short(metric)
    kind, value = assertion.get("type"), assertion.get("value")
    said = f"{kind if isinstance(kind, str) else 'assertion'}"
    return _short(f"{said}: {_text(value)}" if value not in (None, "") else said)


def _metric(name: str, passed: object, score: object, reason: object) -> Metric:
    if not isinstance(passed, bool):
        return Metric(name, MetricOutcome.NOT_GRADED, None, "promptfoo wrote no verdict")
    number = _number(score)
    # Some assertions score above 1 or below 0, such as latency and cost.
    value = float(passed) if number is None else min(1.0, max(0.0, number))
    outcome = MetricOutcome.PASSED if passed else MetricOutcome.FAILED
    return Metric(name, outcome, value, "" if passed else _text(reason or ""))


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "…"


def _number(value: object) -> float | None:
    """Give a finite number from 0; for whatever else there is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
        return None
    return float(min(value, HIGHEST))


def _count(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
