"""Which comparisons fail the build, and with which exit code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refcompare.compare import ChangeKind, compare
from refcompare.errors import UsageError
from refcompare.gate import DEFAULT_FAIL_ON, GateResult, gate, parse_fail_on
from refcompare.results import ErrorKind
from tests.result_builders import (
    DETERMINISTIC,
    FAIL,
    a_bit_of_everything,
    audit,
    entry,
    error,
    infrastructure,
    many,
    record,
    run,
)

K = ChangeKind


def judged(base_records, head_records, fail_on=DEFAULT_FAIL_ON, **audits) -> GateResult:
    tests = [entry("t"), entry("u")]
    base = run("base", tests, [record("u"), *base_records], audits.get("base", ()))
    head = run("head", tests, [record("u"), *head_records], audits.get("head", ()))
    return gate(compare(base, head), fail_on)


def test_nothing_changed_is_a_success():
    result = judged([record()], [record()])
    assert (result.conclusion, result.exit_code, result.gated) == ("success", 0, ())
    assert result.sentence == "Nothing that fails the build changed."


def test_a_regression_fails_the_build():
    result = judged([record()], [record(verdict=FAIL)])
    assert (result.conclusion, result.exit_code) == ("failure", 1)
    assert [change.test_id for change in result.gated] == ["t"]
    assert result.sentence == "The build fails: 1 regressed."


def test_what_is_not_asked_for_does_not_fail_the_build():
    assert judged([record()], [record(verdict=FAIL)], frozenset({K.REMOVED})).exit_code == 0
    assert judged([record()], [record(verdict=FAIL)], frozenset()).exit_code == 0


def test_by_default_the_four_kinds_of_the_design_fail_the_build():
    result = gate(compare(*a_bit_of_everything()))
    assert [change.kind for change in result.gated] == [
        K.REGRESSED,
        K.NEWLY_EXPLOITABLE,
        K.BROKEN_WHEN_ADDED,
        K.NOT_GRADED,
    ]
    assert result.sentence == (
        "The build fails: 1 regressed, 1 newly exploitable, 1 broken when added, 1 not graded."
    )


def test_a_row_is_judged_by_everything_that_holds_of_it():
    pair = {"base": [audit()], "head": [audit("t", "return-1")]}
    result = judged([record()], [record(verdict=FAIL)], frozenset({K.NEWLY_EXPLOITABLE}), **pair)
    assert [change.kind for change in result.gated] == [K.REGRESSED]
    assert result.sentence == "The build fails: 1 newly exploitable."


def test_some_tests_without_a_verdict_fail_the_build_by_default():
    assert judged([record()], [infrastructure()]).exit_code == 1


@pytest.mark.parametrize("fail_on", [DEFAULT_FAIL_ON, frozenset()])
@pytest.mark.parametrize("broken", ["base", "head"])
def test_an_arm_on_which_nothing_was_graded_is_an_error_whatever_was_asked(broken, fail_on):
    tests = [entry("t"), entry("u", invalid="no reference")]
    good, lost = [record()], [infrastructure()]
    base = run("base", tests, lost if broken == "base" else good)
    head = run("head", tests, lost if broken == "head" else good)
    result = gate(compare(base, head), fail_on)
    assert (result.conclusion, result.exit_code, result.gated) == ("error", 3, ())
    assert f"No test could be graded on {broken}," in result.sentence


def test_a_removed_test_without_a_verdict_does_not_mean_that_the_environment_failed():
    base = run("base", [entry("gone"), entry("u", invalid="no reference")])
    head = run("head", [entry("u", invalid="no reference"), entry("new")], [record("new")])
    assert gate(compare(base, head)).conclusion == "success"


def test_tests_that_are_all_invalid_are_a_verdict():
    tests = [entry()]
    result = gate(
        compare(
            run("base", tests, [error(kind=ErrorKind.INVALID)]),
            run("head", tests, [error(kind=ErrorKind.INVALID)]),
        )
    )
    assert result.conclusion == "success"


def test_no_tests_at_all_and_a_stopped_run_are_said():
    assert gate(compare(run("base"), run("head"))).sentence == "There was no test to compare."
    stopped = gate(compare(run("base"), run("head", partial=True)))
    assert stopped.sentence.endswith("The run was stopped before its end.")
    early = gate(compare(run("base", [entry()], [record()]), run("head", [entry()], partial=True)))
    assert early.sentence == (
        "The run was stopped before a test was graded on head, so there is no verdict."
    ), "the user stopped it, so nothing is wrong with the environment"
    allowed = gate(compare(*many(3)), frozenset())
    assert allowed.sentence == "Nothing fails the build, as was asked."


@pytest.mark.parametrize(
    "text",
    ["regressed,newly exploitable", "Regressed, newly-exploitable", " newly_exploitable ,, regressed"],
)
def test_kinds_may_be_written_with_spaces_or_hyphens(text):
    assert parse_fail_on(text) == {K.REGRESSED, K.NEWLY_EXPLOITABLE}


def test_none_and_any_stand_alone():
    assert parse_fail_on("none") == frozenset()
    assert parse_fail_on("any") == set(ChangeKind) - {K.UNCHANGED}
    with pytest.raises(UsageError, match="alone"):
        parse_fail_on("none,regressed")


@DETERMINISTIC
@given(st.sets(st.sampled_from([kind for kind in ChangeKind if kind is not K.UNCHANGED]), min_size=1))
def test_every_set_of_kinds_can_be_written_and_read_back(kinds):
    assert parse_fail_on(",".join(kind.value.replace(" ", "-") for kind in kinds)) == kinds


def test_an_unknown_kind_names_those_that_are_near():
    with pytest.raises(UsageError, match=r"'regresed' is no kind of change; did you mean 'regressed'\?"):
        parse_fail_on("regresed")
    with pytest.raises(UsageError, match="newly-exploitable"):
        parse_fail_on("exploitable")


@pytest.mark.parametrize("text", ["", " , ", "xyzzyxyzzy", "unchanged"])
def test_what_is_no_kind_of_change_is_a_usage_error_that_lists_the_kinds(text):
    with pytest.raises(UsageError, match="exposure-changed") as raised:
        parse_fail_on(text)
    assert raised.value.exit_code == 2


def test_a_hostile_kind_cannot_write_to_the_terminal():
    with pytest.raises(UsageError) as raised:
        parse_fail_on("\x1b[31m" + "x" * 500)
    assert "\x1b" not in str(raised.value)
    assert len(str(raised.value)) < 400
