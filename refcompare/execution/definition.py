"""What a test's definition is: the canonical form for diffs, and the digests that say it changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from refcompare.execution.loader_rules import as_object
from refcompare.execution.model import ExecutionTest

GRADING_FIELDS = (
    "test_function",
    "artifact_kind",
    "reference_solution",
    "reference_files",
    "static_checks.required_patterns",
    "static_checks.forbidden_patterns",
    "runtime_checks.setup",
    "runtime_checks.assertions",
    "runtime_checks.teardown",
)
"""The fields that the verdict of a candidate depends on. ``ExecutionTest.digest`` covers these."""

DESCRIPTIVE_FIELDS = ("category", "prompt", "requirements", "expected_behavior", "exploit_solutions")
"""The other authored fields that a reader calls the test. ``entry_digest`` covers these too."""

KNOWN_FIELDS = frozenset(
    {"id", "metadata", *(name.partition(".")[0] for name in (*GRADING_FIELDS, *DESCRIPTIVE_FIELDS))}
)

ASSERTION_FIELDS = frozenset(
    {
        "body", "body_contains", "body_not_contains", "callback", "code", "description", "expected",
        "expected_data", "expected_status", "headers", "meta_key", "method", "params", "post_id", "target",
        "type", "weight",
    }
)  # fmt: skip
PATTERN_FIELDS = frozenset({"description", "pattern", "severity", "weight"})

LISTS: Mapping[str, Mapping[str, frozenset[str]]] = {
    "static_checks": {"required_patterns": PATTERN_FIELDS, "forbidden_patterns": PATTERN_FIELDS},
    "runtime_checks": {"setup": frozenset(), "assertions": ASSERTION_FIELDS, "teardown": frozenset()},
}
"""The fields of a test's two nested objects, and for those that are lists the fields of each member."""

KNOWN_EXTRAS = frozenset({"$comment", "difficulty", "judge_config", "notes", "tags", "version"})
"""Fields that suites in the field carry beside the format's own; not worth a note."""


def fields(test: Mapping[str, Any], category: str) -> dict[str, Any]:
    """Give the fields of a test as authored, by dotted name, with the format's defaults filled in.

    ``category`` is the one of the file. Takes anything decoded, valid or not.
    """
    static, runtime = as_object(test.get("static_checks")), as_object(test.get("runtime_checks"))
    return {
        "category": _or(test.get("category"), category),
        "prompt": _or(test.get("prompt"), ""),
        "requirements": _or(test.get("requirements"), []),
        "test_function": test.get("test_function") or None,
        "expected_behavior": _or(test.get("expected_behavior"), ""),
        "artifact_kind": _or(test.get("artifact_kind"), "php_snippet"),
        "reference_solution": test.get("reference_solution"),
        "reference_files": test.get("reference_files") or None,
        "exploit_solutions": _or(test.get("exploit_solutions"), []),
        "static_checks.required_patterns": _members((static or {}).get("required_patterns")),
        "static_checks.forbidden_patterns": _members((static or {}).get("forbidden_patterns")),
        "runtime_checks.setup": _or((runtime or {}).get("setup"), ""),
        "runtime_checks.assertions": _members((runtime or {}).get("assertions")),
        "runtime_checks.teardown": _or((runtime or {}).get("teardown"), ""),
    }


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _members(items: Any) -> Any:
    """Sort the members of each object in a list, whose order says nothing.

    What they hold keeps its order: PHP's === tells apart arrays whose keys come in another one.
    """
    if not isinstance(items, list):
        return _or(items, [])
    return [dict(sorted(item.items())) if isinstance(item, dict) else item for item in items]


def digests(authored: Mapping[str, Any]) -> tuple[str, str]:
    """Give the digest over the grading fields and the one over all of ``fields()``'s, in hex."""
    grading = {name: authored[name] for name in GRADING_FIELDS}
    return digest(grading), digest(authored)


def digest(value: Any) -> str:
    """Give the hex SHA-256 of a decoded value; the order of keys counts."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def build(test: Mapping[str, Any], *, suite: str, category: str, path: str, line: int) -> ExecutionTest:
    """Make the value of a test that no rule objects to. ``category`` serves where it names none."""
    authored = fields(test, category)
    grading, entry = digests(authored)
    return ExecutionTest(
        id=test["id"],
        suite=suite,
        category=authored["category"],
        path=path,
        line=line,
        digest=grading,
        prompt=authored["prompt"],
        requirements=tuple(authored["requirements"]),
        expected_behavior=authored["expected_behavior"],
        test_function=authored["test_function"],
        artifact_kind=authored["artifact_kind"],
        reference_solution=authored["reference_solution"],
        reference_files=authored["reference_files"],
        exploit_solutions=tuple(authored["exploit_solutions"]),
        static_checks=as_object(test.get("static_checks")) or {},
        setup=authored["runtime_checks.setup"],
        assertions=tuple(authored["runtime_checks.assertions"]),
        teardown=authored["runtime_checks.teardown"],
        metadata=as_object(test.get("metadata")) or {},
        extra={name: value for name, value in test.items() if name not in KNOWN_FIELDS},
        entry_digest=entry,
    )


def definition(test: ExecutionTest) -> dict[str, Any]:
    """Give a test in the shape of its file, defaults filled in, members in one fixed order.

    For reading and for diffs: two tests with equal definitions differ in nothing authored.
    """
    static = test.static_checks
    return {
        "id": test.id,
        "category": test.category,
        "prompt": test.prompt,
        "requirements": list(test.requirements),
        "test_function": test.test_function,
        "expected_behavior": test.expected_behavior,
        "artifact_kind": test.artifact_kind,
        "reference_solution": test.reference_solution,
        "reference_files": None if test.reference_files is None else dict(test.reference_files),
        "exploit_solutions": list(test.exploit_solutions),
        "static_checks": {
            "required_patterns": _members(static.get("required_patterns")),
            "forbidden_patterns": _members(static.get("forbidden_patterns")),
        },
        "runtime_checks": {
            "setup": test.setup,
            "assertions": _members(list(test.assertions)),
            "teardown": test.teardown,
        },
        "metadata": dict(test.metadata),
        **{name: test.extra[name] for name in sorted(test.extra)},
    }


def field_digests(test: ExecutionTest) -> dict[str, str]:
    """Give a short digest of every field that ``entry_digest`` covers, to tell which of them were edited."""
    flat = dict(_flat(definition(test)))
    return {
        name: hashlib.sha256(json.dumps(flat[name]).encode()).hexdigest()[:12]
        for name in (*DESCRIPTIVE_FIELDS, *GRADING_FIELDS)
    }


def edited_fields(base: ExecutionTest, head: ExecutionTest) -> tuple[str, ...]:
    """Name the authored fields in which two tests differ, as ``prompt`` or ``runtime_checks.setup``.

    In the order of the format; ``metadata`` and fields that the format does not name are included.
    """
    before, after = dict(_flat(definition(base))), dict(_flat(definition(head)))
    names = [*before, *(name for name in after if name not in before)]
    return tuple(name for name in names if not _same(before.get(name), after.get(name)))


def _flat(whole: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in whole.items():
        if name in {"static_checks", "runtime_checks"}:
            yield from ((f"{name}.{inner}", item) for inner, item in value.items())
        else:
            yield name, value


def _same(one: Any, other: Any) -> bool:
    # As text, since 1, 1.0 and true are equal in Python and three values in PHP.
    return json.dumps(one) == json.dumps(other)
