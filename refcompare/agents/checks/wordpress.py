"""The check that installs what the agent built into the WordPress that grades execution tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from refcompare.agents.checks.interface import CheckResult, Evidence
from refcompare.agents.workspace.capture import Bounds, listing, read_file
from refcompare.execution.definition import digest
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.results import ErrorKind, Record, Verdict

MOST_FILES = 20
LARGEST_FILE = 256 * 1024
LARGEST_PLUGIN = 1024 * 1024
"""The limits that a plugin has under an execution test."""

_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class WordPress:
    """The plugin in a folder of the result passes assertions, as those of an execution test are written.

    The score is the weighted share of the assertions that passed.
    """

    plugin: str
    assertions: tuple[Mapping[str, Any], ...]
    setup: str = ""
    teardown: str = ""
    seconds: float = 90.0

    @property
    def label(self) -> str:
        """``wordpress FOLDER``."""
        return f"wordpress {self.plugin}"

    def grade(self, evidence: Evidence) -> CheckResult:
        """Install the folder's files into a fresh site and run the assertions on it."""
        files = _collect(evidence, self.plugin.strip("/"))
        if isinstance(files, str):
            return CheckResult.of(False, files)
        candidate = Candidate(f"completion:{evidence.trajectory.agent}", files=files)
        return _judged(evidence.tools.wordpress(self.test(), candidate, Limits(seconds=self.seconds)))

    def test(self) -> ExecutionTest:
        """Give the execution test that the check comes to."""
        graded = {
            "assertions": [dict(item) for item in self.assertions],
            "setup": self.setup,
            "teardown": self.teardown,
        }
        return ExecutionTest(
            id=self.label,
            suite="agent",
            category="agent",
            path="",
            line=1,
            digest=digest(graded),
            artifact_kind="wp_plugin_files",
            setup=self.setup,
            assertions=self.assertions,
            teardown=self.teardown,
        )


def _collect(evidence: Evidence, folder: str) -> dict[str, str] | str:
    """Give the files of a plugin by their path in it, or a sentence that says why it cannot be installed."""
    prefix = "" if folder in ("", ".") else f"{folder}/"
    found = listing(evidence.workspace, Bounds())
    paths = [path for path in found.entries if path.startswith(prefix)]
    if not paths:
        return f"there is no plugin in {folder}"
    if len(paths) > MOST_FILES:
        return f"the plugin has {len(paths):,} files, {MOST_FILES} are allowed"
    files: dict[str, str] = {}
    total = 0
    for path in paths:
        name = path.removeprefix(prefix)
        if found.entries[path].type != "file":
            return f"{name} is a {found.entries[path].type}, and a plugin has only files"
        if not all(_SEGMENT.fullmatch(part) for part in name.split("/")):
            return f"{name} is a name that a plugin's file cannot have"
        data = read_file(evidence.workspace, path, LARGEST_FILE)
        if data is None or len(data) > LARGEST_FILE:
            return f"{name} cannot be read, or has more than {LARGEST_FILE:,} bytes"
        total += len(data)
        if total > LARGEST_PLUGIN:
            return f"the plugin has more than {LARGEST_PLUGIN:,} bytes"
        try:
            files[name] = data.decode("utf-8")
        except UnicodeDecodeError:
            return f"{name} is not UTF-8"
    return files


def _judged(record: Record) -> CheckResult:
    if record.error_kind is ErrorKind.INFRASTRUCTURE:
        return CheckResult.ungraded(record.message or "WordPress could not grade it")
    failure = record.first_failure
    said = record.message
    if failure is not None:
        said = f"{failure.description}: {failure.message or 'it did not hold'}"
    return CheckResult.of(record.verdict is Verdict.PASS, said or record.verdict.value, record.score or 0.0)
