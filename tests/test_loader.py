"""How the bytes of one suite file become tests, whatever is wrong with them."""

import json
import time
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from refcompare.execution import loader_rules
from refcompare.execution.definition import definition, edited_fields
from refcompare.execution.loader import load_source, read_source
from refcompare.execution.loader_json import first_flaw, scan
from refcompare.execution.loader_rules import problems, validate_plugin_files
from refcompare.execution.model import ASSERTION_TYPES, ExecutionTest, InvalidTest
from refcompare.rules import check_suites
from tests.suite_files import PLUGIN, MemoryTree, a_file, a_test, an_assertion, with_assertions

PATH = "datasets/suites/acme/execution/hooks.json"


def load(data: bytes) -> tuple[ExecutionTest | InvalidTest, ...]:
    return load_source(read_source(PATH, data, "acme")).items


def load_one(test: Any) -> ExecutionTest | InvalidTest:
    (item,) = load(a_file(test))
    return item


def good(test: Any) -> ExecutionTest:
    item = load_one(test)
    assert isinstance(item, ExecutionTest), item
    return item


def reason(test: Any) -> str:
    item = load_one(test)
    assert isinstance(item, InvalidTest), item
    return item.reason


# What a file may look like


def test_every_field_of_the_format_is_read():
    test = good(
        a_test(
            requirements=["Be kind"],
            test_function="acme_hello(): string",
            expected_behavior="It greets.",
            exploit_solutions=["function acme_hello() { return ''; }"],
            static_checks={"required_patterns": [{"pattern": "hello"}]},
            runtime_checks={"setup": "$a = 1;", "assertions": [an_assertion()], "teardown": "$a = 2;"},
            metadata={"release_focus": "7.1"},
        )
    )
    assert (test.id, test.suite, test.category, test.path) == ("acme-001", "acme", "hooks", PATH)
    assert (test.prompt, test.requirements, test.expected_behavior) == (
        "Say hello.",
        ("Be kind",),
        "It greets.",
    )
    assert (test.test_function, test.gateway) == ("acme_hello(): string", "acme_hello")
    assert (test.setup, test.teardown) == ("$a = 1;", "$a = 2;")
    assert test.assertions == (an_assertion(),)
    assert test.static_checks == {"required_patterns": [{"pattern": "hello"}]}
    assert test.exploit_solutions == ("function acme_hello() { return ''; }",)
    assert test.metadata == {"release_focus": "7.1"}


def test_a_bare_list_of_tests_is_a_suite():
    assert [item.id for item in load(json.dumps([a_test("a"), a_test("b")]).encode())] == ["a", "b"]


def test_a_test_without_a_category_has_that_of_its_file():
    assert good(a_test(category=...)).category == "hooks"


def test_an_empty_list_stands_for_an_empty_object_as_php_writes_it():
    test = good(a_test(static_checks=[], metadata=[], reference_files=[]))
    assert (test.static_checks, test.metadata, test.reference_files) == ({}, {}, None)


def test_null_stands_for_absent():
    test = good(a_test(requirements=None, test_function=None, static_checks=None, artifact_kind=None))
    assert (test.requirements, test.test_function, test.artifact_kind) == ((), None, "php_snippet")


def test_a_field_that_the_format_does_not_name_is_kept_and_not_graded():
    plain, extra = good(a_test()), good(a_test(mood="sunny"))
    assert extra.extra == {"mood": "sunny"}
    assert (plain.digest, plain.entry_digest) == (extra.digest, extra.entry_digest)


def test_each_test_knows_the_line_of_its_opening_brace():
    data = b'{\n "tests": [\n  {"id": 1},\n\n  \t{\n "id": 2}, {"id": 3}]}'
    assert [test.line for test in read_source(PATH, data, "acme").tests] == [3, 5, 6]


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_lines_are_the_same_under_either_line_ending(ending):
    data = a_file(a_test("a"), a_test("b")).replace(b"\n", ending)
    assert [item.line for item in load(data)] == [
        item.line for item in load(a_file(a_test("a"), a_test("b")))
    ]


def test_a_byte_order_mark_is_no_part_of_the_file():
    assert [item.id for item in load(b"\xef\xbb\xbf" + a_file(a_test("a")))] == ["a"]


