"""JSON results: each fits its published schema, and the schemas describe every key that is written."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from refcompare.codec import record_value, run_value
from refcompare.compare import ChangeKind, Difference, compare
from refcompare.gate import DEFAULT_FAIL_ON, gate
from refcompare.report import json as json_report
from refcompare.report import markdown, terminal
from refcompare.report.escape import visible
from refcompare.resources import schema_directory
from refcompare.results import ErrorKind, Phase, RunResult, Verdict
from refcompare.schemas import Name, validator, violation
from tests.result_builders import (
    HOSTILE_TEXTS,
    a_bit_of_everything,
    audit,
    entry,
    hostile,
    many,
    record,
    run,
)

NAMES: tuple[Name, ...] = ("record", "run", "comparison", "audit")
PAIRS = [a_bit_of_everything(), many(3), (run("base"), run("head")), *map(hostile, HOSTILE_TEXTS)]


def schema(name: Name) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((schema_directory() / f"{name}.schema.json").read_text("utf-8"))
    return found


def closed(value: Any) -> Any:
    """Give a schema that allows no key which it does not describe."""
    if isinstance(value, list):
        return [closed(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: False if key == "additionalProperties" and item is True else closed(item)
            for key, item in value.items()}  # fmt: skip


def outputs(pair: tuple[RunResult, RunResult]) -> Iterator[tuple[Name, Any]]:
    """Give everything that is written of a pair of runs, with the schema that it must fit."""
    comparison = compare(*pair)
    yield "comparison", json.loads(json_report.render(comparison, gate(comparison)))
    for result in pair:
        yield "run", json.loads(json_report.render_run(result))
        yield "run", json.loads(json_report.dump(run_value(result)))
        yield "audit", json.loads(json_report.render_audit(result))
        for item in result.records:
            yield "record", json.loads(json_report.dump_line(record_value(item)))


# ------------------------------------------------------------------------------- schemas


@pytest.mark.parametrize("pair", PAIRS)
def test_everything_that_is_written_fits_its_schema_and_every_key_is_described(pair):
    for name, value in outputs(pair):
        assert violation(name, value) is None
        Draft202012Validator(closed(schema(name))).validate(value)


@pytest.mark.parametrize("name", NAMES)
def test_the_schemas_are_valid_and_their_own_documentation(name):
    found = schema(name)
    Draft202012Validator.check_schema(found)
    assert found["$id"] == f"urn:refcompare:schema:{name}:1"
    for place, part in objects(found):
        assert "additionalProperties" in part, place
        for key, described in part.get("properties", {}).items():
            assert "description" in described or "$ref" in described, f"{place}.{key}"


def objects(value: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        if value.get("type") == "object":
            yield place, value
        for key, item in value.items():
            yield from objects(item, f"{place}.{key}")


@pytest.mark.parametrize("name", NAMES)
def test_the_schemas_agree_where_they_describe_the_same(name):
    mine = schema(name)["$defs"]
    for other in NAMES:
        shared = mine.keys() & schema(other)["$defs"].keys()
        for key in shared - ({"arm"} if "comparison" in {name, other} else set()):
            assert mine[key] == schema(other)["$defs"][key]
    whole = {key: value for key, value in schema("record").items() if key[0] != "$" and key != "title"}
    assert schema("run")["$defs"]["record"] == whole


def test_the_schemas_know_the_words_of_the_code():
    properties = schema("record")["properties"]
    assert properties["verdict"]["enum"] == list(Verdict)
    assert properties["error_kind"]["enum"] == list(ErrorKind)
    assert properties["phase"]["enum"] == list(Phase)
    definitions = schema("comparison")["$defs"]
    assert definitions["kind"]["enum"] == list(ChangeKind)
    assert definitions["reason"]["properties"]["what"]["enum"] == list(Difference)
    assert schema("comparison")["properties"]["totals"]["propertyNames"]["enum"] == list(ChangeKind)


def test_a_key_that_a_later_release_adds_is_no_violation():
    value = record_value(record()) | {"peak_memory": 12}
    assert violation("record", value) is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"verdict": "maybe"}, "`verdict` should be pass, fail or error"),
        ({"ms": -1}, "`ms` should have a minimum of 0"),
        ({"ms": "12"}, "`ms` should be of type number"),
        ({"assertions": [{"type": "a", "description": "b", "weight": 1}]}, "`assertions[0]` lacks `passed`"),
    ],
)
def test_a_violation_is_said_without_quoting_what_was_found(change, sentence):
    assert violation("record", record_value(record()) | change) == sentence
    assert violation("record", []) == "the object should be of type object"
    hidden = {"verdict": "\x1b[31m" * 1000}
    assert "\x1b" not in str(violation("record", record_value(record()) | hidden))


# ------------------------------------------------------------------------------- content


def test_a_comparison_says_what_the_other_reports_say():
    comparison = compare(*a_bit_of_everything())
    value = json.loads(json_report.render(comparison, gate(comparison)))
    assert value["schema_version"] == 1
    assert value["headline"].startswith("1 regressed, 1 newly exploitable")
    assert (value["conclusion"], value["exit_code"]) == ("failure", 1)
    assert set(value["fail_on"]) == set(DEFAULT_FAIL_ON)
    assert value["totals"] == {kind.value: 1 for kind in ChangeKind}
    assert [row["kind"] for row in value["changes"]] == [kind.value for kind in ChangeKind]
    assert [row["gated"] for row in value["changes"]].count(True) == 4
    regressed = value["changes"][0]
    assert regressed["reasons"][1] == {
        "what": "wordpress",
        "base": "7.1.1",
        "head": "7.2",
        "text": "WordPress 7.1.1 -> 7.2",
    }
    assert regressed["head"]["verdicts"] == ["fail", "fail"]
    assert regressed["head"]["first_failure"]["message"] == "Title was not filtered."
    exploitable = value["changes"][1]["head"]
    assert exploitable["exploitable"] is True
    assert exploitable["passing_exploits"][0] == {
        "label": "return-1",
        "class": "generic",
        "code": "function f() { return 1; }",
    }


def test_what_is_unknown_is_left_out_rather_than_null():
    comparison = compare(run("base"), run("head", [entry()], [record()]))
    text = json_report.render(comparison, gate(comparison))
    assert "null" not in text
    (row,) = json.loads(text)["changes"]
    assert "base" not in row
    assert "exploitable" not in row["head"]


def test_an_audit_for_scripts_has_the_documented_keys():
    found = audit("t", "return-1", survivors=1, mutants=3)
    value = json.loads(json_report.render_audit(run("head", [entry()], [], [found])))
    (test,) = value["tests"]
    assert test["exploitable"] is True
    assert test["auditable"] is True
    assert test["passing_exploits"] == [
        {"label": "return-1", "class": "generic", "code": "function f() { return 1; }"}
    ]
    assert test["weak_spots"] == [{"line": 1, "mutation": "a statement dropped", "label": "drop-1"}]
    assert test["candidates_tried"] == 9


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
@pytest.mark.parametrize("report", ["comparison", "run", "audit"])
def test_json_can_be_printed_and_holds_the_text_as_it_is(text, report):
    pair = hostile(text)
    comparison = compare(*pair)
    printed = {
        "comparison": lambda: json_report.render(comparison, gate(comparison)),
        "run": lambda: json_report.render_run(pair[1]),
        "audit": lambda: json_report.render_audit(pair[1]),
    }[report]()
    assert visible(printed) == printed
    printed.encode("utf-8")
    value = json.loads(printed)
    found = value["arm"]["ref"] if report != "comparison" else value["head"]["ref"]
    assert found == text


def test_a_number_that_json_does_not_know_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        json_report.dump({"ms": float("nan")})


def test_the_same_values_give_the_same_bytes():
    assert [*outputs(a_bit_of_everything())] == [*outputs(a_bit_of_everything())]
    assert validator("run") is validator("run")


# ----------------------------------------------------------------------------- magnitude


def test_ten_thousand_tests_are_compared_and_rendered_in_a_moment_and_in_little_memory():
    pair = many(10_000, every_head_fails=True)
    started = time.process_time()
    comparison = compare(*pair)
    decision = gate(comparison)
    terminal.render(comparison, decision)
    markdown.render(comparison, decision)
    # A loose bound, so that a busy machine does not fail it; the benchmark measures.
    assert time.process_time() - started < 5
    tracemalloc.start()
    comparison = compare(*many(500, every_head_fails=True))
    terminal.render(comparison, gate(comparison))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000  # a twentieth of what 10,000 may take
