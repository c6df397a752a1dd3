"""What the check of suites objects to, rule by rule."""

import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refcompare.execution import definition
from refcompare.execution.loader_rules import problems
from refcompare.execution.model import ASSERTION_TYPES
from refcompare.resources import schema_directory
from refcompare.rules import Chosen, Finding, check_suites
from refcompare.rules.format import RULES
from tests.suite_files import PLUGIN, MemoryTree, a_file, a_test, an_assertion, with_assertions

PATH = "datasets/suites/acme/execution/hooks.json"
FORMAT = Chosen(only=frozenset(rule.name for rule in RULES))
SCHEMA = json.loads((schema_directory() / "execution-suite.schema.json").read_bytes())


def findings(tree: MemoryTree, *globs: str) -> tuple[Finding, ...]:
    return check_suites(tree, *([globs] if globs else []), chosen=FORMAT).findings


def check(*tests, **outer) -> tuple[Finding, ...]:
    data = json.dumps({**outer, "tests": list(tests)}, indent=2).encode()
    return findings(MemoryTree({PATH: data}))


def rules(*tests, **outer) -> list[str]:
    return [finding.rule for finding in check(*tests, **outer)]


def test_a_good_suite_has_no_findings():
    assert check(a_test("a"), a_test("b"), id="acme", version="1.0", metadata={"x": 1}) == ()


def test_a_finding_names_the_line_of_what_is_wrong_and_what_mends_it():
    text = a_file(a_test("a"), with_assertions(an_assertion("output_equal"), id="b")).decode()
    (finding,) = findings(MemoryTree({PATH: text.encode()}))
    assert finding == Finding(
        path=PATH,
        line=text[: text.index('"output_equal"')].count("\n") + 1,
        rule="assertion-type",
        message="runtime_checks.assertions[0] has the unknown type 'output_equal'",
        mend="did you mean 'output_equals'?",
    )


def test_all_that_is_wrong_with_a_test_is_told_not_the_first_alone():
    test = with_assertions(
        an_assertion("nonsense"), an_assertion(code=...), reference_solution=..., metadata=3
    )
    assert sorted(rules(test)) == ["assertion-field", "assertion-type", "no-reference", "wrong-type"]


def test_what_a_rule_has_told_is_not_told_again_by_the_schema():
    test = with_assertions(an_assertion("rest_response", expected_status="200"), an_assertion(weight=-1))
    assert sorted(rules(test)) == ["weight", "wrong-type"]


@pytest.mark.parametrize(
    ("test", "message", "mend"),
    [
        (a_test(prompt=...), "prompt is missing", "add prompt"),
        (a_test(prompt=" "), "prompt is ' '", "say something"),
    ],
)
def test_what_only_the_schema_asks_for_is_told(test, message, mend):
    (finding,) = check(test)
    assert (finding.rule, finding.message, finding.severity) == ("schema", message, "error")
    assert mend in finding.mend


def test_what_stands_beside_the_tests_is_held_to_the_schema():
    (finding,) = check(a_test(), id=7)
    assert (finding.rule, finding.message, finding.line) == ("schema", "id is a number", 2)


def test_a_broken_file_is_told_with_its_line():
    (finding,) = findings(MemoryTree({PATH: b'{"tests": [\n{]}'}))
    assert (finding.path, finding.line, finding.rule) == (PATH, 2, "json")


def test_a_value_that_php_reads_otherwise_is_told_with_its_line():
    data = a_file(with_assertions(an_assertion("returns_value", expected=float("nan"))))
    (finding,) = findings(MemoryTree({PATH: data}))
    assert (finding.rule, finding.line) == ("json", data[: data.index(b"NaN")].count(b"\n") + 1)


def test_an_id_that_is_used_twice_is_told_at_the_second():
    first, second = check(a_test("a"), a_test("b"), a_test("a"), a_test("a"))
    assert (first.rule, second.rule) == ("duplicate-id", "duplicate-id")
    assert first.message == f"the id 'a' is already used at {PATH}:3"
    assert 3 < first.line < second.line


def test_a_misspelt_field_is_a_warning_that_names_its_neighbour():
    (finding,) = check(a_test(expected_behaviour="It greets."))
    assert (finding.rule, finding.severity) == ("unknown-field", "warning")
    assert finding.mend == "did you mean 'expected_behavior'?"
    nested = check(a_test(runtime_checks={"assertions": [an_assertion()], "set_up": "1;"}))
    assert [finding.mend for finding in nested] == ["did you mean 'setup'?"]


