"""What makes an execution test impossible to grade: the rules for one decoded test, one function each.

A rule takes the test as authored and gives every problem that it sees, each with the place
inside the test. Rules trust no type: what another rule reports as a wrong type they pass over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from refcompare.execution.loader_json import Where
from refcompare.execution.model import ASSERTION_TYPES
from refcompare.wording import alternatives, did_you_mean, kind, printable, quoted

LONGEST_NAME = 200
"""Characters that an id or a category may have."""

LONGEST_PATH = 1_000
"""Characters that a file's path in a plugin may have."""

PLUGIN_FILES = 20
PLUGIN_FILE_BYTES = 256 * 1024
PLUGIN_BYTES = 1024 * 1024

ARTIFACT_KINDS = ("php_snippet", "wp_plugin_files")
SEVERITIES = ("error", "warning")
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")

_SEGMENT = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_PLUGIN_NAME = re.compile(r"Plugin\s+Name\s*:", re.IGNORECASE | re.ASCII)

_OUTPUT_TYPES = frozenset({"output_contains", "output_not_contains", "output_equals", "output_matches"})
_VALUE_TYPES = frozenset({"returns_value", "query_result", "option_value", "post_meta_value"})
_NO_TARGET = frozenset({"custom_assertion", "post_meta_value"})
_REST_EXPECTATIONS = ("expected_status", "expected_data", "body_contains", "body_not_contains")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a test cannot be graded: where in it, under which rule's name, what is so, what mends it."""

    where: Where
    rule: str
    message: str
    mend: str


Rule = Callable[[Mapping[str, Any]], Iterator[Problem]]


def problems(test: Mapping[str, Any]) -> Iterator[Problem]:
    """Give everything that keeps a test from being graded, the gravest rule's findings first."""
    for rule in RULES:
        yield from rule(test)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _wrong_type(where: Where, value: Any, wanted: str) -> Problem:
    name = dotted(where)
    return Problem(where, "wrong-type", f"{name} is {kind(value)}", f"make {name} {wanted}")


def dotted(where: Where) -> str:
    """Write a path as a reader would: ``runtime_checks.assertions[2].weight``, counted from 0."""
    text = ""
    for step in where:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{printable(step[:80])}" if text else printable(step[:80])
    return text


def name_problem(field: str, value: Any) -> Problem | None:
    """Say what is wrong with an id or a category as a name, or None.

    A name is printable text of 1 to 200 characters with no space at either end, so that it can
    stand in a table, a command line and a file of results.
    """
    if value is None:
        return Problem((field,), "name", f"{field} is missing", f"give the test {field}")
    if not isinstance(value, str):
        return _wrong_type((field,), value, "a string")
    if not value.strip():
        return Problem((field,), "name", f"{field} is empty", f"give the test {field}")
    if len(value) > LONGEST_NAME:
        return Problem(
            (field,),
            "name",
            f"{field} has {len(value):,} characters",
            f"shorten it to {LONGEST_NAME} at most",
        )
    if not value.isprintable():
        return Problem(
            (field,),
            "name",
            f"{field} {quoted(value)} has control or invisible characters",
            "use letters, digits and hyphens",
        )
    if value != value.strip():
        return Problem((field,), "name", f"{field} {quoted(value)} starts or ends with a space", "trim it")
    return None


def naming(test: Mapping[str, Any]) -> Iterator[Problem]:
    """The id is there, and it and the category are names."""
    problem = name_problem("id", test.get("id"))
    if problem:
        yield problem
    if test.get("category") is not None:
        problem = name_problem("category", test["category"])
        if problem:
            yield problem


_TEXT_FIELDS = ("prompt", "test_function", "expected_behavior", "reference_solution", "artifact_kind")
_LIST_FIELDS = ("requirements", "exploit_solutions")
_OBJECT_FIELDS = ("reference_files", "static_checks", "runtime_checks", "metadata")


