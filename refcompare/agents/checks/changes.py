"""Checks of what the agent changed: paths, and what the diff holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from refcompare.agents.checks.interface import CheckResult, Evidence
from refcompare.agents.workspace.capture import FileChange
from refcompare.globs import covers

Side = Literal["added", "removed"]

_NAMED = 5


@dataclass(frozen=True, slots=True)
class Changed:
    """The agent changed a path of each glob. The score is the share of the globs."""

    globs: tuple[str, ...]

    @property
    def label(self) -> str:
        """``changed GLOBS``."""
        return f"changed {' '.join(self.globs)}"

    def grade(self, evidence: Evidence) -> CheckResult:
        """Look for each glob among the changed paths."""
        paths = [change.path for change in evidence.change.files]
        missing = [glob for glob in self.globs if not any(covers(glob, path) for path in paths)]
        score = 1 - len(missing) / len(self.globs)
        return CheckResult.of(not missing, f"unchanged: {_some(missing)}", score)


@dataclass(frozen=True, slots=True)
class NotChanged:
    """The agent changed no path of any of the globs."""

    globs: tuple[str, ...]

    @property
    def label(self) -> str:
        """``not-changed GLOBS``."""
        return f"not-changed {' '.join(self.globs)}"

    def grade(self, evidence: Evidence) -> CheckResult:
        """Look for the globs among the changed paths."""
        found = [
            change.path
            for change in evidence.change.files
            if any(covers(glob, change.path) for glob in self.globs)
        ]
        if not found and evidence.change.omitted:
            return CheckResult.of(False, "more files changed than are listed")
        return CheckResult.of(not found, f"changed: {_some(found)}")


@dataclass(frozen=True, slots=True)
class DiffContains:
    """The lines that the agent added, or removed, hold each of these texts as it stands.

    The score is the share of the texts. Only files of ``path`` count, a glob.
    """

    texts: tuple[str, ...]
    path: str = "**"
    side: Side = "added"

    @property
    def label(self) -> str:
        """``diff-contains TEXT``."""
        return f"diff-contains {' '.join(self.texts)}"

    def grade(self, evidence: Evidence) -> CheckResult:
        """Look for the texts in each file's lines."""
        sign = "+" if self.side == "added" else "-"
        bodies = [
            "\n".join(_lines(change, sign))
            for change in evidence.change.files
            if covers(self.path, change.path)
        ]
        missing = [text for text in self.texts if not any(text in body for body in bodies)]
        score = 1 - len(missing) / len(self.texts)
        return CheckResult.of(not missing, f"not {self.side}: {_some(missing)}", score)


def _lines(change: FileChange, sign: str) -> Iterator[str]:
    """Give a file's added or removed lines, without their signs."""
    _, hunk, body = change.diff.partition("\n@@ ")
    if hunk:
        yield from (line[1:] for line in body.split("\n") if line.startswith(sign))


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    rest = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + rest
