"""The check that runs a command on the result, confined like the agent and without network."""

from __future__ import annotations

from dataclasses import dataclass

from refcompare.agents.checks.interface import CheckResult, Evidence

_SHOWN = 500


@dataclass(frozen=True, slots=True)
class Command:
    """A shell command, run in the workspace as the agent left it, ends with this code and prints this text.

    What it changes there, later checks see.
    """

    run: str
    exit_code: int = 0
    output_contains: tuple[str, ...] = ()
    seconds: float = 60.0

    @property
    def label(self) -> str:
        """``command COMMAND``."""
        return f"command {self.run}"

    def grade(self, evidence: Evidence) -> CheckResult:
        """Run the command."""
        result = evidence.tools.command(self.run, self.seconds)
        if result.exit_code is None:
            return CheckResult.of(False, f"it did not end within {self.seconds:g} s")
        if result.exit_code != self.exit_code:
            said = result.output.strip()[-_SHOWN:]
            return CheckResult.of(False, f"it ended with {result.exit_code}: {said}".rstrip(": "))
        missing = [text for text in self.output_contains if text not in result.output]
        return CheckResult.of(not missing, f"its output lacks {', '.join(missing)}")
