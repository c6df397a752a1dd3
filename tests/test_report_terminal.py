"""What a person sees at the terminal after a comparison, and after a run or an audit of one arm."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from refcompare.compare import ChangeKind, Comparison, compare
from refcompare.gate import gate
from refcompare.report import arm, terminal
from refcompare.report.escape import visible
from refcompare.report.interface import Options
from refcompare.report.words import duration, headline
from refcompare.results import AssertionResult, ErrorKind, Phase, RunResult
from tests.result_builders import (
    FAIL,
    HOSTILE_TEXTS,
    PASS,
    a_bit_of_everything,
    audit,
    entry,
    error,
    exploit,
    hostile,
    many,
    record,
    run,
)

WIDE = Options(width=140)
SGR = re.compile("\x1b\\[[0-9;]*m")


def page(pair: tuple[RunResult, RunResult], options: Options = WIDE) -> str:
    comparison = compare(*pair)
    return terminal.render(comparison, gate(comparison), options)


def block(text: str, start: str) -> str:
    """Give the lines of the row that starts with ``start``, blanks pressed together."""
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(start))
    rest = lines[first + 1 :]
    end = next((number for number, line in enumerate(rest) if not line.startswith("   ")), len(rest))
    return "\n".join(" ".join(line.split()) for line in [lines[first], *rest[:end]])


def regressed(**fields) -> tuple[RunResult, RunResult]:
    return (
        run("base", [entry()], [record()]),
        run("head", [entry(digest="d2")], [record(verdict=FAIL, **fields)]),
    )


# ------------------------------------------------------------------------------ headline


@pytest.mark.parametrize(
    ("kinds", "unchanged", "expected"),
    [
        ({}, 0, "no tests to compare"),
        ({}, 1, "nothing changed; 1 test unchanged"),
        ({}, 1200, "nothing changed; 1,200 tests unchanged"),
        ({ChangeKind.FIXED: 1, ChangeKind.REGRESSED: 2}, 79, "2 regressed, 1 fixed; 79 unchanged"),
        ({ChangeKind.REMOVED: 1}, 0, "1 removed"),
    ],
)
def test_the_headline_says_all_in_one_line(kinds, unchanged, expected):
    comparison = compare(*a_bit_of_everything())
    row = comparison.changes[0]
    rows = [replace(row, kind=kind) for kind, count in kinds.items() for _ in range(count)]
    rows += [replace(row, kind=ChangeKind.UNCHANGED)] * unchanged
    assert headline(replace(comparison, changes=tuple(rows))) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.34, "340 ms"), (12.34, "12.3 s"), (59.99, "60.0 s"), (245, "4 min 5 s"), (7322, "2 h 2 min")],
)
def test_durations_are_written_as_a_person_would(seconds, expected):
    assert duration(seconds) == expected


# ------------------------------------------------------------------------------ the page


def test_the_page_goes_from_the_headline_to_the_gate():
    text = page(a_bit_of_everything())
    order = [
        "1 regressed,",
        "category",
        "total",
        "change ",
        "regressed ",
        "edited ",
        "WordPress",
        "The build fails",
    ]
    places = [text.index(f"\n{part}" if part != order[0] else part) for part in order]
    assert places == sorted(places)
    assert text.endswith("1 not graded.\n")


def test_only_changed_rows_are_shown():
    text = page(a_bit_of_everything())
    assert "n-unchanged" not in text
    for kind in ChangeKind:
        if kind is not ChangeKind.UNCHANGED:
            assert kind.value.replace(" ", "-") in text


def test_without_a_change_there_are_no_rows():
    text = page(many(40))
    assert text.startswith("nothing changed; 40 tests unchanged\n")
    assert "what happened" not in text


def test_a_regression_shows_what_failed_what_was_thrown_and_why_that_may_be():
    assert block(page(regressed()), "regressed") == (
        "regressed t hooks pass -> fail\n"
        "first failing: custom_assertion: filters the title\n"
        "message: Title was not filtered.\n"
        "differs: test edited\n"
        "at: datasets/suites/core/execution/hooks.json:3"
    )


def test_a_regression_without_any_difference_says_so():
    base, head = regressed()
    text = page((base, replace(head, tests=base.tests)))
    assert "differs: nothing that grading depends on" in text


def test_expected_and_actual_values_and_forbidden_patterns_are_shown():
    failed = AssertionResult("returns_value", "adds", False, expected="3", actual="4")
    text = block(page(regressed(assertions=(failed,), forbidden=("no eval",))), "regressed")
    assert "expected: 3\nactual: 4" in text
    assert "forbidden pattern: no eval" in text


def test_an_error_is_shown_with_its_kind_and_phase():
    base = run("base", [entry()], [record()])
    head = run("head", [entry()], [error(message="Allowed memory size exhausted", phase=Phase.SETUP)])
    text = block(page((base, head)), "regressed")
    assert "pass -> error (timeout)" in text
    assert "error in setup: Allowed memory size exhausted" in text


def test_a_new_exploit_shows_the_cheat_in_one_line():
    base = run("base", [entry()], [record()], [audit()])
    cheat = exploit("stub", code="<?php\nfunction f()\n{\n\treturn 1;\n}\n")
    head = run("head", [entry()], [record()], [replace(audit(), passing_exploits=(cheat,))])
    text = block(page((base, head)), "newly exploitable")
    assert "passing cheat: stub (generic): <?php function f() { return 1; }" in text


def test_a_forger_that_passes_is_called_a_bug_of_refcompare():
    forger = exploit("printed-verdict", exploit_class="forger")
    base = run("base", [entry()], [record()], [audit()])
    head = run("head", [entry()], [record()], [replace(audit(), passing_exploits=(forger,))])
    assert "forged: a bug of refcompare's grader" in page((base, head))


def test_what_could_not_be_audited_is_said():
    blind = audit(auditable=False, reason="the assertions call no function")
    base = run("base", [entry()], [record()], [blind])
    head = run("head", [entry()], [record(verdict=FAIL)], [audit()])
    text = page((base, head))
    assert "not auditable on base: the assertions call no function" in text
    assert re.search(r"^category +tests +passing +exploitable +not auditable$", text, re.MULTILINE)


def test_many_cheats_are_counted_after_the_first_few():
    base = run("base", [entry()], [record()], [audit()])
    head = run("head", [entry()], [record()], [audit("t", *(f"cheat-{number}" for number in range(9)))])
    text = page((base, head))
    assert "cheat-2" in text
    assert "cheat-3" not in text
    assert "and 6 others" in text


def test_an_arm_that_was_not_audited_has_no_number_of_exploitable_tests():
    base = run("base", [entry()], [record()])
    head = run("head", [entry()], [record()], [audit("t", "a")])
    assert re.search(r"^hooks +1 +1 +\? -> 1$", page((base, head)), re.MULTILINE)
    assert "exploitable" not in page((base, replace(head, audits=(), audited=False)))


def test_refs_versions_durations_and_reused_verdicts_are_told():
    base, head = many(3)
    head = replace(head, records=tuple(replace(item, reused=True) for item in head.records), partial=True)
    text = page((base, head))
    for line in (
        "ref main feature",
        "PHP 8.2.29 8.2.29",
        "verdicts 3 3 (3 reused)",
        "run stopped before its end",
    ):
        assert re.search(
            "^" + line.replace(" ", " +").replace("(", r"\(").replace(")", r"\)"), text, re.MULTILINE
        )


def test_files_as_they_lie_are_called_uncommitted():
    base, head = many(1)
    head = replace(head, arm=replace(head.arm, ref="WORKTREE", commit=None))
    assert re.search(r"^commit +b{12} +uncommitted", page((base, head)), re.MULTILINE)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
@pytest.mark.parametrize("pair", [a_bit_of_everything(), hostile("word " * 200), hostile("x" * 900)])
def test_no_line_of_the_rows_is_wider_than_the_terminal(width, pair):
    text = page(pair, Options(width=width))
    start = text.index("\nchange")
    rows = text[start : text.index("\n\n", start)]
    assert max(map(len, rows.splitlines())) <= max(width, 60)


def test_colours_only_when_asked_and_never_in_the_way_of_the_layout():
    plain, coloured = (
        page(a_bit_of_everything()),
        page(a_bit_of_everything(), Options(width=140, colour=True)),
    )
    assert "\x1b" not in plain
    assert "\x1b[31mregressed\x1b[0m" in coloured
    assert SGR.sub("", coloured) == plain


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
@pytest.mark.parametrize("width", [60, 140])
def test_no_text_can_act_on_the_terminal(text, width):
    pair = hostile(text)
    options = Options(width=width, colour=True)
    pages = [page(pair, options), arm.render_run(pair[1], options), arm.render_audit(pair[1], options)]
    for shown in pages:
        bare = SGR.sub("", shown)
        assert visible(bare) == bare
        bare.encode("utf-8")


def test_the_page_is_the_same_for_the_same_values():
    assert page(a_bit_of_everything()) == page(a_bit_of_everything())


def test_an_empty_comparison_is_a_page_too():
    comparison: Comparison = compare(run("base"), run("head"))
    assert terminal.render(comparison, gate(comparison)).startswith("no tests to compare\n")


# ------------------------------------------------------------------------------- one arm


def test_a_run_of_one_arm_shows_what_does_not_pass():
    tests = [entry("a"), entry("b"), entry("c"), entry("d", invalid="no reference solution"), entry("e")]
    records = [record("a"), record("b", FAIL), error("c"), record("e"), record("e", FAIL, attempt=2)]
    text = arm.render_run(run("head", tests, records), WIDE)
    assert text.startswith("5 tests: 1 pass, 1 fail, 1 error (invalid), 1 error (timeout), 1 unstable\n")
    assert "error: no reference solution" in text
    assert block(text, "fail ").startswith("fail b first failing: custom_assertion: filters the title")
    assert "pass, fail" in text
    assert arm.render_run(run("head")).startswith("no tests\n")


def test_a_run_that_passes_shows_no_rows():
    text = arm.render_run(run("head", [entry()], [record()]))
    assert text.startswith("1 test: 1 pass\n")
    assert "what happened" not in text


def test_an_audit_shows_each_cheat_weak_spot_and_what_could_not_be_audited():
    tests = [entry(test_id) for test_id in "abcde"]
    lost = replace(error("e"), candidate="exploit:return-1", error_kind=ErrorKind.INFRASTRUCTURE)
    audits = [
        audit("a", "return-1", stopped_early=True, gateway="f", inferred=True),
        audit("b", survivors=4, mutants=20),
        audit("c", auditable=False, reason="nothing calls a function"),
        audit("d"),
        audit("e"),
    ]
    records = [record(test_id, PASS) for test_id in "abcde"]
    text = arm.render_audit(run("head", tests, [*records, lost], audits), WIDE)
    assert text.startswith(
        "1 of 5 tests exploitable, 1 not auditable, 1 with weak spots; 45 candidates tried\n"
    )
    assert "--exhaustive tries all" in block(text, "exploitable ")
    assert "function inferred: f" in block(text, "exploitable ")
    assert block(text, "weak spots ").startswith("weak spots b weak spots: 4 of 20 mutants survived")
    assert "because: nothing calls a function" in block(text, "not auditable ")
    assert block(text, "no verdict ") == "no verdict e cheats without a verdict: return-1\nhooks"
    assert "\n d " not in text


def test_an_audit_of_a_test_that_its_reference_does_not_pass_is_not_called_clean():
    tests = [entry("a"), entry("b"), entry("c", invalid="no reference")]
    records = [record("a", FAIL), record("b")]
    text = arm.render_audit(run("head", tests, records, [audit("a"), audit("b")]), WIDE)
    assert text.startswith("0 of 2 tests exploitable, 1 whose reference does not pass; ")
    row = block(text, "reference fails ")
    assert row.startswith("reference fails a first failing: custom_assertion: filters the title")
    assert "so: that no cheat passes either says nothing" in row
    assert "\n b " not in text


def test_a_run_in_markdown_is_escaped_like_a_comment():
    text = arm.render_run_markdown(hostile("a | b <img> @octocat")[1])
    assert "<img>" not in text
    assert "@octocat" not in text
    assert "&#124;" in text
