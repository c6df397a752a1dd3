"""Checks of one file of the result."""

from __future__ import annotations

from dataclasses import dataclass

from refcompare.agents.checks.interface import CheckResult, Evidence
from refcompare.agents.workspace.capture import read_file

_LARGEST = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class File:
    """The result has a file with, and without, these texts as they stand; or it has no such file.

    The score is the share of what is asked that holds. A link is not a file.
    """

    path: str
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    exists: bool = True

    @property
    def label(self) -> str:
        """``file PATH``."""
        return f"file {self.path}" if self.exists else f"no file {self.path}"

    def grade(self, evidence: Evidence) -> CheckResult:
        """Read the file as it is after the run."""
        data = read_file(evidence.workspace, self.path, _LARGEST)
        if data is None:
            return CheckResult.of(not self.exists, "there is no such file")
        if not self.exists:
            return CheckResult.of(False, "there is such a file")
        if len(data) > _LARGEST:
            return CheckResult.of(False, f"it has more than {_LARGEST:,} bytes")
        text = data.decode("utf-8", "replace")
        faults = [f"lacks {wanted}" for wanted in self.contains if wanted not in text]
        faults += [f"holds {unwanted}" for unwanted in self.lacks if unwanted in text]
        asked = 1 + len(self.contains) + len(self.lacks)
        return CheckResult.of(not faults, f"it {'; it '.join(faults)}", 1 - len(faults) / asked)
