"""Results as JSON values and back. Pure; the shapes are those of the published schemas.

Keys whose value is None or empty are left out, except where a reader may count on a list or a
flag being there. Decoding takes nothing on trust: every value is checked before it is used.
"""

from __future__ import annotations

from enum import StrEnum

from refcompare.fields import HIGHEST, Fields, Unexpected
from refcompare.results import (
    JSON,
    SCHEMA_VERSION,
    Arm,
    AssertionResult,
    Audit,
    Environment,
    ErrorKind,
    PassingExploit,
    Phase,
    Record,
    RunResult,
    TestEntry,
    Verdict,
    WeakSpot,
)

Value = dict[str, JSON]
"""A JSON object as it is written."""

# ------------------------------------------------------------------------------ encoding


def record_value(record: Record) -> Value:
    """Give a record as one line of ``records.jsonl`` has it."""
    always: Value = {
        "test_id": record.test_id,
        "candidate": record.candidate,
        "verdict": record.verdict.value,
        "assertions": [assertion_value(item) for item in record.assertions],
        "ms": record.ms,
        "attempt": record.attempt,
        "reused": record.reused,
    }
    return always | _present(
        {
            "error_kind": _word(record.error_kind),
            "phase": _word(record.phase),
            "message": record.message,
            "score": record.score,
            "forbidden": list(record.forbidden),
            "missing": list(record.missing),
            "output": record.output,
        }
    )


def assertion_value(assertion: AssertionResult) -> Value:
    """Give one assertion's outcome."""
    always: Value = {"type": assertion.type, "description": assertion.description}
    outcome: Value = {"passed": assertion.passed, "weight": assertion.weight}
    rest: Value = {
        "message": assertion.message,
        "expected": assertion.expected,
        "actual": assertion.actual,
    }
    return always | outcome | {key: value for key, value in rest.items() if value is not None}


def audit_value(audit: Audit) -> Value:
    """Give what the exploit audit found of one test."""
    always: Value = {
        "test_id": audit.test_id,
        "exploitable": audit.exploitable,
        "auditable": audit.auditable,
        "passing_exploits": [exploit_value(item) for item in audit.passing_exploits],
        "weak_spots": [weak_spot_value(item) for item in audit.weak_spots],
        "candidates_tried": audit.candidates_tried,
        "mutants_tried": audit.mutants_tried,
        "inferred": audit.inferred,
        "stopped_early": audit.stopped_early,
    }
    return always | _present({"gateway": audit.gateway, "reason": audit.reason})


def exploit_value(exploit: PassingExploit) -> Value:
    """Give one passing cheat."""
    return {"label": exploit.label, "class": exploit.exploit_class, "code": exploit.code}


def weak_spot_value(spot: WeakSpot) -> Value:
    """Give one surviving mutant."""
    found: Value = {"line": spot.line, "mutation": spot.mutation}
    return found | _present({"label": spot.label})


def arm_value(arm: Arm) -> Value:
    """Give an arm without its environment."""
    return _present({"name": arm.name, "ref": arm.ref, "commit": arm.commit, "tree": arm.tree})


def environment_value(environment: Environment) -> Value:
    """Give what graded an arm."""
    return {
        "wordpress": environment.wordpress,
        "wordpress_digest": environment.wordpress_digest,
        "php": environment.php,
        "php_digest": environment.php_digest,
        "sqlite": environment.sqlite,
        "grader_digest": environment.grader_digest,
        "runtime": environment.runtime,
        "database": environment.database,
    }


def run_value(run: RunResult) -> Value:
    """Give a run without its records, as ``run.json`` has it."""
    started: Value = {"schema_version": SCHEMA_VERSION, "arm": arm_value(run.arm)}
    if run.arm.environment is not None:
        started["environment"] = environment_value(run.arm.environment)
    return started | {
        "partial": run.partial,
        "audited": run.audited,
        "seconds": run.seconds,
        "notes": list(run.notes),
        "tests": [_entry_value(entry) for entry in run.tests],
        "audits": [audit_value(audit) for audit in run.audits],
    }


def _entry_value(entry: TestEntry) -> Value:
    found: Value = {
        "test_id": entry.test_id,
        "suite": entry.suite,
        "category": entry.category,
        "path": entry.path,
        "line": entry.line,
        "digest": entry.digest,
    }
    return found | _present({"invalid": entry.invalid, "fields": dict(entry.fields) or None})


def _present(values: Value) -> Value:
    return {key: value for key, value in values.items() if value is not None and value != "" and value != []}


