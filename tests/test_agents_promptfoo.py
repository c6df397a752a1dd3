"""Results files of promptfoo become trials, whatever their rows hold, and two of them a comparison."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refcompare.agents.programs.trajectory import Call, Ending, Usage
from refcompare.agents.promptfoo import OVERALL, read_promptfoo
from refcompare.errors import UsageError
from refcompare.importing import import_promptfoo
from refcompare.metrics import compare_trials
from refcompare.schemas import violation
from refcompare.statistics import MetricVerdict
from refcompare.store import read_trials
from refcompare.trials import MetricOutcome, Trial, trial_value
from tests.result_builders import DETERMINISTIC


def a_row(
    passed: bool = True, description: str | None = "follows the style", **changed: Any
) -> dict[str, Any]:
    row = {
        "id": "7d0c",
        "promptIdx": 0,
        "testIdx": 3,
        "promptId": "p1",
        "prompt": {"raw": "Do {{task}}.", "label": "Do {{task}}."},
        "provider": {"id": "anthropic:claude-agent-sdk", "label": ""},
        "vars": {"task": "the thing", "sessionId": "x"},
        "testCase": {"description": description, "vars": {"task": "the thing"}, "assert": []},
        "success": passed,
        "score": 1 if passed else 0.4,
        "latencyMs": 2500,
        "cost": 0.02,
        "tokenUsage": {"prompt": 100, "completion": 20, "cached": 5, "total": 125, "numRequests": 2},
        "failureReason": 0 if passed else 1,
        "gradingResult": {
            "pass": passed,
            "score": 1 if passed else 0.4,
            "reason": "All assertions passed" if passed else "It did not",
            "componentResults": [
                {
                    "pass": passed,
                    "score": float(passed),
                    "reason": "why",
                    "assertion": {"type": "contains", "value": "tabs"},
                },
                {
                    "pass": True,
                    "score": 0.8,
                    "reason": "so",
                    "assertion": {"type": "llm-rubric", "metric": "kind"},
                },
                {
                    "pass": True,
                    "score": 1,
                    "reason": "so",
                    "assertion": {"type": "contains", "value": "tabs"},
                },
            ],
        },
        "response": {"output": "Done.", "metadata": {"toolCalls": [{"id": "1", "name": "Old"}]}},
        "metadata": {
            "toolCalls": [
                {"id": "1", "name": "Bash", "input": {"command": "ls"}, "output": "a\n", "is_error": False},
                {"id": "2", "name": "Read", "input": {"path": "x"}, "output": "no", "is_error": True},
            ],
            "skillCalls": [{"name": "style"}, {"name": "style"}],
        },
        **changed,
    }
    return {key: value for key, value in row.items() if value is not ...}


def a_file(*rows: Any, version: Any = 3) -> bytes:
    value = {
        "evalId": "eval-1",
        "results": {
            "version": version,
            "timestamp": "2026-01-01",
            "prompts": [],
            "results": list(rows),
            "stats": {},
        },
        "config": {"providers": ["x"], "env": {"KEY": "secret"}},
    }
    return json.dumps(value).encode()


def read(*rows: Any) -> tuple[Trial, ...]:
    return read_promptfoo(a_file(*rows), "results.json")


def test_a_row_becomes_a_trial_with_all_that_it_says():
    (trial,) = read(a_row(False))
    assert (trial.eval_id, trial.case, trial.number) == ("follows the style", "follows the style", 1)
    assert trial.variables == {"task": "the thing", "sessionId": "x"}
    trajectory = trial.trajectory
    assert trajectory.agent == "anthropic:claude-agent-sdk"
    assert trajectory.calls == (
        Call("Bash", {"command": "ls"}, "a\n", id="1"),
        Call("Read", {"path": "x"}, "no", True, id="2"),
    )
    assert trajectory.skills == ("style",)
    assert trajectory.usage == Usage(100, 20, 5, None, 2)
    assert (trajectory.cost, trajectory.seconds, trajectory.final_message) == (0.02, 2.5, "Done.")
    assert [(item.name, item.outcome, item.score, item.message) for item in trial.metrics] == [
        (OVERALL, MetricOutcome.FAILED, 0.4, "It did not"),
        ("contains: tabs", MetricOutcome.FAILED, 0.0, "why"),
        ("kind", MetricOutcome.PASSED, 0.8, ""),
        ("contains: tabs #2", MetricOutcome.PASSED, 1.0, ""),
    ]
    assert violation("trial", json.loads(json.dumps(trial_value(trial)))) is None


def test_rows_of_the_same_test_are_repetitions_whatever_their_order():
    other = a_row(description="another")
    assert [(trial.case, trial.number) for trial in read(a_row(), other, a_row())] == [
        ("follows the style", 1),
        ("another", 1),
        ("follows the style", 2),
    ]


def test_a_test_without_a_description_is_told_by_its_variables():
    (trial,) = read(a_row(description=None, vars={"b": 2, "a": "x y", "_conversation": []}))
    assert trial.case == "a=x y, b=2"


def test_providers_and_prompts_are_compared_by_themselves():
    codex = a_row(provider={"id": "openai:codex-sdk"})
    assert {trial.case for trial in read(a_row(), codex)} == {
        "follows the style[agent=anthropic:claude-agent-sdk]",
        "follows the style[agent=openai:codex-sdk]",
    }
    prompts = read(a_row(), a_row(prompt={"raw": "Please do {{task}}.", "label": "polite"}))
    assert {trial.case for trial in prompts} == {
        "follows the style[prompt=Do {{task}}.]",
        "follows the style[prompt=polite]",
    }


@pytest.mark.parametrize(
    "changed",
    [
        {"failureReason": 2, "error": "API error: 529 overloaded"},
        {"failureReason": ..., "error": "API error: 529 overloaded", "gradingResult": None},
    ],
)
def test_a_row_that_broke_is_not_graded(changed):
    (trial,) = read(a_row(False, **changed))
    assert not trial.graded
    assert (trial.trajectory.ending, trial.metrics) == (Ending.API_ERROR, ())
    assert trial.trajectory.error == "API error: 529 overloaded"


def test_an_assertion_that_did_not_hold_is_graded_although_it_has_an_error_text():
    (trial,) = read(a_row(False, error="It did not"))
    assert trial.graded


def test_what_was_not_written_is_not_invented():
    (trial,) = read({"success": True})
    assert (trial.case, trial.trajectory.agent) == ("the only test", "unknown")
    assert (trial.trajectory.cost, trial.trajectory.seconds, trial.trajectory.usage) == (None, None, Usage())
    assert [metric.outcome for metric in trial.metrics] == [MetricOutcome.PASSED]
    (silent,) = read({})
    assert [metric.outcome for metric in silent.metrics] == [MetricOutcome.NOT_GRADED]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not JSON"),
        (b"[1]", "is not a results file of promptfoo with version 3"),
        (b"[" * 100_000, "is not JSON"),
        (a_file(a_row(), version=2), "is not a results file of promptfoo with version 3"),
        (a_file(a_row(), version=True), "is not a results file"),
        (a_file(), "has no results"),
        (b"\xff\xfe", "is not JSON"),
    ],
)
def test_another_file_is_refused_with_what_to_give(data, message):
    with pytest.raises(UsageError, match=message):
        read_promptfoo(data, "x\x1b.json")
    try:
        read_promptfoo(data, "x\x1b.json")
    except UsageError as error:
        assert "\x1b" not in str(error)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@DETERMINISTIC
@given(
    st.lists(st.dictionaries(st.sampled_from(sorted(a_row())), VALUES, max_size=6), min_size=1, max_size=3)
)
def test_whatever_the_rows_hold_they_become_trials_that_can_be_compared(rows):
    trials = read(*rows)
    assert len(trials) == len(rows)
    compare_trials(trials, trials)
    for trial in trials:
        assert all(metric.score is None or 0 <= metric.score <= 1 for metric in trial.metrics)


def test_an_enormous_number_is_only_a_large_one():
    (trial,) = read(a_row(cost=10**400, latencyMs=-5, score=7.5, tokenUsage={"prompt": 10**400}))
    assert trial.trajectory.cost == 1e9
    assert trial.trajectory.seconds is None
    assert trial.metrics[0].score == 1.0


# ----------------------------------------------------------------------------- the command


def files(place: Path, base: list[Any], head: list[Any]) -> dict[str, Any]:
    (place / "base.json").write_bytes(a_file(*base))
    (place / "head.json").write_bytes(a_file(*head))
    options = {"base": place / "base.json", "head": place / "head.json", "output": place / "out"}
    return {**options, "fail_on": None, "form": "table", "quiet": True}


def test_two_files_are_a_comparison_that_is_printed_kept_and_judged(tmp_path):
    out = io.StringIO()
    options = files(tmp_path, [a_row()] * 8, [a_row(False)] * 8)
    assert import_promptfoo(tmp_path, options, out) == 1
    page = out.getvalue()
    assert "regressed" in page and "contains: tabs" in page and "8 of 8: 100 %" in page
    assert len(read_trials(tmp_path / "out", "base")) == 8
    assert violation("comparison", json.loads((tmp_path / "out/comparison.json").read_text())) is None
    assert import_promptfoo(tmp_path, {**options, "fail_on": "none"}, out) == 0


def test_the_metrics_of_both_files_are_compared():
    found = compare_trials(read(*[a_row(False)] * 8), read(*[a_row()] * 8))
    verdicts = {change.metric: change.verdict for change in found.metrics if change.measure == "rate"}
    assert verdicts["contains: tabs"] is MetricVerdict.IMPROVED
    assert verdicts["kind"] is not MetricVerdict.IMPROVED


def test_a_file_that_is_not_there_is_told(tmp_path):
    options = files(tmp_path, [a_row()], [a_row()])
    with pytest.raises(UsageError, match=r"gone\.json cannot be read"):
        import_promptfoo(tmp_path, {**options, "base": tmp_path / "gone.json"}, io.StringIO())


def test_outside_of_a_repository_the_comparison_is_printed_and_not_kept(tmp_path):
    out = io.StringIO()
    options = files(tmp_path, [a_row()], [a_row()])
    assert import_promptfoo(tmp_path, {**options, "output": None, "form": "json"}, out) == 0
    assert len(json.loads(out.getvalue())["metrics"]) >= 4


def test_known_secrets_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-marker-of-promptfoo")
    row = a_row(response={"output": "the key is sk-marker-of-promptfoo"})
    import_promptfoo(tmp_path, files(tmp_path, [row], [row]), io.StringIO())
    for path in (tmp_path / "out").rglob("*"):
        assert path.is_dir() or b"sk-marker-of-promptfoo" not in path.read_bytes()
