"""Results for scripts: the JSON that the published schemas describe. Pure.

What is printed may go to a terminal, so characters that hide or command are written as JSON
escapes; a script reads the same text either way.
"""

from __future__ import annotations

import json

from refcompare.changes import CategoryCounts, Change, ChangeKind, Comparison, Reason, RunSummary, Side
from refcompare.codec import (
    Value,
    arm_value,
    assertion_value,
    audit_value,
    environment_value,
    exploit_value,
    record_value,
    run_value,
    weak_spot_value,
)
from refcompare.gate import GateResult
from refcompare.report.escape import clip, json_safe
from refcompare.report.interface import DEFAULTS, Options
from refcompare.report.metrics import metrics_value
from refcompare.report.words import headline
from refcompare.results import JSON, SCHEMA_VERSION, Arm, RunResult

_LONGEST_MESSAGE = 4_000
"""Characters of a message in a comparison; the records have all of it."""


def render(comparison: Comparison, gate: GateResult, options: Options = DEFAULTS, /) -> str:
    """Give a comparison as ``comparison.json`` has it. No option applies."""
    return dump(comparison_value(comparison, gate))


def render_run(run: RunResult) -> str:
    """Give everything that one arm produced, its records included."""
    return dump(run_value(run) | {"records": [record_value(record) for record in run.records]})


def render_audit(run: RunResult) -> str:
    """Give what the exploit audit of one arm found."""
    return dump(audit_report_value(run))


def dump(value: JSON) -> str:
    """Write a JSON value over several lines, ending in a line end. Keys keep their order."""
    return json_safe(json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2)) + "\n"


def dump_line(value: JSON) -> str:
    """Write a JSON value in one line, ending in a line end."""
    return json_safe(json.dumps(value, ensure_ascii=False, allow_nan=False)) + "\n"


def audit_report_value(run: RunResult) -> Value:
    """Give the shape of ``audit.schema.json``."""
    value: Value = {"schema_version": SCHEMA_VERSION, "arm": arm_value(run.arm)}
    if run.arm.environment is not None:
        value["environment"] = environment_value(run.arm.environment)
    return value | {
        "partial": run.partial,
        "seconds": run.seconds,
        "notes": list(run.notes),
        "tests": [audit_value(audit) for audit in run.audits],
    }


def comparison_value(comparison: Comparison, gate: GateResult) -> Value:
    """Give the shape of ``comparison.schema.json``."""
    gated = {change.test_id for change in gate.gated}
    return {
        "schema_version": SCHEMA_VERSION,
        "headline": headline(comparison),
        "conclusion": gate.conclusion,
        "exit_code": gate.exit_code,
        "sentence": gate.sentence,
        "fail_on": [kind.value for kind in ChangeKind if kind in gate.fail_on],
        "base": _arm_value(comparison.base, comparison.base_run),
        "head": _arm_value(comparison.head, comparison.head_run),
        "audited": comparison.audited,
        "partial": comparison.partial,
        "totals": {kind.value: count for kind, count in comparison.totals.items()},
        "categories": [
            {"category": row.category, "base": _counts_value(row.base), "head": _counts_value(row.head)}
            for row in comparison.categories
        ],
        "changes": [_change_value(change, change.test_id in gated) for change in comparison.changes],
        "notes": list(comparison.notes),
        **metrics_value(comparison.trials),
    }


def _arm_value(arm: Arm, run: RunSummary) -> Value:
    value = arm_value(arm)
    if arm.environment is not None:
        value["environment"] = environment_value(arm.environment)
    return value | {
        "audited": run.audited,
        "partial": run.partial,
        "seconds": run.seconds,
        "tests": run.tests,
        "records": run.records,
        "reused": run.reused,
    }


def _counts_value(counts: CategoryCounts) -> Value:
    return {
        "tests": counts.tests,
        "passing": counts.passing,
        "exploitable": counts.exploitable,
        "not_auditable": counts.not_auditable,
        "invalid": counts.invalid,
        "not_graded": counts.not_graded,
    }


def _change_value(change: Change, gated: bool) -> Value:
    value: Value = {
        "test_id": change.test_id,
        "suite": change.suite,
        "category": change.category,
        "kind": change.kind.value,
        "also": [kind.value for kind in change.also],
        "gated": gated,
        "reasons": [_reason_value(reason) for reason in change.reasons],
    }
    if change.base is not None:
        value["base"] = _side_value(change.base)
    if change.head is not None:
        value["head"] = _side_value(change.head)
    return value


def _reason_value(reason: Reason) -> Value:
    versions: Value = {"base": reason.base, "head": reason.head} if reason.base or reason.head else {}
    versions |= {"fields": list(reason.fields)} if reason.fields else {}
    return {"what": reason.what.value} | versions | {"text": reason.text}


def _side_value(side: Side) -> Value:
    value: Value = {
        "suite": side.suite,
        "category": side.category,
        "path": side.path,
        "line": side.line,
        "digest": side.digest,
        "stable": side.stable,
    }
    if side.verdict is not None:
        value |= {
            "verdict": side.verdict.value,
            "verdicts": [verdict.value for verdict in side.verdicts],
            "ms": side.ms,
            "reused": side.reused,
        }
    if side.audited:
        value |= {"exploitable": bool(side.exploits), "auditable": side.auditable}
    optional: Value = {
        "error_kind": side.error_kind.value if side.error_kind else None,
        "phase": side.phase.value if side.phase else None,
        "message": clip(side.message, _LONGEST_MESSAGE) if side.message else None,
        "first_failure": assertion_value(side.failure) if side.failure else None,
        "forbidden": list(side.forbidden),
        "audit_reason": side.audit_reason,
        "passing_exploits": [exploit_value(exploit) for exploit in side.exploits],
        "unstable_exploits": list(side.unstable_exploits),
        "ungraded_exploits": list(side.ungraded_exploits),
        "weak_spots": [weak_spot_value(spot) for spot in side.weak_spots],
        "mutants_tried": side.mutants_tried or None,
    }
    return value | {key: item for key, item in optional.items() if item}