def test_a_misspelt_field_of_an_assertion_or_a_pattern_is_told_with_its_line():
    rest = {"type": "rest_response", "target": "/x", "expected_status": 200, "body_contain": "no"}
    patterns = {"forbidden_patterns": [{"pattern": "eval", "severty": "error"}]}
    data = a_file(a_test(runtime_checks={"assertions": [an_assertion(), rest]}, static_checks=patterns))
    found = {finding.message: finding for finding in findings(MemoryTree({PATH: data}))}
    misspelt = found["the field 'runtime_checks.assertions.body_contain' is not one of the format"]
    assert misspelt.mend == "did you mean 'body_contains' or 'body_not_contains'?"
    assert misspelt.line == data[: data.index(b"body_contain")].count(b"\n") + 1
    pattern = found["the field 'static_checks.forbidden_patterns.severty' is not one of the format"]
    assert pattern.mend == "did you mean 'severity'?"
    assert len(found) == 2


def test_the_fields_that_are_known_are_those_of_the_schema():
    defined = SCHEMA["$defs"]
    assert set(defined["assertion"]["properties"]) == definition.ASSERTION_FIELDS
    assert set(defined["pattern"]["properties"]) == definition.PATTERN_FIELDS
    fields = defined["test"]["properties"]
    assert set(fields["runtime_checks"]["properties"]) == set(definition.LISTS["runtime_checks"])
    static = fields["static_checks"]["anyOf"][0]["properties"]
    assert set(static) == set(definition.LISTS["static_checks"])


def test_a_glob_without_a_file_is_an_error_where_it_is_the_only_one():
    (finding,) = findings(MemoryTree({}), "suites/*.json")
    assert (finding.rule, finding.severity) == ("no-suites", "error")
    (finding,) = findings(MemoryTree({PATH: a_file(a_test())}), "**/*.json", "suites/*.json")
    assert (finding.rule, finding.severity) == ("no-suites", "warning")


def test_findings_come_in_the_order_of_path_and_line_whatever_the_rules_order():
    tree = MemoryTree({path: a_file(a_test(prompt=...), a_test(metadata=1)) for path in (PATH, "a.json")})
    places = [(finding.path, finding.line) for finding in findings(tree, "**")]
    assert places == sorted(places)
    assert {path for path, _ in places} == {PATH, "a.json"}


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_make_the_check_raise(data):
    findings(MemoryTree({PATH: data}))


# The published schema and the loader agree


def in_schema(test) -> bool:
    return jsonschema.Draft202012Validator(SCHEMA).is_valid({"tests": [test]})


def test_the_schema_is_a_valid_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_takes_an_object_or_the_bare_list():
    validator = jsonschema.Draft202012Validator(SCHEMA)
    assert validator.is_valid({"tests": [a_test()], "version": "1"})
    assert validator.is_valid([a_test()])
    assert not validator.is_valid({})
    assert not validator.is_valid("tests")


def test_the_schema_names_the_assertion_types_of_the_code():
    types = SCHEMA["$defs"]["assertion"]["properties"]["type"]["oneOf"]
    assert {item["const"] for item in types} == ASSERTION_TYPES


values = st.sampled_from(
    [None, True, 0, -1, 1.5, 200, "", " ", "x", [], ["x"], [1], {}, {"x": "y"}, {"x": 1}]
)
FIELDS = sorted(SCHEMA["$defs"]["assertion"]["properties"])


@settings(deadline=None)
@given(
    st.sampled_from(sorted(ASSERTION_TYPES)),
    st.dictionaries(st.sampled_from(FIELDS), values | st.just(...), max_size=3),
)
def test_an_assertion_fits_the_schema_exactly_if_it_can_be_graded(kind, changed):
    test = with_assertions(an_assertion(kind, **changed), an_assertion())
    assert in_schema(test) == (not list(problems(test)))


PARTS = sorted(SCHEMA["$defs"]["test"]["properties"].keys() - {"id", "prompt"})
plugins = st.sampled_from(["wp_plugin_files", PLUGIN, {"a/../b": ""}, {"required_patterns": [{}]}])


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(PARTS), values | plugins | st.just(...), max_size=3))
def test_a_test_fits_the_schema_exactly_if_it_can_be_graded(changed):
    test = a_test(**changed)
    told = {problem.rule for problem in problems(test)} - {"plugin-files"}
    if "plugin-files" not in {problem.rule for problem in problems(test)}:
        assert in_schema(test) == (not told)
