"""What trials of two arms come to, in every format, and when that fails the build."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refcompare.agents.programs.trajectory import Call, Ending, FileRead
from refcompare.agents.workspace.capture import FileChange, WorkspaceChange
from refcompare.changes import ChangeKind, Comparison
from refcompare.compare import compare
from refcompare.errors import UsageError
from refcompare.fields import Unexpected
from refcompare.gate import gate
from refcompare.github.page import Names, comment, read_answer
from refcompare.metrics import compare_trials
from refcompare.report import json as json_report
from refcompare.report import markdown, terminal
from refcompare.report.interface import Options
from refcompare.schemas import validator, violation
from refcompare.statistics import MetricVerdict
from refcompare.store import ResultsError, TrialWriter, clear, read_trials, write_run
from refcompare.trials import MetricOutcome, Trial, TrialCaps, kept, trial_from, trial_value
from tests.result_builders import DETERMINISTIC, HOSTILE_TEXTS, a_bit_of_everything, run
from tests.trial_builders import arm, metric, scored, trial


def comparison(base: tuple[Trial, ...], head: tuple[Trial, ...], **fields: Any) -> Comparison:
    """Give a comparison of trials alone, as of `--only agent`."""
    runs = (run("base", environment=None), run("head", environment=None))
    return replace(compare(*runs), trials=compare_trials(base, head, **fields))


def verdicts(base: tuple[Trial, ...], head: tuple[Trial, ...]) -> dict[tuple[str, str], MetricVerdict | None]:
    found = compare_trials(base, head).metrics
    return {(change.metric, change.measure): change.verdict for change in found}


# ----------------------------------------------------------------------------- comparing


def test_a_metric_is_compared_by_how_often_it_passed():
    assert verdicts(arm(1, 10), arm(9, 10)) == {("read AGENTS.md", "rate"): MetricVerdict.IMPROVED}
    assert verdicts(arm(9, 10), arm(1, 10)) == {("read AGENTS.md", "rate"): MetricVerdict.REGRESSED}
    assert verdicts(arm(1, 3), arm(3, 3)) == {("read AGENTS.md", "rate"): MetricVerdict.TOO_FEW_TRIALS}
    assert verdicts(arm(15, 20), arm(15, 20)) == {("read AGENTS.md", "rate"): MetricVerdict.NO_DIFFERENCE}


def test_a_score_between_0_and_1_is_compared_by_its_mean_too():
    low, high = scored([0.1, 0.2, 0.3, 0.2, 0.1, 0.2]), scored([0.9, 0.8, 0.85, 0.9, 0.95, 0.8])
    assert verdicts(low, high) == {
        ("rubric", "rate"): MetricVerdict.IMPROVED,
        ("rubric", "score"): MetricVerdict.IMPROVED,
    }


def test_each_case_of_a_matrix_is_compared_by_itself():
    base = arm(1, 10, case="greets[a=1]") + arm(9, 10, case="greets[a=2]")
    head = arm(9, 10, case="greets[a=1]") + arm(1, 10, case="greets[a=2]")
    found = compare_trials(base, head)
    assert [(change.case, change.verdict) for change in found.metrics] == [
        ("greets[a=2]", MetricVerdict.REGRESSED),
        ("greets[a=1]", MetricVerdict.IMPROVED),
    ]
    assert [row.case for row in found.cases] == ["greets[a=1]", "greets[a=2]"]


@pytest.mark.parametrize("ending", [Ending.API_ERROR, Ending.CRASH])
def test_a_trial_that_did_not_end_by_the_agents_own_doing_does_not_count(ending):
    broken = tuple(
        trial(metric(passed=False), number=n, ending=ending, error="the API said 529") for n in range(11, 31)
    )
    found = compare_trials(arm(10, 10), arm(10, 10) + broken)
    assert found.metrics[0].head.value == 1.0
    side = found.cases[0].head
    assert (side.trials, side.graded, side.errors) == (30, 10, ("the API said 529",))


@pytest.mark.parametrize("ending", [Ending.TURNS, Ending.TIME, Ending.MONEY])
def test_a_trial_that_ran_into_a_limit_counts(ending):
    stopped = tuple(trial(metric(passed=False), number=n, ending=ending) for n in range(10))
    assert compare_trials(arm(10, 10), stopped).metrics[0].verdict is MetricVerdict.REGRESSED


def test_what_an_arm_has_not_is_said_and_not_compared():
    absent = tuple(
        trial(
            metric(outcome=MetricOutcome.ABSENT, score=None, message="AGENTS.md is not on this arm"), number=n
        )
        for n in range(10)
    )
    (change,) = compare_trials(absent, arm(10, 10)).metrics
    assert (change.verdict, change.absent) == (None, ("base",))
    assert compare_trials(absent, arm(1, 10)).headline == "1 on one arm alone"
    assert compare_trials(absent, absent).headline == "1 on neither arm"


def test_a_metric_that_could_not_be_graded_in_a_trial_is_left_out_of_the_rate():
    unknown = trial(metric(outcome=MetricOutcome.NOT_GRADED, score=None), number=11)
    (change,) = compare_trials(arm(10, 10), (*arm(10, 10), unknown)).metrics
    assert change.head.trials == 10


def test_no_results_of_a_stranger_keep_the_comparison_busy_for_long():
    many = tuple(trial(*(metric(f"m{n}", score=n / 3_000) for n in range(3_000))) for _ in range(2))
    started = time.monotonic()
    found = compare_trials(many, many)
    assert len(found.metrics) == 2_000
    assert found.notes == ("only the first 2,000 metrics are compared",)
    cases = tuple(trial(case=f"case-{n}", number=n + 1) for n in range(5_000))
    assert len(compare_trials(cases, cases).cases) == 5_000
    repeated = compare_trials(arm(1_500, 3_000), arm(1_600, 3_000))
    assert repeated.metrics[0].base.trials == 1_000
    assert time.monotonic() - started < 60


def test_the_means_are_over_what_is_known_and_nothing_is_invented():
    side = compare_trials(arm(1, 2), ()).cases[0].base
    assert (side.seconds, side.cost, side.tokens) == (2.5, 0.01, 120)
    assert side.endings == (("done", 2),)
    nobody = replace(trial(), trajectory=replace(trial().trajectory, cost=None, seconds=None))
    assert compare_trials((nobody,), ()).cases[0].base.cost is None


def test_the_headline_counts_verdicts():
    assert compare_trials(arm(1, 10), arm(9, 10)).headline == "1 metric improved"
    both = compare_trials(arm(1, 10) + arm(10, 20, "other"), arm(9, 10) + arm(10, 20, "other"))
    assert both.headline == "1 metric improved, 1 with no difference seen"


# ---------------------------------------------------------------------------------- gate


def test_a_metric_that_regressed_fails_the_build_where_that_is_asked_for():
    worse = comparison(arm(9, 10), arm(1, 10))
    result = gate(worse)
    assert (result.exit_code, result.sentence) == (1, "The build fails: 1 metric regressed.")
    assert [change.metric for change in result.metrics] == ["read AGENTS.md"]
    assert gate(worse, frozenset()).exit_code == 0
    assert gate(comparison(arm(1, 10), arm(9, 10))).exit_code == 0


def broken(count: int = 3) -> tuple[Trial, ...]:
    return tuple(trial(number=n + 1, ending=Ending.API_ERROR, error="401") for n in range(count))


def test_an_arm_of_which_no_trial_was_graded_gives_no_verdict():
    result = gate(comparison(arm(3, 3), broken()))
    assert (result.conclusion, result.exit_code) == ("error", 3)
    assert "No trial could be graded on head" in result.sentence


def test_a_case_of_which_no_trial_was_graded_fails_the_build():
    base = arm(3, 3) + arm(3, 3, case="other")
    head = arm(3, 3) + tuple(replace(item, case="other") for item in broken())
    result = gate(comparison(base, head))
    assert (result.exit_code, result.sentence) == (1, "The build fails: 1 eval not graded.")
    assert gate(comparison(base, head), frozenset({ChangeKind.REGRESSED})).exit_code == 0


def test_tests_and_trials_are_judged_together():
    runs = a_bit_of_everything()
    both = replace(compare(*runs), trials=compare_trials(arm(9, 10), arm(1, 10)))
    assert "1 metric regressed" in gate(both).sentence
    page = " ".join(terminal.render(both, gate(both)).split())
    assert "; 1 metric regressed" in page


# -------------------------------------------------------------------------------- formats


def test_a_terminal_shows_both_arms_the_difference_and_the_verdict():
    found = comparison(arm(2, 10), arm(9, 10), notes=("an eval cannot be used",))
    page = terminal.render(found, gate(found), Options(width=110))
    assert page.startswith("1 metric improved\n")
    for text in (
        "2 of 10: 20 %",
        "(6 to 51)",
        "9 of 10: 90 %",
        "+70 points",
        "improved (p 0.003)",
        "10 done",
        "$0.0100",
        "note: an eval cannot be used",
    ):
        assert text in page
    assert "WordPress" not in page
    assert max(map(len, page.splitlines())) <= 110


def test_too_few_trials_are_said_with_what_they_could_have_seen():
    page = terminal.render(found := comparison(arm(1, 3), arm(2, 3)), gate(found))
    assert "too few trials to" in page and "show any difference" in page
    page = terminal.render(found := comparison(arm(9, 10), arm(8, 10)), gate(found))
    assert "points or more would show" in " ".join(page.split())


def test_a_regression_comes_with_a_reason():
    page = terminal.render(found := comparison(arm(9, 10), arm(1, 10)), gate(found))
    assert "head: 0% of it came back" in " ".join(page.split())


def test_a_comment_has_the_same_table():
    found = comparison(arm(2, 10), scored([0.8] * 10, "read AGENTS.md"))
    page = markdown.render(found, gate(found))
    # A value and its interval stay in one piece each, however narrow the page.
    row = "| <code>read AGENTS.md</code> | 2 of 10: 20 %<br>(6 to 51) | 10 of 10: 100 %<br>"
    assert row in page.replace("\N{NO-BREAK SPACE}", " ")
    assert "20\N{NO-BREAK SPACE}%" in page
    assert "(mean score) | 0.20" in page
    assert "**improved (p" in page


def test_a_comment_stays_within_its_room_and_counts_what_it_leaves_out():
    base = tuple(trial(*(metric(f"metric {n} {'x' * 90}", False) for n in range(200))) for _ in range(2))
    found = comparison(base, base)
    page = markdown.render(found, gate(found))
    assert len(page.encode("utf-16-le")) // 2 < 65_536
    assert "more metrics are left out here." in page


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_text_acts_on_nothing(text):
    said = metric(text, False, message=text)
    hostile = tuple(replace(trial(said, number=n, case=text, error=text), suite=text) for n in range(1, 11))
    good = tuple(trial(metric(text), number=n, case=text) for n in range(1, 11))
    found = comparison(good, hostile, notes=(text,))
    page = terminal.render(found, gate(found), Options(width=100, colour=False))
    assert not any(ord(char) < 32 and char != "\n" for char in page)
    written = markdown.render(found, gate(found))
    assert "<script>" not in written and "@octocat" not in written
    json.loads(json_report.render(found, gate(found)))


def test_the_json_fits_the_published_schema_and_has_no_key_that_it_does_not_describe():
    found = comparison(scored([0.2] * 6 + [1.0]), scored([0.9] * 6) + broken(1), notes=("a note",))
    value = json_report.comparison_value(found, gate(found))
    assert violation("comparison", value) is None
    definitions: Any = validator("comparison").schema
    for name, items in (("metric_change", value["metrics"]), ("case", value["cases"])):
        known = definitions["$defs"][name]["properties"].keys()
        assert isinstance(items, list) and items
        assert all(item.keys() <= known for item in items)


def test_a_comparison_without_agents_is_what_it_was():
    found = compare(*a_bit_of_everything())
    assert "metrics" not in json_report.comparison_value(found, gate(found))


# ---------------------------------------------------------------------------- on the disk


def everything() -> Trial:
    calls = (
        Call("Bash", {"command": "x"}, "out", True, 1.5, 0.25, "id", 2),
        Call("Odd", ["list", 1, None, True, 2.5], ""),
    )
    full = trial(
        metric(),
        metric("b", False, message="why"),
        metric("c", outcome=MetricOutcome.ABSENT, score=None, message="gone"),
        error="broken",
    )
    return replace(full, trajectory=replace(full.trajectory, calls=calls), notes=("a note",))


def test_a_trial_is_written_and_read_back(tmp_path):
    writer = TrialWriter(tmp_path, "head")
    trials = [everything(), trial(number=2, ending=Ending.TIME)]
    for item in trials:
        writer.append(item)
    writer.close()
    assert list(read_trials(tmp_path, "head")) == trials
    assert read_trials(tmp_path, "base") == ()
    lines = (tmp_path / "head" / "trials.jsonl").read_text().splitlines()
    schema: Any = validator("trial").schema
    for line in lines:
        value = json.loads(line)
        assert violation("trial", value) is None
        assert value.keys() <= schema["properties"].keys()
    clear(tmp_path)
    assert read_trials(tmp_path, "head") == ()


def test_what_is_published_has_the_metrics_of_the_stored_trials(tmp_path):
    for name, trials in (("base", arm(9, 10)), ("head", arm(1, 10))):
        write_run(tmp_path, run(name, environment=None))
        writer = TrialWriter(tmp_path, name)
        for item in trials:
            writer.append(item)
        writer.close()
    answer = read_answer(tmp_path, frozenset({ChangeKind.REGRESSED}), Names("main", "#12"))
    assert answer.gate.exit_code == 1
    assert "**regressed (p" in comment(answer, "default")


def test_a_trial_whose_writing_was_broken_off_is_left_out(tmp_path):
    writer = TrialWriter(tmp_path, "head")
    writer.append(trial())
    writer.close()
    with (tmp_path / "head" / "trials.jsonl").open("a") as file:
        file.write('{"eval_id": "x')
    assert len(read_trials(tmp_path, "head")) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"number": 0},
        {"ending": "died"},
        {"metrics": [{"name": "x", "outcome": "maybe"}]},
        {"metrics": [{"name": "x", "outcome": "passed", "score": 2}]},
        {"calls": [{"name": "x", "input": 1}]},
        {"calls": [{"name": "x", "input": 1, "output": "", "exit_code": "0"}]},
        {"change": {"files": [{"path": "x", "kind": "moved"}]}},
        {"reads": [{"path": "x", "call": -1}]},
        {"usage": {"requests": -1}},
        {"variables": {"a": 1}},
        {"cost": -1},
    ],
)
def test_a_forged_trial_is_refused_by_the_schema_and_the_code_alike(tmp_path, changed):
    value = {**trial_value(trial()), **changed}
    assert violation("trial", value) is not None
    with pytest.raises(Unexpected):
        trial_from(value)
    place = tmp_path / "head"
    place.mkdir()
    (place / "trials.jsonl").write_text(json.dumps(value) + "\n")
    with pytest.raises(ResultsError, match="line 1"):
        read_trials(tmp_path, "head")


def test_results_behind_a_link_are_not_read(tmp_path):
    (tmp_path / "secret").write_text("")
    (tmp_path / "head").mkdir()
    (tmp_path / "head" / "trials.jsonl").symlink_to(tmp_path / "secret")
    with pytest.raises(UsageError, match="reached by a link"):
        read_trials(tmp_path, "head")


# ---------------------------------------------------------------------------- what is kept


def nothing_secret(text: str) -> str:
    return text


def big() -> Trial:
    calls = tuple(Call("Bash", {"command": "y" * 50_000}, "x" * 100_000) for _ in range(100))
    files = tuple(FileChange(f"f{n}", "added", None, "file", "+" * 100_000) for n in range(100))
    reads = (FileRead("a", "x" * 100_000, 0), FileRead("b", "x" * 100_000, 99))
    one = trial()
    trajectory = replace(one.trajectory, calls=calls, reads=reads, final_message="z" * 1_000_000)
    return replace(one, trajectory=trajectory, change=WorkspaceChange(files))


def test_a_trial_is_cut_to_size_and_says_so():
    caps = TrialCaps(text=1_000, calls=50, files=60, together=100_000)
    found = kept(big(), nothing_secret, caps)
    assert len(json.dumps(trial_value(found))) < 350_000
    assert "99,000 characters are not kept" in found.trajectory.calls[0].output
    assert found.notes == ("50 more calls are not kept",)
    assert (len(found.change.files), found.change.omitted) == (60, 40)
    assert found.trajectory.reads == (FileRead("a", "", 0),)


def test_a_line_is_never_longer_than_a_reader_takes(tmp_path):
    hostile = replace(
        big(),
        trajectory=replace(
            big().trajectory,
            calls=tuple(Call("\x01" * 100, "\x02" * 16_000, "\x03" * 16_000) for _ in range(2_000)),
        ),
    )
    writer = TrialWriter(tmp_path, "head")
    writer.append(kept(hostile, nothing_secret, TrialCaps()))
    writer.close()
    assert len(read_trials(tmp_path, "head")) == 1


def test_secrets_are_taken_out_of_everything_before_it_is_cut():
    secret = "s3cr3t-marker-value"
    call = Call(secret, {secret: [secret, {"deep": secret}]}, "x" * 995 + secret)
    one = replace(everything(), case=secret, notes=(secret,), variables={secret: secret})
    trajectory = replace(one.trajectory, calls=(call,), skills=(secret,), final_message=secret, error=secret)
    one = replace(one, trajectory=trajectory, metrics=(metric(secret, False, message=secret),))
    one = replace(
        one, change=WorkspaceChange((FileChange(secret, "added", None, None, secret),), 0, (secret,))
    )
    found = kept(one, lambda text: text.replace(secret, "[redacted]"), TrialCaps(text=1_000))
    text = json.dumps(trial_value(found))
    assert secret[:8] not in text
    assert text.count("[redacted]") >= 14
    assert found.trajectory.ending is Ending.DONE


def test_what_json_cannot_hold_is_written_as_text():
    deep: Any = "bottom"
    for _ in range(500):
        deep = [deep]
    odd = Call("x", {"nan": float("nan"), "deep": deep}, "\ud800")
    one = replace(trial(), trajectory=replace(trial().trajectory, calls=(odd,)))
    found = trial_value(kept(one, nothing_secret, TrialCaps()))
    assert violation("trial", json.loads(json.dumps(found, allow_nan=False))) is None
    assert "bottom" not in json.dumps(found)


TEXT = st.text(max_size=20)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@DETERMINISTIC
@given(JSON_VALUES, TEXT, st.sampled_from(list(Ending)), st.none() | st.integers(-300, 300))
def test_whatever_an_agent_did_is_read_back_as_it_was_written(given_input, text, ending, exit_code):
    one = trial(metric(text or "m", message=text), ending=ending)
    call = Call(text, given_input, text, exit_code=exit_code)
    one = replace(one, trajectory=replace(one.trajectory, calls=(call,)))
    value = json.loads(json.dumps(trial_value(one)))
    assert violation("trial", value) is None
    assert trial_from(value) == one
