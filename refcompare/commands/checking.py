"""``refcompare check``: validates suites without running them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TextIO

from refcompare import check as checking
from refcompare.arms import Choice, open_workbench
from refcompare.report.words import plural


def check_ref(
    start: Path, ref: str | None, suites: tuple[str, ...], config: Path | None, as_json: bool, out: TextIO
) -> int:
    """Validate the suites of a ref; the status is 1 where a finding is an error."""
    with open_workbench(start, Choice(config=config, suites=suites)) as workbench:
        tree = workbench.tree(ref)
        findings = checking.check_suites(tree, workbench.globs)
    if as_json:
        shown = [
            {
                "path": finding.path,
                "line": finding.line,
                "rule": finding.rule,
                "severity": finding.severity,
                "message": finding.message,
                "mend": finding.mend,
            }
            for finding in findings
        ]
        out.write(json.dumps({"findings": shown}, indent=2) + "\n")
    else:
        for finding in findings:
            where = f"{finding.path}:{finding.line}"
            out.write(f"{where}: {finding.severity}: {finding.message} [{finding.rule}]\n")
            if finding.mend:
                out.write(f"    {finding.mend}\n")
        errors = sum(finding.severity == "error" for finding in findings)
        warnings = len(findings) - errors
        counted = f"{plural(errors, 'error')}, {plural(warnings, 'warning')}"
        out.write(f"{counted}\n" if findings else "No findings.\n")
    return 1 if any(finding.severity == "error" for finding in findings) else 0