def _word(value: StrEnum | None) -> str | None:
    return None if value is None else value.value


# ------------------------------------------------------------------------------ decoding


def record_from(value: object) -> Record:
    """Read a record back. Raises Unexpected for whatever its schema does not allow."""
    fields = Fields(value)
    return Record(
        test_id=fields.text("test_id"),
        candidate=fields.text("candidate"),
        verdict=fields.word("verdict", Verdict),
        ms=fields.number("ms", most=HIGHEST),
        error_kind=fields.word_or_none("error_kind", ErrorKind),
        phase=fields.word_or_none("phase", Phase),
        message=fields.text_or_none("message"),
        assertions=tuple(_assertion_from(item) for item in fields.items("assertions", required=True)),
        score=fields.number("score", most=1) if "score" in fields else None,
        forbidden=fields.texts("forbidden"),
        missing=fields.texts("missing"),
        output=fields.text("output", ""),
        attempt=fields.integer("attempt", 1, least=1),
        reused=fields.flag("reused", False),
    )


def _assertion_from(value: object) -> AssertionResult:
    fields = Fields(value)
    return AssertionResult(
        type=fields.text("type"),
        description=fields.text("description"),
        passed=fields.flag("passed"),
        weight=fields.number("weight", least=-HIGHEST, most=HIGHEST),
        message=fields.text_or_none("message"),
        expected=fields.text_or_none("expected"),
        actual=fields.text_or_none("actual"),
    )


def run_from(value: object, records: tuple[Record, ...]) -> RunResult:
    """Read ``run.json`` back and join it with its records. Raises Unexpected."""
    fields = Fields(value)
    if fields.integer("schema_version") != SCHEMA_VERSION:
        raise Unexpected
    for record in fields.items("records"):
        record_from(record)  # run.json has none; what `run --format json` printed may be given as one
    environment = _environment_from(fields.get("environment")) if "environment" in fields else None
    return RunResult(
        arm=_arm_from(fields.get("arm"), environment),
        tests=tuple(_entry_from(item) for item in fields.items("tests", required=True)),
        records=records,
        audits=tuple(_audit_from(item) for item in fields.items("audits")),
        audited=fields.flag("audited"),
        partial=fields.flag("partial"),
        seconds=fields.number("seconds", most=HIGHEST),
        notes=fields.texts("notes"),
    )


def _arm_from(value: object, environment: Environment | None) -> Arm:
    fields = Fields(value)
    name = fields.text("name")
    if name not in ARM_NAMES:
        raise Unexpected
    return Arm(
        name, fields.text("ref", ""), fields.text_or_none("commit"), fields.text("tree", ""), environment
    )


ARM_NAMES = ("base", "head", "control")
"""The arms that a run can be of, and the directories that hold them."""


def _environment_from(value: object) -> Environment:
    fields = Fields(value)
    return Environment(
        wordpress=fields.text("wordpress"),
        wordpress_digest=fields.text("wordpress_digest"),
        php=fields.text("php"),
        php_digest=fields.text("php_digest"),
        sqlite=fields.text("sqlite"),
        grader_digest=fields.text("grader_digest"),
        runtime=fields.text("runtime"),
        database=fields.text("database"),
    )


def _entry_from(value: object) -> TestEntry:
    fields = Fields(value)
    return TestEntry(
        test_id=fields.text("test_id"),
        suite=fields.text("suite"),
        category=fields.text("category"),
        path=fields.text("path"),
        line=fields.integer("line"),
        digest=fields.text("digest"),
        invalid=fields.text_or_none("invalid"),
        fields=fields.text_by_name("fields"),
    )


def _audit_from(value: object) -> Audit:
    fields = Fields(value)
    fields.flag("exploitable")  # what it says follows from the cheats, which are believed instead
    return Audit(
        test_id=fields.text("test_id"),
        auditable=fields.flag("auditable"),
        passing_exploits=tuple(
            PassingExploit(item.text("label"), item.text("class"), item.text("code"))
            for item in map(Fields, fields.items("passing_exploits", required=True))
        ),
        weak_spots=tuple(
            WeakSpot(item.integer("line"), item.text("mutation"), item.text("label", ""))
            for item in map(Fields, fields.items("weak_spots", required=True))
        ),
        candidates_tried=fields.integer("candidates_tried"),
        mutants_tried=fields.integer("mutants_tried", 0),
        gateway=fields.text_or_none("gateway"),
        inferred=fields.flag("inferred", False),
        stopped_early=fields.flag("stopped_early", False),
        reason=fields.text_or_none("reason"),
    )