def test_a_file_of_five_megabytes_loads():
    tests = [a_test(f"acme-{index:04}", prompt="x" * 2_000) for index in range(2_400)]
    data = a_file(*tests)
    assert len(data) > 5_000_000
    start = time.perf_counter()
    items = load(data)
    assert time.perf_counter() - start < 10
    assert len(items) == 2_400
    assert all(isinstance(item, ExecutionTest) for item in items)
    assert items[-1].line == data[: data.index(b'"acme-2399"')].count(b"\n")


# What breaks one test, or one file


def test_broken_json_costs_the_tests_after_it_only_and_names_the_place():
    data = b'{"tests": [\n' + json.dumps(a_test("a")).encode() + b',\n  {"id": "b" "x": 1}\n]}'
    first, broken = load(data)
    assert first.id == "a"
    assert isinstance(broken, InvalidTest)
    assert (broken.id, broken.path, broken.line) == (PATH, PATH, 3)
    assert "column 14" in broken.reason
    assert "the 1 test before it is read, nothing after it" in broken.reason


@pytest.mark.parametrize(
    ("data", "line", "said"),
    [
        (b"", 1, "not JSON in column 1"),
        (b"\n\n  nonsense", 3, "not JSON in column 3"),
        (b'{"tests": [', 1, "not JSON in column 12"),
        (b'{"tests": [],}', 1, "A comma with nothing"),
        (b'{"tests": [\n{"id": "a",\n}]}', 2, "A comma with nothing between it and '}'"),
        (b'{"tests": [\n{"requirements": ["a", ]}]}', 2, "A comma with nothing between it and ']'"),
        (b'{"tests": []}\n{"tests": []}', 2, "Something follows"),
        (b'{"tests": [],\n "tests": []}', 2, "A second 'tests'"),
        (b'{"tests": {}}', 1, "'tests' is an object"),
        (b'{"test": []}', 1, "the file holds no 'tests'"),
        (b'"tests"', 1, "the file holds no 'tests'"),
        (b"{tests: []}", 1, "Expecting a key in double quotes"),
        (b'{"tests" []}', 1, "Expecting ':'"),
        ("[]".encode("utf-16"), 1, "UTF-16"),
        ("[]".encode("utf-32"), 1, "UTF-32"),
    ],
)
def test_a_file_that_is_no_suite_is_one_invalid_test_named_for_the_file(data, line, said):
    (item,) = load(data)
    assert isinstance(item, InvalidTest)
    assert (item.id, item.category, item.line) == (PATH, "hooks", line)
    assert said in item.reason


def test_bytes_that_are_not_utf8_cost_their_own_test_only():
    data = a_file(a_test("a"), a_test("b", prompt="caf@"), a_test("c")).replace(b"caf@", b"caf\xe9")
    a, b, c = load(data)
    assert isinstance(a, ExecutionTest)
    assert isinstance(c, ExecutionTest)
    assert isinstance(b, InvalidTest)
    assert b.line == data[: data.index(b"caf\xe9")].count(b"\n") + 1
    assert "byte 0xE9" in b.reason
    assert "not UTF-8" in b.reason


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NaN", "not finite"),
        ("-Infinity", "not finite"),
        ("1e999", "not finite"),
        ("9223372036854775808", "PHP cannot hold"),
        ("-9223372036854775809", "PHP cannot hold"),
        ("9" * 5_000, "PHP cannot hold"),
        ('"\\ud83d"', "surrogate"),
        ('{"\\udc00": 1}', "surrogate"),
        ('{"a": 1, "a": 1}', "'a' twice"),
        ("[" * 70 + "]" * 70, "nested deeper than 64"),
    ],
)
def test_a_value_that_php_reads_otherwise_makes_its_test_invalid_with_its_line(text, said):
    data = a_file(
        a_test("a"), with_assertions(an_assertion("returns_value", expected="@@"), id="b"), a_test("c")
    )
    data = data.replace(b'"@@"', text.encode())
    a, b, c = load(data)
    assert isinstance(a, ExecutionTest)
    assert isinstance(c, ExecutionTest)
    assert isinstance(b, InvalidTest)
    assert b.line == data[: data.index(text.encode())].count(b"\n") + 1
    assert said in b.reason


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 0.1, True, "naïve 🙂", [[]] * 5])
def test_a_value_that_php_reads_as_it_stands_is_fine(value):
    test = good(with_assertions(an_assertion("returns_value", expected=value)))
    assert test.assertions[0]["expected"] == value