def field_types(test: Mapping[str, Any]) -> Iterator[Problem]:
    """Every known field has the JSON type that the format gives it; null stands for absent."""
    for name in _TEXT_FIELDS:
        if not isinstance(test.get(name), str | None):
            yield _wrong_type((name,), test[name], "a string")
    for name in _LIST_FIELDS:
        yield from _list_of_text((name,), test.get(name))
    for name in _OBJECT_FIELDS:
        if as_object(test.get(name)) is None:
            yield _wrong_type((name,), test[name], "an object")
    for path, contents in (as_object(test.get("reference_files")) or {}).items():
        if not isinstance(contents, str):
            yield _wrong_type(("reference_files", path), contents, "a string")
    checks = as_object(test.get("runtime_checks")) or {}
    for name in ("setup", "teardown"):
        if not isinstance(checks.get(name), str | None):
            yield _wrong_type(("runtime_checks", name), checks[name], "a string of PHP")
    if not isinstance(checks.get("assertions"), list | None):
        yield _wrong_type(("runtime_checks", "assertions"), checks["assertions"], "a list")


def as_object(value: Any) -> Mapping[str, Any] | None:
    """Read a member that should be an object: absent, null and PHP's empty list are an empty one.

    PHP's own ``json_encode`` writes an empty array as ``[]``. None when it is anything else.
    """
    if value is None or value == []:
        return {}
    return value if isinstance(value, dict) else None


def _list_of_text(where: Where, value: Any) -> Iterator[Problem]:
    if value is None:
        return
    if not isinstance(value, list):
        yield _wrong_type(where, value, "a list of strings")
        return
    for index, item in enumerate(value):
        if not isinstance(item, str):
            yield _wrong_type((*where, index), item, "a string")


def reference(test: Mapping[str, Any]) -> Iterator[Problem]:
    """There is a reference of the kind that the test asks for, and a plugin keeps its limits."""
    artifact = test.get("artifact_kind")
    if isinstance(artifact, str) and artifact not in ARTIFACT_KINDS:
        near = did_you_mean(artifact, ARTIFACT_KINDS) or f"use {alternatives(ARTIFACT_KINDS)}"
        yield Problem(("artifact_kind",), "artifact-kind", f"unknown artifact_kind {quoted(artifact)}", near)
        return
    files = as_object(test.get("reference_files"))
    if artifact == "wp_plugin_files":
        if files is not None and not files:
            yield Problem(
                ("reference_files",),
                "no-reference",
                "no reference: a wp_plugin_files test without reference_files",
                "add reference_files, a map of relative path to contents that passes the test",
            )
        elif files and all(isinstance(contents, str) for contents in files.values()):
            fault = validate_plugin_files(files)
            if fault:
                yield Problem(
                    ("reference_files",), "plugin-files", f"reference_files: {fault}", "mend the plugin"
                )
    elif isinstance(solution := test.get("reference_solution") or "", str) and not solution.strip():
        beside = " (reference_files are for wp_plugin_files tests)" if files else ""
        yield Problem(
            ("reference_solution",),
            "no-reference",
            f"no reference: the test has no reference_solution{beside}",
            "add a reference_solution that passes the test",
        )


def validate_plugin_files(files: Mapping[str, str]) -> str | None:
    """Say in a phrase why these files, relative path to contents, are not a plugin candidate.

    None when they are one: at most 20 files, 256 KB a file and 1 MB in all (UTF-8 bytes), path
    segments of ``[A-Za-z0-9._-]+`` but not ``.`` or ``..``, and exactly one top-level ``.php``
    file with a ``Plugin Name:`` header.
    """
    if len(files) > PLUGIN_FILES:
        return f"{len(files)} files, at most {PLUGIN_FILES} are allowed"
    total, mains = 0, []
    for path, contents in files.items():
        fault = _path_fault(path, files)
        if fault:
            return f"the path {quoted(path)} {fault}"
        size = len(contents.encode("utf-8", "surrogatepass"))
        if size > PLUGIN_FILE_BYTES:
            return f"{quoted(path)} has {size:,} bytes, at most {PLUGIN_FILE_BYTES:,} are allowed"
        total += size
        if "/" not in path and path.endswith(".php") and _PLUGIN_NAME.search(contents):
            mains.append(path)
    if total > PLUGIN_BYTES:
        return f"{total:,} bytes in all, at most {PLUGIN_BYTES:,} are allowed"
    if not mains:
        return "no top-level .php file has a 'Plugin Name:' header"
    if len(mains) > 1:
        return (
            f"{len(mains)} top-level files have a 'Plugin Name:' header ({', '.join(mains)}), one is allowed"
        )
    return None


