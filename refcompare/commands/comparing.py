"""``refcompare BASE HEAD``: compares two refs and prints what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from refcompare.arms import Side, Workbench, open_workbench
from refcompare.commands.printing import print_comparison, write_comparison
from refcompare.commands.running import (
    INTERRUPTED,
    choice,
    plan_of,
    ready_agents,
    run_agents,
    run_tests,
)
from refcompare.compare import compare
from refcompare.execution.model import ExecutionTest, InvalidTest
from refcompare.gate import gate, parse_fail_on
from refcompare.metrics import TrialComparison
from refcompare.pipeline import Plan
from refcompare.report.json import dump
from refcompare.report.words import plural
from refcompare.results import SCHEMA_VERSION, RunResult
from refcompare.selection import Asked


def compare_refs(start: Path, options: Mapping[str, Any], out: TextIO) -> int:
    """Compare two refs and print what changed."""
    asked = Asked.of(options)
    with open_workbench(start, choice(options)) as workbench:
        sides = workbench.pair(options["base"], options["head"])
        plan = plan_of(workbench.config, options, audit=True)
        if options["dry_run"]:
            out.write(_dry_run(workbench, sides, plan, options))
            return 0
        fail_on = (
            workbench.config.fail_on if options["fail_on"] is None else parse_fail_on(options["fail_on"])
        )
        # What is missing for agents is said before tests are graded for minutes.
        prepared = ready_agents(workbench, sides, plan, options) if asked.agents else None
        runs: tuple[RunResult, ...] = ()
        trials, interrupted = TrialComparison(), False
        has_tests = any(side.suites.tests or side.suites.invalid for side in sides)
        if asked.execution and (has_tests or not asked.agents):
            runs, interrupted = run_tests(workbench, sides, plan, options)
        if prepared is not None and not interrupted:
            runs, trials, interrupted = run_agents(workbench, sides, prepared, options, runs)
        comparison = replace(compare(*runs), trials=trials)
        result = gate(comparison, fail_on)
        write_comparison(options.get("output") or workbench.results_directory, comparison, result)
        print_comparison(options, comparison, result, out)
        return INTERRUPTED if interrupted else result.exit_code


def _dry_run(workbench: Workbench, sides: tuple[Side, Side], plan: Plan, options: Mapping[str, Any]) -> str:
    """Say what would run on each arm, as text or as JSON."""
    from refcompare import evaluation

    asked = Asked.of(options)
    prepared = None
    if asked.agents:
        prepared = evaluation.prepare(sides, options, plan.jobs, workbench.config.eval_command)
    if options["form"] == "json":
        value: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "dry_run": True}
        if asked.execution:
            value["execution"] = {side.name: _tests_value(side) for side in sides}
            value |= {"audit": plan.audit, "seconds_per_candidate": plan.limits.seconds, "jobs": plan.jobs}
        if prepared is not None:
            value["agent"] = evaluation.dry_run_value(prepared)
        return dump(value)
    page = "" if prepared is None else evaluation.dry_run(prepared)
    return page + (_tests_page(sides, plan) if asked.execution else "")


def _tests_value(side: Side) -> dict[str, Any]:
    def places(items: Sequence[ExecutionTest | InvalidTest]) -> list[dict[str, Any]]:
        return [{"test_id": item.id, "path": item.path, "line": item.line} for item in items]

    invalid = [
        place | {"reason": item.reason}
        for place, item in zip(places(side.suites.invalid), side.suites.invalid, strict=True)
    ]
    return {
        "ref": side.tree.ref.label,
        "commit": side.tree.ref.commit,
        "tests": places(side.suites.tests),
        "invalid": invalid,
    }


def _tests_page(sides: tuple[Side, Side], plan: Plan) -> str:
    lines = []
    for side in sides:
        suites = side.suites
        invalid = f", {len(suites.invalid)} invalid" if suites.invalid else ""
        lines.append(f"{side.name}: {side.tree.ref.label}: {plural(len(suites.tests), 'test')}{invalid}")
        lines += [f"  {test.id}  {test.path}:{test.line}" for test in suites.tests]
        lines += [f"  {item.id}  {item.path}:{item.line}  invalid: {item.reason}" for item in suites.invalid]
    lines.append("audit: yes" if plan.audit else "audit: no")
    lines.append(f"limit: {plan.limits.seconds:g} s a candidate, jobs: {plan.jobs}")
    return "\n".join(lines) + "\n"
