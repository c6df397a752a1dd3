"""Everything that is known of one test, for a person and for a script."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace

import pytest

from refcompare.errors import UsageError
from refcompare.report.escape import visible
from refcompare.report.interface import Options
from refcompare.report.show import canonical, definition_diff, show, show_json
from refcompare.results import AssertionResult, PassingExploit, WeakSpot
from refcompare.schemas import violation
from tests.result_builders import (
    FAIL,
    HOSTILE_TEXTS,
    a_bit_of_everything,
    audit,
    entry,
    error,
    hostile,
    record,
    run,
)

WIDE = Options(width=140)
SGR = re.compile("\x1b\\[[0-9;]*m")
DEFINITION = {"id": "t", "reference_solution": "function f() {\n\treturn 1;\n}\n", "category": "hooks"}


def squeezed(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


# ---------------------------------------------------------------------------- both arms


def test_the_page_starts_with_the_test_and_its_row():
    text = show("a-regressed", a_bit_of_everything(), options=WIDE)
    assert text.startswith(
        "a-regressed (suite core, category a)\n\n"
        "regressed: pass -> fail\n"
        "first failing: custom_assertion: filters the title\n"
    )
    assert "differs: test edited; WordPress 7.1.1 -> 7.2" in text


def test_each_arm_says_its_ref_its_environment_and_where_the_test_is():
    text = show("a-regressed", a_bit_of_everything(), options=WIDE)
    assert (
        "base: main (bbbbbbbbbbbb) on WordPress 7.1.1, PHP 8.2.29\nat: datasets/suites/core/execution/a"
        in text
    )
    assert "head: feature (hhhhhhhhhhhh) on WordPress 7.2, PHP 8.2.29" in text
    assert "definition digest: d2" in text


def test_an_arm_without_the_test_is_left_out():
    text = show("c-broken-when-added", a_bit_of_everything())
    assert "base:" not in text
    assert "\nbroken when added: fail\n" in text


def test_every_attempt_of_the_reference_is_shown_with_its_verdict_and_time():
    records = [
        record(ms=12.345, score=1.0, reused=True),
        record(verdict=FAIL, attempt=2, score=0.5),
        error(attempt=3),
    ]
    text = squeezed(show("t", [run("head", [entry()], records)], options=WIDE))
    assert "attempt reference score ms reused" in text, "no column without anything in it"
    assert "1 pass 1.000 12.3 yes" in text
    assert "2 fail 0.500 12.5" in text
    assert "3 error (timeout) 12.5" in text


def test_every_assertion_is_shown_and_what_it_expected():
    assertions = (
        AssertionResult("function_exists", "declares add()", True, 0.0),
        AssertionResult("returns_value", "adds", False, 2.0, "Wrong sum.", "3", "4"),
    )
    text = squeezed(
        show("t", [run("head", [entry()], [record(verdict=FAIL, assertions=assertions)])], options=WIDE)
    )
    assert "pass function_exists 0 declares add()" in text
    assert "fail returns_value 2 adds\nmessage: Wrong sum.\nexpected: 3\nactual: 4" in text


def test_messages_patterns_and_the_end_of_the_output_are_shown():
    output = "\n".join(f"line {number}" for number in range(100))
    item = record(
        verdict=FAIL,
        message="Undefined variable $x",
        forbidden=("no eval",),
        missing=("uses add_filter",),
        output=output,
    )
    text = show("t", [run("head", [entry()], [item])], options=WIDE)
    assert "message: Undefined variable $x" in text
    assert "forbidden pattern: no eval" in text
    assert "required pattern not found: uses add_filter" in text
    assert "output\n… (60 lines before)\nline 60\n" in text
    assert text.count("\nline ") == 40


def test_the_audit_is_shown_with_the_code_of_each_cheat_and_each_weak_spot():
    found = replace(
        audit(gateway="my_filter", inferred=True, stopped_early=True, mutants=5),
        passing_exploits=(PassingExploit("return-1", "generic", "function my_filter()\n{\n\treturn 1;\n}"),),
        weak_spots=(WeakSpot(12, "a capability check removed"),),
    )
    text = show("t", [run("head", [entry()], [record()], [found])], options=WIDE)
    assert "exploitable\nfunction inferred: my_filter\n" in text
    assert "candidates tried: 9; mutants: 5" in text
    assert "passing cheat return-1 (generic)\nfunction my_filter()\n{\n    return 1;\n}\n" in text
    assert "weak spot: line 12: a capability check removed" in text


def test_every_other_candidate_is_shown_with_its_verdicts():
    records = [
        record(),
        record(candidate="exploit:return-1", attempt=2),
        record(candidate="exploit:return-1", verdict=FAIL),
        record(candidate="mutant:drop-1"),
    ]
    text = squeezed(show("t", [run("head", [entry()], records)], options=WIDE))
    assert "exploit:return-1 fail, pass 12.5" in text
    assert "mutant:drop-1 pass 12.5" in text


def test_a_test_without_a_verdict_and_one_that_is_invalid_say_so():
    text = show("t", [run("head", [entry(invalid="no reference solution")])])
    assert "invalid: no reference solution" in text
    assert "no verdict of the reference" in text


# ---------------------------------------------------------------------------- definition


def test_the_definition_is_compared_line_by_line_within_its_texts():
    after = {**DEFINITION, "reference_solution": "function f() {\n\treturn 2;\n}\n"}
    lines = definition_diff(DEFINITION, after)
    assert lines[:2] == ["--- base", "+++ head"]
    assert [line for line in lines[2:] if line[0] in "+-"] == ["-\\treturn 1;\\n", "+\\treturn 2;\\n"]
    text = show("a-regressed", a_bit_of_everything(), {"base": DEFINITION, "head": after})
    assert "\n-\\treturn 1;\\n\n+\\treturn 2;\\n\n" in text


def test_the_order_of_keys_is_no_difference():
    assert definition_diff(DEFINITION, dict(reversed(DEFINITION.items()))) == []
    text = show("a-regressed", a_bit_of_everything(), {"base": DEFINITION, "head": DEFINITION})
    assert "definition\nthe same on both arms" in text


def test_an_escaped_backslash_before_an_n_is_no_line_end():
    assert canonical("a\\nb\nc") == '"a\\\\nb\\n\nc"'


def test_the_definition_of_one_arm_is_shown_whole():
    text = show("c-broken-when-added", a_bit_of_everything(), {"head": DEFINITION})
    assert 'definition on head\n{\n  "category": "hooks",' in text


def test_definitions_made_to_be_slow_are_not_compared():
    before = {"code": "\n".join(f"line {number}" for number in range(100_000))}
    after = {"code": "\n".join(f"line {number}" for number in reversed(range(100_000)))}
    started = time.process_time()
    (line,) = definition_diff(before, after)
    assert line == "differs, and is too long to compare: 100,002 lines before, 100,002 after"
    assert time.process_time() - started < 5


# --------------------------------------------------------------------------------- input


def test_an_unknown_test_names_those_that_are_near():
    with pytest.raises(
        UsageError, match=r"no test 'a-regresed' in these results; did you mean 'a-regressed'"
    ):
        show("a-regresed", a_bit_of_everything())
    with pytest.raises(UsageError, match="they hold 14 other tests"):
        show_json("xyz\x1b", a_bit_of_everything())


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_no_text_can_act_on_the_terminal(text):
    pair = hostile(text)
    page = show(text, pair, {"base": {"a": text}, "head": {text: "b"}}, Options(width=80, colour=True))
    bare = SGR.sub("", page)
    assert visible(bare) == bare
    bare.encode("utf-8")
    printed = show_json(text, pair, {"base": {"a": text}})
    assert visible(printed) == printed
    assert json.loads(printed)["test_id"] == text


def test_colours_only_when_asked():
    pair = a_bit_of_everything()
    definitions = {"base": DEFINITION, "head": {**DEFINITION, "category": "x"}}
    plain = show("a-regressed", pair, definitions, WIDE)
    coloured = show("a-regressed", pair, definitions, Options(width=140, colour=True))
    assert "\x1b" not in plain
    assert SGR.sub("", coloured) == plain


# -------------------------------------------------------------------------------- script


def test_a_script_gets_everything_in_the_documented_shapes():
    value = json.loads(show_json("a-regressed", a_bit_of_everything(), {"base": DEFINITION}))
    assert (value["schema_version"], value["test_id"], value["kind"], value["also"]) == (
        1,
        "a-regressed",
        "regressed",
        [],
    )
    assert value["reasons"] == ["test edited", "WordPress 7.1.1 -> 7.2"]
    base, head = value["arms"]
    assert base["definition"] == DEFINITION
    assert "definition" not in head
    assert [item["verdict"] for item in head["records"]] == ["fail", "fail"]
    assert all(violation("record", item) is None for item in head["records"])
    assert head["audit"]["test_id"] == "a-regressed"
    assert head["environment"]["wordpress"] == "7.2"


def test_one_arm_alone_has_no_change():
    value = json.loads(show_json("a-regressed", a_bit_of_everything()[1:]))
    assert "kind" not in value
    assert [item["name"] for item in value["arms"]] == ["head"]
