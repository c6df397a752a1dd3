"""Rules of the format: what keeps a file, a test or an eval from being read and graded.

One function may speak for several rules: the loader, which grading asks too, names what it refuses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

import jsonschema
from jsonschema.exceptions import best_match

from refcompare.agents.evals import EvalSet
from refcompare.execution import definition
from refcompare.execution.loader import SourceFile, SourceTest, unknown_fields
from refcompare.execution.loader_json import Where
from refcompare.execution.loader_rules import dotted, name_problem
from refcompare.resources import schema_directory
from refcompare.rules.model import Finding, Rule, Severity
from refcompare.suites import duplicate_message
from refcompare.wording import alternatives, did_you_mean, kind, quoted

MOST_OF_A_KIND = 50
"""Findings that one rule gives for one test; whoever mends fifty runs the check again."""


def findings(files: Sequence[SourceFile], evals: EvalSet) -> Iterator[Finding]:
    """Give everything that keeps files, tests and evals from being used. Never raises for content."""
    for file in files:
        for file_rule in FILE_RULES:
            yield from file_rule(file)
        for test in file.tests:
            for test_rule in TEST_RULES:
                yield from test_rule(file, test)
    for suites_rule in SUITES_RULES:
        yield from suites_rule(files)
    yield from usable_evals(evals)


def unmatched(glob: str, severity: Severity) -> Finding:
    """Say that no file matches a glob."""
    mend = "mend the glob, or add tests there"
    return Finding(quoted(glob), 1, "no-suites", "no file matches this glob", mend, severity)


def readable(file: SourceFile) -> Iterator[Finding]:
    """The file can be read to its end."""
    if file.fault is not None:
        fault = file.fault
        yield Finding(file.path, file.fault_line, fault.rule, fault.message, fault.mend)


def file_fits_schema(file: SourceFile) -> Iterator[Finding]:
    """What stands beside the tests fits the published schema."""
    outer = {**file.document.members, "tests": []}
    for error in _validator("").iter_errors(outer):
        where, message, mend = _explained(error)
        line = file.document.line(file.document.locate(None, where))
        yield Finding(file.path, line, "schema", message, mend)


def known_fields(file: SourceFile) -> Iterator[Finding]:
    """Every field is one of the format: a misspelt one would silently check nothing."""
    for unknown in unknown_fields(file):
        outer, _, inner = unknown.name.rpartition(".")
        known = [field.rpartition(".")[2] for field in _fields_of(outer)]
        near = did_you_mean(inner, known) or "remove it, or leave it as a note to yourself"
        times = f", {unknown.uses:,} times" if unknown.uses > 1 else ""
        message = f"the field {quoted(unknown.name)} is not one of the format{times}"
        yield Finding(file.path, unknown.line, "unknown-field", message, near, "warning")


def _fields_of(outer: str) -> Sequence[str]:
    if not outer:
        return sorted({*definition.KNOWN_FIELDS, "tests"})
    parent, _, name = outer.partition(".")
    lists = definition.LISTS.get(parent, {})
    return sorted(lists.get(name, ()) if name else lists)


def gradable(file: SourceFile, test: SourceTest) -> Iterator[Finding]:
    """Nothing keeps the test from being graded."""
    for problem in islice(file.problems(test), MOST_OF_A_KIND):
        line = file.flaw_line(test) if test.flaw else file.line_of(test, problem.where)
        yield Finding(file.path, line, problem.rule, problem.message, problem.mend)


def fits_schema(file: SourceFile, test: SourceTest) -> Iterator[Finding]:
    """The test fits the published schema, where no other rule has said so already."""
    told = [problem.where for problem in islice(file.problems(test), MOST_OF_A_KIND)]
    if test.flaw or () in told:
        return
    for error in islice(_validator("#/$defs/test").iter_errors(test.value), MOST_OF_A_KIND):
        where, message, mend = _explained(error)
        if not any(_related(where, other) for other in told):
            yield Finding(file.path, file.line_of(test, where), "schema", message, mend)


def unique_ids(files: Sequence[SourceFile]) -> Iterator[Finding]:
    """No two tests share an id, since tests of two refs are paired by it."""
    owners: dict[str, str] = {}
    for file in files:
        for test in file.tests:
            test_id = test.value.get("id") if isinstance(test.value, dict) else None
            if name_problem("id", test_id) is not None or not isinstance(test_id, str):
                continue
            owner = owners.setdefault(test_id, f"{file.path}:{test.line}")
            if owner != f"{file.path}:{test.line}":
                message = duplicate_message(test_id, owner)
                line = file.line_of(test, ("id",))
                yield Finding(file.path, line, "duplicate-id", message, "give the test an id of its own")


def usable_evals(evals: EvalSet) -> Iterator[Finding]:
    """Every agent eval can be used, and no two share an id."""
    for item in evals.invalid:
        for line, sentence in item.faults:
            message, _, mend = sentence.removesuffix(".").rpartition("; ")
            yield Finding(item.path, line, "agent-eval", message or mend, mend if message else "")


FILE_RULES: tuple[Callable[[SourceFile], Iterator[Finding]], ...] = (readable, file_fits_schema, known_fields)
TEST_RULES: tuple[Callable[[SourceFile, SourceTest], Iterator[Finding]], ...] = (gradable, fits_schema)
SUITES_RULES: tuple[Callable[[Sequence[SourceFile]], Iterator[Finding]], ...] = (unique_ids,)


def _related(one: Where, other: Where) -> bool:
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def _explained(error: jsonschema.ValidationError) -> tuple[Where, str, str]:
    """Give where a violation of the schema is, what is so, and what mends it."""
    if error.context:
        error = best_match([error]) or error
    where: Where = tuple(error.absolute_path)
    limit: Any = error.validator_value
    if error.validator == "required":
        present: Any = error.instance
        name = next(name for name in limit if name not in present)
        where = (*where, name)
        return where, f"{dotted(where)} is missing", f"add {name}"
    found = quoted(error.instance) if isinstance(error.instance, str) else kind(error.instance)
    return (
        where,
        f"{dotted(where) or 'the test'} is {found}",
        f"make it {_wanted(str(error.validator), limit)}",
    )


def _wanted(rule: str, limit: Any) -> str:
    match rule:
        case "type":
            return alternatives([limit] if isinstance(limit, str) else limit)
        case "enum":
            return alternatives("null" if word is None else quoted(str(word)) for word in limit)
        case "pattern":
            return f"match {limit}" if limit != "\\S" else "say something"
        case "minLength" | "minItems" | "minimum" | "minProperties":
            return f"{limit} or more"
        case "maxLength" | "maxItems" | "maximum" | "maxProperties":
            return f"{limit} at most"
        case _:
            return f"fit {rule} of the schema"


@cache
def _validator(part: str) -> jsonschema.Draft202012Validator:
    schema: Mapping[str, Any] = json.loads((schema_directory() / "execution-suite.schema.json").read_bytes())
    if part:
        schema = {"$ref": part, "$defs": schema["$defs"]}
    return jsonschema.Draft202012Validator(schema)


_NAMES = (
    *("json", "encoding", "no-tests", "no-suites", "file-size", "unreadable", "schema", "wrong-type"),
    *("name", "duplicate-id", "artifact-kind", "no-reference", "plugin-files", "no-assertions"),
    *("assertion-type", "assertion-field", "checks-nothing", "method", "pattern", "severity", "weight"),
    "agent-eval",
)

RULES = (
    *(Rule(name, "error", waivable=False) for name in _NAMES),
    Rule("unknown-field", "warning"),
)
