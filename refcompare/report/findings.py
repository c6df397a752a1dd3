"""What ``refcompare check`` found, as text and as JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from refcompare.report.words import plural
from refcompare.rules import Checked
from refcompare.wording import printable

WHAT_IT_NEEDS: Mapping[str, str] = {
    "release": "WordPress is not in the cache: run `refcompare wordpress fetch`",
    "run": "it runs the tests: give --run",
}
"""Why a rule was not asked, by what it needs."""


def render(checked: Checked, mended: int = 0) -> str:
    """Give the findings for a reader: each with its place, what is so, the rule and what mends it."""
    lines = []
    for finding in checked.findings:
        place = f"{finding.path}:{finding.line}"
        owner = f"{printable(finding.owner)}: " if finding.owner else ""
        lines.append(f"{place}: {finding.severity}: {owner}{finding.message} [{finding.rule}]")
        if finding.mend:
            lines.append(f"    {finding.mend}{' (--fix does it)' if finding.fixable else ''}")
    if mended:
        lines.append(f"{plural(mended, 'finding')} mended.")
    lines.append(summary(checked))
    lines += [f"Not checked: {sentence}." for sentence in unasked(checked)]
    return "\n".join(lines) + "\n"


def summary(checked: Checked) -> str:
    """Count the findings, or say that there are none, in what was looked at."""
    looked = f"{plural(checked.tests, 'test')}, {plural(checked.evals, 'agent eval')}"
    if not checked.findings:
        return f"No findings in {looked}."
    errors = checked.errors
    warnings = len(checked.findings) - errors
    return f"{plural(errors, 'error')}, {plural(warnings, 'warning')} in {looked}."


def unasked(checked: Checked) -> list[str]:
    """Say which rules were not asked, and what they need."""
    needed: dict[str, list[str]] = {}
    for name, needs in checked.unasked:
        needed.setdefault(needs, []).append(name)
    return [f"{', '.join(names)} ({WHAT_IT_NEEDS[needs]})" for needs, names in needed.items()]


def render_json(checked: Checked, mended: int = 0) -> str:
    """Give the findings for a script."""
    shown = [
        {
            "path": finding.path,
            "line": finding.line,
            "rule": finding.rule,
            "severity": finding.severity,
            "test": finding.owner or None,
            "message": finding.message,
            "mend": finding.mend,
            "fixable": finding.fixable,
        }
        for finding in checked.findings
    ]
    value = {
        "findings": shown,
        "not_checked": [{"rule": name, "needs": needs} for name, needs in checked.unasked],
        "tests": checked.tests,
        "evals": checked.evals,
        "mended": mended,
    }
    return json.dumps(value, indent=2) + "\n"