def _path_fault(path: str, files: Mapping[str, str]) -> str | None:
    if path.startswith(("/", "\\")) or path[1:2] == ":":
        return "is absolute"
    if len(path) > LONGEST_PATH:
        return f"has more than {LONGEST_PATH:,} characters"
    segments = path.split("/")
    for segment in segments:
        if segment in {".", ".."}:
            return f"has the segment '{segment}'"
        if not _SEGMENT.fullmatch(segment):
            return "has a segment with other characters than A-Z, a-z, 0-9, dot, underscore and hyphen"
        if len(segment) > LONGEST_NAME:
            return f"has a segment of more than {LONGEST_NAME} characters"
    for depth in range(1, len(segments)):
        if "/".join(segments[:depth]) in files:
            return f"lies below {quoted('/'.join(segments[:depth]))}, which is a file"
    return None


def static_patterns(test: Mapping[str, Any]) -> Iterator[Problem]:
    """Every static pattern is an object with a pattern; severities and weights are known ones."""
    checks = as_object(test.get("static_checks")) or {}
    for name in ("required_patterns", "forbidden_patterns"):
        patterns = checks.get(name)
        if patterns is None:
            continue
        where: Where = ("static_checks", name)
        if not isinstance(patterns, list):
            yield _wrong_type(where, patterns, "a list of objects")
            continue
        for index, item in enumerate(patterns):
            if isinstance(item, dict):
                yield from _pattern((*where, index), item)
            else:
                yield _wrong_type((*where, index), item, "an object with a pattern")


def _pattern(where: Where, item: Mapping[str, Any]) -> Iterator[Problem]:
    if not isinstance(item.get("pattern"), str) or not item["pattern"]:
        message = f"{dotted(where)} has no pattern"
        yield Problem(where, "pattern", message, "give it a pattern, a regular expression in a string")
    if not isinstance(item.get("description"), str | None):
        yield _wrong_type((*where, "description"), item["description"], "a string")
    severity = item.get("severity")
    if severity is not None and severity not in SEVERITIES:
        shown = quoted(severity) if isinstance(severity, str) else kind(severity)
        message = f"{dotted(where)} has the unknown severity {shown}"
        yield Problem((*where, "severity"), "severity", message, f"use {alternatives(SEVERITIES)}")
    yield from _weight(where, item)


def _weight(where: Where, item: Mapping[str, Any]) -> Iterator[Problem]:
    weight = item.get("weight")
    if weight is not None and (not _is_number(weight) or weight < 0):
        shown = f"{weight}" if _is_number(weight) else kind(weight)
        message = f"{dotted((*where, 'weight'))} is {shown}"
        yield Problem((*where, "weight"), "weight", message, "make it a number of 0 or more")


def assertions(test: Mapping[str, Any]) -> Iterator[Problem]:
    """There are assertions, each of a known type and checking something, and not all weigh nothing."""
    checks = as_object(test.get("runtime_checks"))
    if checks is None:
        return
    items = checks.get("assertions")
    if items is None or items == []:
        yield Problem(
            ("runtime_checks", "assertions"),
            "no-assertions",
            "no assertions: nothing would be checked",
            "add an assertion to runtime_checks.assertions",
        )
        return
    if not isinstance(items, list):
        return
    for index, item in enumerate(items):
        where: Where = ("runtime_checks", "assertions", index)
        if isinstance(item, dict):
            yield from assertion_problems(item, where)
        else:
            yield _wrong_type(where, item, "an object")
    weights = [item.get("weight") for item in items if isinstance(item, dict)]
    if len(weights) == len(items) and all(weight == 0 and weight is not False for weight in weights):
        yield Problem(
            ("runtime_checks", "assertions"),
            "weight",
            "every assertion has weight 0, so nothing counts",
            "give at least one assertion a weight above 0",
        )


