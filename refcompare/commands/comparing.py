"""``refcompare BASE HEAD``: compares two refs and prints what changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from refcompare.arms import Side, open_workbench
from refcompare.commands.printing import print_comparison, write_comparison
from refcompare.commands.running import (
    INTERRUPTED,
    choice,
    plan_of,
    run_agents,
    run_tests,
)
from refcompare.compare import compare
from refcompare.gate import gate, parse_fail_on
from refcompare.metrics import TrialComparison
from refcompare.pipeline import Plan
from refcompare.results import RunResult
from refcompare.selection import Asked
from refcompare.suites import SuiteSet


def compare_refs(start: Path, options: Mapping[str, Any], out: TextIO) -> int:
    """Compare two refs and print what changed."""
    asked = Asked.of(options)
    with open_workbench(start, choice(options)) as workbench:
        sides = workbench.pair(options["base"], options["head"])
        plan = plan_of(workbench.config, options, audit=True)
        if options["dry_run"]:
            if asked.agents:
                from refcompare import evaluation

                command = workbench.config.eval_command
                out.write(evaluation.dry_run(evaluation.prepare(sides, options, plan.jobs, command)))
            if asked.execution:
                _print_dry_run(sides, plan, out)
            return 0
        fail_on = (
            workbench.config.fail_on if options["fail_on"] is None else parse_fail_on(options["fail_on"])
        )
        runs: tuple[RunResult, ...] = ()
        trials, interrupted = TrialComparison(), False
        has_tests = any(side.suites.tests or side.suites.invalid for side in sides)
        if asked.execution and (has_tests or not asked.agents):
            runs, interrupted = run_tests(workbench, sides, plan, options)
        if asked.agents and not interrupted:
            runs, trials, interrupted = run_agents(workbench, sides, plan, options, runs)
        comparison = replace(compare(*runs), trials=trials)
        result = gate(comparison, fail_on)
        write_comparison(options.get("output") or workbench.results_directory, comparison, result)
        print_comparison(options, comparison, result, out)
        return INTERRUPTED if interrupted else result.exit_code


def _print_dry_run(sides: tuple[Side, Side], plan: Plan, out: TextIO) -> None:
    """Say what would run on each arm."""
    for side in sides:
        suites: SuiteSet = side.suites
        out.write(f"{side.name}: {side.tree.ref.label}: {len(suites.tests)} tests")
        out.write(f", {len(suites.invalid)} invalid\n" if suites.invalid else "\n")
        for test in suites.tests:
            out.write(f"  {test.id}  {test.path}:{test.line}\n")
        for invalid in suites.invalid:
            out.write(f"  {invalid.id}  {invalid.path}:{invalid.line}  invalid: {invalid.reason}\n")
    out.write("audit: yes\n" if plan.audit else "audit: no\n")
    out.write(f"limit: {plan.limits.seconds:g} s a candidate, jobs: {plan.jobs}\n")
