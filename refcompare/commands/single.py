"""``refcompare run`` and ``refcompare audit``: what is so on one ref."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from refcompare.arms import open_workbench
from refcompare.commands.printing import render_options
from refcompare.commands.running import (
    INTERRUPTED,
    choice,
    plan_of,
    run_tests,
)
from refcompare.compare import sides
from refcompare.report import arm as arm_report
from refcompare.report import json as json_report
from refcompare.results import REFERENCE, ErrorKind, RunResult, Verdict


def run_ref(start: Path, options: Mapping[str, Any], out: TextIO) -> int:
    """Grade the references of one ref; the status is 1 where one does not pass."""
    with open_workbench(start, choice(options)) as workbench:
        side = workbench.single(options["ref"])
        plan = replace(plan_of(workbench.config, options, audit=False), audit=False)
        [run], interrupted = run_tests(workbench, (side,), plan, options)
        if options["form"] == "json":
            out.write(json_report.render_run(run))
        elif options["form"] == "markdown":
            out.write(arm_report.render_run_markdown(run))
        else:
            out.write(arm_report.render_run(run, render_options(out)))
        return INTERRUPTED if interrupted else _run_status(run)


def audit_ref(start: Path, options: Mapping[str, Any], out: TextIO) -> int:
    """Try to cheat every test of one ref; the status is 1 where a cheat passes, 3 where nothing could."""
    with open_workbench(start, choice(options)) as workbench:
        side = workbench.single(options["ref"])
        plan = replace(plan_of(workbench.config, options, audit=True), audit=True)
        [run], interrupted = run_tests(workbench, (side,), plan, options)
        if options["form"] == "json":
            out.write(json_report.render_audit(run))
        else:
            out.write(arm_report.render_audit(run, render_options(out)))
        if interrupted:
            return INTERRUPTED
        if any(audit.exploitable for audit in run.audits):
            return 1
        # Where not even a reference passes (a limit that is too tight, a site that is broken), that no
        # cheat does either is no good news.
        proven = any(side.passing for side in sides(run).values())
        return _environment_status(run) if proven or not run.audits else 3


def _run_status(run: RunResult) -> int:
    """Give 1 where a reference does not pass, 3 where nothing could be graded."""
    failed = any(
        record.candidate == REFERENCE and record.verdict is not Verdict.PASS for record in run.records
    )
    return _environment_status(run) or int(failed)


def _environment_status(run: RunResult) -> int:
    ungraded = [record for record in run.records if record.error_kind is ErrorKind.INFRASTRUCTURE]
    return 3 if ungraded and len(ungraded) == len(run.records) else 0
