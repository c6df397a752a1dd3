"""What ``refcompare check`` found, as annotations beside the lines of a pull request. Pure."""

from __future__ import annotations

from refcompare.github.outputs import command
from refcompare.report.findings import summary, unasked
from refcompare.rules import Checked


def render(checked: Checked, mended: int = 0) -> str:
    """Give a workflow command for each finding. GitHub shows ten of each level; the log has them all."""
    del mended  # the diff shows it
    lines = []
    for finding in checked.findings:
        owner = f"{finding.owner}: " if finding.owner else ""
        message = f"{owner}{finding.message}\n{finding.mend}" if finding.mend else f"{owner}{finding.message}"
        lines.append(
            command(finding.severity, message, file=finding.path, line=finding.line, title=finding.rule)
        )
    lines += [command("notice", f"Not checked: {sentence}.", title="check") for sentence in unasked(checked)]
    return "\n".join([*lines, summary(checked)]) + "\n"