def test_the_second_of_two_ids_in_one_test_is_not_silently_taken():
    (item,) = load(b'[{"id": "a", "id": "b"}]')
    assert isinstance(item, InvalidTest)
    assert "'id' twice" in item.reason


def test_a_bomb_of_brackets_is_a_broken_file_and_not_a_crash():
    data = a_file(a_test("a"))[:-4] + b", " + b"[" * 200_000
    a, bomb = load(data)
    assert a.id == "a"
    assert isinstance(bomb, InvalidTest)
    assert "nested too deeply" in bomb.reason


@pytest.mark.parametrize(
    ("test", "where"),
    [
        (a_test(id=...), "id is missing"),
        (a_test(id=7), "id is a number"),
        (a_test(""), "id is empty"),
        (a_test("x" * 201), "201 characters"),
        (a_test("a\nb"), "control or invisible"),
        (a_test("a\u202eb"), "control or invisible"),
        (a_test(" a"), "starts or ends with a space"),
        (a_test(category="x\0"), "category"),
        ("just text", "the test is a string"),
    ],
)
def test_a_test_without_a_usable_name_is_named_by_its_place(test, where):
    _, item = load(a_file(a_test("first"), test))
    assert isinstance(item, InvalidTest)
    assert where in item.reason
    if "category" not in where:
        assert item.id == f"{PATH}#2"


def test_a_path_that_a_terminal_could_act_on_is_shown_escaped():
    (item,) = load_source(read_source("a\x1b[31m\udcff.json", b"", "s\nuite")).items
    assert (item.path, item.suite) == ("a\\x1b[31m\\xff.json", "s\\nuite")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "test",
    [
        {f"field-{index}": index for index in range(20_000)},
        a_test(reference_files={f"f{index}": "" for index in range(20_000)}, artifact_kind="wp_plugin_files"),
        with_assertions(*[{"type": "x"}] * 20_000),
        a_test(static_checks={"required_patterns": [{}] * 20_000}),
    ],
    ids=["fields", "files", "assertions", "patterns"],
)
def test_a_test_with_very_many_faults_takes_no_time(test):
    start = time.perf_counter()
    load(a_file(test, indent=None))
    check_suites(MemoryTree({PATH: a_file(test, indent=None)}))
    assert time.perf_counter() - start < 15


# What cannot be graded


@pytest.mark.parametrize("name", sorted(ASSERTION_TYPES))
def test_every_assertion_type_with_its_fields_can_be_graded(name):
    assert good(with_assertions(an_assertion(name))).assertions == (an_assertion(name),)


def test_an_unknown_assertion_type_is_named_with_its_line():
    item = load_one(with_assertions(an_assertion(), an_assertion("cache_hit")))
    assert isinstance(item, InvalidTest)
    assert item.reason == "runtime_checks.assertions[1] has the unknown type 'cache_hit'"
    text = a_file(with_assertions(an_assertion(), an_assertion("cache_hit"))).decode()
    assert item.line == text[: text.index('"cache_hit"')].count("\n") + 1