def assertion_problems(item: Mapping[str, Any], where: Where = ()) -> Iterator[Problem]:
    """Give what keeps one assertion, an object as authored, from being graded."""
    name = item.get("type")
    if not isinstance(name, str) or name not in ASSERTION_TYPES:
        shown = f"the unknown type {quoted(name)}" if isinstance(name, str) else "no type"
        near = did_you_mean(name, ASSERTION_TYPES) if isinstance(name, str) else ""
        mend = near or f"use one of {', '.join(sorted(ASSERTION_TYPES))}"
        message = f"{dotted(where) or 'the assertion'} has {shown}"
        yield Problem((*where, "type"), "assertion-type", message, mend)
        return
    yield from _assertion_types(item, where)
    yield from _weight(where, item)
    for needed in _missing(name, item):
        message = f"{dotted(where) or 'the assertion'} ({name}) has no {needed}"
        yield Problem(where, "assertion-field", message, f"give it {needed}")
    if name == "rest_response" and not _rest_expects(item):
        message = f"{dotted(where) or 'the assertion'} (rest_response) checks nothing"
        mend = f"give it {alternatives(_REST_EXPECTATIONS)}"
        yield Problem(where, "checks-nothing", message, mend)
    if name in {"output_contains", "output_matches"} and item.get("expected") == "":
        message = f"{dotted(where) or 'the assertion'} ({name}) checks nothing: every output holds ''"
        yield Problem(where, "checks-nothing", message, "say what the output must hold")


def _missing(name: str, item: Mapping[str, Any]) -> Iterator[str]:
    if name not in _NO_TARGET and not _is_text(item.get("target")):
        yield "target"
    if (name in _OUTPUT_TYPES and item.get("expected") is None) or (
        name in _VALUE_TYPES and "expected" not in item
    ):
        yield "expected"
    if name == "custom_assertion" and not _is_text(item.get("code")):
        yield "code"
    if name == "post_meta_value":
        if item.get("post_id") is None:
            yield "post_id"
        if not _is_text(item.get("meta_key")):
            yield "meta_key"


def _rest_expects(item: Mapping[str, Any]) -> bool:
    return (
        item.get("expected_status") is not None
        or "expected_data" in item
        or any(item.get(name) not in (None, "") for name in ("body_contains", "body_not_contains"))
    )


def _assertion_types(item: Mapping[str, Any], where: Where) -> Iterator[Problem]:
    texts = ("target", "description", "code", "callback", "method", "meta_key", "body_contains")
    for name in (*texts, "body_not_contains"):
        if not isinstance(item.get(name), str | None):
            yield _wrong_type((*where, name), item[name], "a string")
    if item["type"] in _OUTPUT_TYPES and not isinstance(item.get("expected"), str | None):
        yield _wrong_type((*where, "expected"), item["expected"], "a string")
    for name, low, high in (("expected_status", 100, 599), ("post_id", 1, 2**63 - 1)):
        value = item.get(name)
        if value is not None and (type(value) is not int or not low <= value <= high):
            yield _wrong_type((*where, name), value, f"an integer from {low} to {high}")
    for name in ("params", "headers"):
        if as_object(item.get(name)) is None:
            yield _wrong_type((*where, name), item[name], "an object")
    for key, value in (as_object(item.get("headers")) or {}).items():
        if not isinstance(value, str):
            yield _wrong_type((*where, "headers", key), value, "a string")
    method = item.get("method")
    if isinstance(method, str) and method.upper() not in METHODS:
        message = f"{dotted((*where, 'method'))} is {quoted(method)}"
        yield Problem((*where, "method"), "method", message, f"use {alternatives(METHODS)}")


RULES: tuple[Rule, ...] = (naming, field_types, reference, assertions, static_patterns)