@pytest.mark.parametrize(
    ("assertion", "said"),
    [
        ({}, "no type"),
        ({"type": 3}, "no type"),
        ("text", "is a string"),
        (an_assertion("rest_response", expected_status=...), "checks nothing"),
        (an_assertion("rest_response", expected_status=None, body_contains=""), "checks nothing"),
        (an_assertion("rest_response", expected_status="200"), "expected_status is a string"),
        (an_assertion("rest_response", expected_status=True), "expected_status is true"),
        (an_assertion("rest_response", expected_status=42), "expected_status is a number"),
        (an_assertion("rest_response", method="FETCH"), "method is 'FETCH'"),
        (an_assertion("rest_response", params="a=1"), "params is a string"),
        (an_assertion("rest_response", headers={"X": 1}), "headers.X is a number"),
        (an_assertion("custom_assertion", code=...), "has no code"),
        (an_assertion("custom_assertion", code="  "), "has no code"),
        (an_assertion("function_exists", target=...), "has no target"),
        (an_assertion("hook_registered", callback=1), "callback is a number"),
        (an_assertion("output_equals", expected=...), "has no expected"),
        (an_assertion("output_equals", expected=1), "expected is a number"),
        (an_assertion("output_contains", expected=""), "checks nothing"),
        (an_assertion("output_matches", expected=""), "checks nothing"),
        (an_assertion("returns_value", expected=...), "has no expected"),
        (an_assertion("post_meta_value", meta_key=...), "has no meta_key"),
        (an_assertion("post_meta_value", post_id="1"), "post_id is a string"),
        (an_assertion(weight="1"), "weight is a string"),
        (an_assertion(weight=-1), "weight is -1"),
        (an_assertion(weight=True), "weight is true"),
        (an_assertion(weight=0), "every assertion has weight 0"),
        (an_assertion(description=1), "description is a number"),
    ],
)
def test_an_assertion_that_cannot_be_graded_or_checks_nothing_makes_its_test_invalid(assertion, said):
    assert said in reason(with_assertions(assertion))


@pytest.mark.parametrize(
    "assertion",
    [
        an_assertion("rest_response", expected_status=..., expected_data=None),
        an_assertion("rest_response", expected_status=..., body_not_contains="x"),
        an_assertion("rest_response", method="post", params=[], headers={"X": "1"}, body={"a": 1}),
        an_assertion("returns_value", expected=None),
        an_assertion("output_equals", expected=""),
        an_assertion("hook_registered", callback="Acme::run"),
        an_assertion(weight=0.5),
    ],
)
def test_an_assertion_with_an_unusual_expectation_can_be_graded(assertion):
    assert good(with_assertions(assertion)).assertions == (assertion,)


def test_one_assertion_of_weight_0_among_others_is_fine():
    good(with_assertions(an_assertion(weight=0), an_assertion()))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"reference_solution": ...}, "no reference"),
        ({"reference_solution": " \n"}, "no reference"),
        ({"reference_solution": ..., "reference_files": PLUGIN}, "no reference"),
        ({"artifact_kind": "wp_plugin_files"}, "without reference_files"),
        ({"artifact_kind": "wp_theme"}, "unknown artifact_kind 'wp_theme'"),
        ({"runtime_checks": ...}, "no assertions"),
        ({"runtime_checks": {"assertions": []}}, "no assertions"),
        ({"runtime_checks": "x"}, "runtime_checks is a string"),
        ({"runtime_checks": {"assertions": {}}}, "assertions is an object"),
        ({"runtime_checks": {"setup": [], "assertions": [an_assertion()]}}, "setup is a list"),
        ({"prompt": 1}, "prompt is a number"),
        ({"requirements": "one"}, "requirements is a string"),
        ({"requirements": ["one", 2]}, "requirements[1] is a number"),
        ({"exploit_solutions": [None]}, "exploit_solutions[0] is null"),
        ({"reference_solution": ["x"]}, "reference_solution is a list"),
        ({"metadata": "x"}, "metadata is a string"),
        ({"static_checks": {"required_patterns": "x"}}, "required_patterns is a string"),
        ({"static_checks": {"required_patterns": ["x"]}}, "required_patterns[0] is a string"),
        ({"static_checks": {"required_patterns": [{}]}}, "has no pattern"),
        ({"static_checks": {"required_patterns": [{"pattern": "x", "weight": "1"}]}}, "weight is a string"),
        (
            {"static_checks": {"forbidden_patterns": [{"pattern": "x", "severity": "fatal"}]}},
            "unknown severity 'fatal'",
        ),
    ],
)
def test_a_test_that_cannot_be_graded_says_why(changed, said):
    assert said in reason(a_test(**changed))


def test_the_line_of_an_invalid_test_is_that_of_what_is_wrong():
    text = a_file(a_test("a"), a_test("b", metadata="wrong")).decode()
    item = load(text.encode())[1]
    assert item.line == text[: text.index('"wrong"')].count("\n") + 1


def test_an_invalid_test_keeps_its_id_category_and_digests():
    item = load_one(a_test("acme-9", category="rest", reference_solution=...))
    assert (item.id, item.category) == ("acme-9", "rest")
    assert (
        item.digest
        != load_one(a_test("acme-9", category="rest", reference_solution=..., prompt="x")).entry_digest
    )
    assert (
        item.digest == load_one(a_test("acme-9", category="rest", reference_solution=..., prompt="x")).digest
    )


# Plugins


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "no top-level"),
        ({"acme.php": "<?php // Acme"}, "no top-level"),
        ({"lib/acme.php": PLUGIN["acme.php"]}, "no top-level"),
        ({"acme.txt": PLUGIN["acme.php"]}, "no top-level"),
        ({**PLUGIN, "other.php": PLUGIN["acme.php"]}, "2 top-level files"),
        ({**PLUGIN, **{f"f{index}.txt": "" for index in range(20)}}, "21 files"),
        ({**PLUGIN, "big.txt": "é" * 131_073}, "262,146 bytes"),
        ({**PLUGIN, **{f"f{index}.txt": "x" * 262_144 for index in range(4)}}, "in all"),
        ({**PLUGIN, "/etc/passwd": ""}, "absolute"),
        ({**PLUGIN, "C:/x": ""}, "absolute"),
        ({**PLUGIN, "\\x": ""}, "absolute"),
        ({**PLUGIN, "../x": ""}, "'..'"),
        ({**PLUGIN, "a/./x": ""}, "'.'"),
        ({**PLUGIN, "a//x": ""}, "other characters"),
        ({**PLUGIN, "a/": ""}, "other characters"),
        ({**PLUGIN, "": ""}, "other characters"),
        ({**PLUGIN, "a b": ""}, "other characters"),
        ({**PLUGIN, "é.php": ""}, "other characters"),
        ({**PLUGIN, "x\n": ""}, "other characters"),
        ({**PLUGIN, "acme.php/x": ""}, "which is a file"),
        ({**PLUGIN, "a/" * 500_000 + "x": ""}, "more than 1,000 characters"),
        ({**PLUGIN, "a" * 201: ""}, "more than 200 characters"),
    ],
)
def test_files_that_are_no_plugin_candidate_are_refused(files, said):
    fault = validate_plugin_files(files)
    assert fault is not None
    assert said in fault
    if files:
        assert said in reason(
            a_test(artifact_kind="wp_plugin_files", reference_solution=..., reference_files=files)
        )


def test_a_plugin_at_its_limits_is_taken():
    files = {**PLUGIN, **{f"includes/f{index}.php": "<?php" for index in range(19)}}
    assert validate_plugin_files(files) is None
    test = good(a_test(artifact_kind="wp_plugin_files", reference_solution=..., reference_files=files))
    assert test.reference_files == files


# What counts as the same test


def test_the_order_of_fields_in_a_file_says_nothing():
    test = a_test(static_checks={"required_patterns": [{"pattern": "x", "weight": 1}]})
    shuffled = dict(reversed(test.items()))
    shuffled["static_checks"] = {"required_patterns": [{"weight": 1, "pattern": "x"}]}
    shuffled["runtime_checks"] = {"assertions": [dict(reversed(an_assertion().items()))]}
    assert good(test).digest == good(shuffled).digest
    assert good(test).entry_digest == good(shuffled).entry_digest


def test_the_order_of_keys_in_an_expected_value_counts_as_it_does_in_php():
    one = good(with_assertions(an_assertion("returns_value", expected={"a": 1, "b": 2})))
    other = good(with_assertions(an_assertion("returns_value", expected={"b": 2, "a": 1})))
    assert one.digest != other.digest


def test_values_that_python_takes_for_equal_and_php_does_not_are_edits():
    tests = [good(with_assertions(an_assertion("returns_value", expected=value))) for value in (1, 1.0, True)]
    assert len({test.digest for test in tests}) == 3
    assert edited_fields(tests[0], tests[1]) == ("runtime_checks.assertions",)


GRADING_EDITS: list[dict[str, Any]] = [
    {"test_function": "acme_hello()"},
    {"artifact_kind": "wp_plugin_files", "reference_files": PLUGIN},
    {"reference_solution": "function acme_hello() {}"},
    {"static_checks": {"required_patterns": [{"pattern": "x"}]}},
    {"static_checks": {"forbidden_patterns": [{"pattern": "x"}]}},
    {"runtime_checks": {"assertions": [an_assertion(code="return true;")]}},
    {"runtime_checks": {"assertions": [an_assertion()], "setup": "1;"}},
    {"runtime_checks": {"assertions": [an_assertion()], "teardown": "1;"}},
]
OTHER_EDITS: list[dict[str, Any]] = [
    {"category": "rest"},
    {"prompt": "Say good-bye."},
    {"requirements": ["Be kind"]},
    {"expected_behavior": "It greets."},
    {"exploit_solutions": ["function acme_hello() {}"]},
]


@pytest.mark.parametrize("edit", GRADING_EDITS, ids=str)
def test_an_edit_that_grading_depends_on_changes_both_digests(edit):
    before, after = good(a_test()), good(a_test(**edit))
    assert before.digest != after.digest
    assert before.entry_digest != after.entry_digest
    assert edited_fields(before, after)


@pytest.mark.parametrize("edit", OTHER_EDITS, ids=str)
def test_any_other_edit_changes_the_digest_of_the_entry_alone(edit):
    before, after = good(a_test()), good(a_test(**edit))
    assert before.digest == after.digest
    assert before.entry_digest != after.entry_digest
    assert edited_fields(before, after) == tuple(edit)


def test_an_edit_of_the_metadata_is_named_and_changes_no_digest():
    before, after = good(a_test()), good(a_test(metadata={"reviewed": True}))
    assert (before.digest, before.entry_digest) == (after.digest, after.entry_digest)
    assert edited_fields(before, after) == ("metadata",)


def test_a_definition_has_the_shape_of_a_file_and_loads_as_the_same_test():
    test = good(
        a_test(
            test_function="acme_hello()",
            exploit_solutions=["x();"],
            static_checks={"forbidden_patterns": [{"severity": "warning", "pattern": "x"}]},
            mood="sunny",
        )
    )
    again = good(definition(test))
    assert definition(again) == definition(test)
    assert (again.digest, again.entry_digest) == (test.digest, test.entry_digest)


# Properties

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_make_the_loader_raise(data):
    load(data)


@settings(deadline=None)
@given(json_values)
def test_no_json_makes_the_loader_raise(value):
    load(json.dumps({"tests": [value]}).encode())
    load(json.dumps(value).encode())


FIELDS = ["id", "category", "artifact_kind", "reference_solution", "reference_files", "static_checks"]


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([*FIELDS, "runtime_checks", "metadata", "requirements"]), json_values))
def test_no_value_of_a_field_makes_a_rule_raise(changed):
    list(problems({**a_test(), **changed}))


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(["type", *sorted(an_assertion("rest_response")), "method"]), json_values)
)
def test_no_value_in_an_assertion_makes_a_rule_raise(changed):
    list(loader_rules.assertion_problems({**an_assertion("rest_response"), **changed}))


@settings(deadline=None)
@given(json_values, st.data())
def test_a_value_is_found_at_the_line_where_it_is_written(value, data):
    assume(first_flaw(value) is None)
    text = json.dumps([value], indent=1)
    (element,) = scan(text).elements
    node, where = element.value, []
    while isinstance(node, list | dict) and node:
        step = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else list(range(len(node)))))
        where.append(step)
        node = node[step]
    offset = scan(text).locate(element.start, tuple(where))
    assert json.JSONDecoder().raw_decode(text, offset)[0] == node


@settings(deadline=None)
@given(json_values)
def test_a_flaw_is_found_exactly_where_utf8_or_php_would_fail(value):
    def flawed(node: Any) -> bool:
        if isinstance(node, float):
            return node != node or node in (float("inf"), float("-inf"))
        if isinstance(node, int):
            return not -(2**63) <= node < 2**63
        if isinstance(node, dict):
            return any(flawed(item) for item in node.values())
        return isinstance(node, list) and any(flawed(item) for item in node)

    assert (first_flaw(value) is not None) == flawed(value)
