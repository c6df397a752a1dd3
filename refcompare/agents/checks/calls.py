"""Checks of what the agent called: a skill, a tool, a command."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from refcompare.agents.checks.interface import ArmFiles, CheckResult, Evidence
from refcompare.agents.checks.shell import commands, shell_line
from refcompare.agents.programs.trajectory import Call
from refcompare.globs import text_matches

SKILL_FOLDERS = (".agents/skills", ".claude/skills", ".codex/skills")
"""Where the agents look for skills in a workspace."""


@dataclass(frozen=True, slots=True)
class SkillUsed:
    """The agent used a skill of this name."""

    skill: str

    @property
    def label(self) -> str:
        """``skill-used NAME``."""
        return f"skill-used {self.skill}"

    def grade(self, evidence: Evidence) -> CheckResult:
        """Look for the skill among those used; an arm without such a skill says nothing."""
        if self.skill in evidence.trajectory.skills:
            return CheckResult.of(True)
        if not _has_skill(evidence.arm, self.skill):
            return CheckResult.missing(f"there is no skill {self.skill} on this arm")
        used = ", ".join(evidence.trajectory.skills) or "none"
        return CheckResult.of(False, f"skills used: {used}")


def _has_skill(arm: ArmFiles, skill: str) -> bool:
    return any(arm.read(f"{folder}/{skill}/SKILL.md") is not None for folder in SKILL_FOLDERS)


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """The agent called a tool so many times. ``*`` in ``tool`` stands for any characters.

    Calls count whose input, as JSON, holds ``text``.
    """

    tool: str
    text: str = ""
    at_least: int = 1
    at_most: int | None = None

    @property
    def label(self) -> str:
        """``tool-called NAME``."""
        return f"tool-called {self.tool}"

    def grade(self, evidence: Evidence) -> CheckResult:
        """Count the calls, failed ones included."""
        count = sum(
            text_matches(self.tool, call.name) and self.text in _input_text(call)
            for call in evidence.trajectory.calls
        )
        passed = self.at_least <= count and (self.at_most is None or count <= self.at_most)
        wanted = f"at least {self.at_least}" if count < self.at_least else f"at most {self.at_most}"
        return CheckResult.of(passed, f"called {count} times, {wanted} wanted")


def _input_text(call: Call) -> str:
    return call.input if isinstance(call.input, str) else json.dumps(call.input, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Ran:
    """The agent ran a command that starts with these words, ``*`` standing for any one word.

    With an ``exit_code``, one of the lines in which it ran ended so.
    """

    words: tuple[str, ...]
    exit_code: int | None = None

    @property
    def label(self) -> str:
        """``ran COMMAND``."""
        return f"ran {' '.join(self.words)}"

    def grade(self, evidence: Evidence) -> CheckResult:
        """Look through the commands of every call that went to a shell; to mention one is not to run it."""
        calls = [call for call in evidence.trajectory.calls if self._runs_in(call)]
        if not calls:
            return CheckResult.of(False, "it did not run")
        if self.exit_code is None:
            return CheckResult.of(True)
        known = [code for call in calls if (code := _exit_code(call)) is not None]
        if not known:
            return CheckResult.ungraded("it ran, and its exit code is not known")
        said = ", ".join(map(str, known))
        return CheckResult.of(self.exit_code in known, f"it ended with {said}, not with {self.exit_code}")

    def _runs_in(self, call: Call) -> bool:
        line = shell_line(call)
        return line is not None and any(map(self._is, commands(line)))

    def _is(self, command: tuple[str, ...]) -> bool:
        return len(command) >= len(self.words) and all(
            text_matches(wanted, word) for wanted, word in zip(self.words, command, strict=False)
        )


def _exit_code(call: Call) -> int | None:
    """A call that is no error and says no more ended with 0."""
    return 0 if call.exit_code is None and not call.is_error else call.exit_code


# Programs that say where something is, and tools that do; what they print of a file is not a read.
_SEARCH_PROGRAMS = frozenset(
    {"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "ls", "find", "fd", "tree", "wc", "stat", "file"}
)
_NEUTRAL_PROGRAMS = frozenset({"cd", "pwd", "echo", "true", "set", "export", "sort", "uniq", "xargs"})
_SEARCH_TOOLS = frozenset({"grep", "glob", "ls", "search", "find", "list_dir", "grep_files", "list_files"})


def is_search(call: Call) -> bool:
    """Say whether a call only searched or listed, by its tool or by all the programs of its line."""
    if call.name.lower() in _SEARCH_TOOLS:
        return True
    line = shell_line(call)
    return line is not None and _only_searches(commands(line))


def _only_searches(found: Iterable[tuple[str, ...]]) -> bool:
    programs = {"git grep" if words[:2] == ("git", "grep") else words[0] for words in found}
    searching = programs & {*_SEARCH_PROGRAMS, "git grep"}
    return bool(searching) and programs <= {*_SEARCH_PROGRAMS, *_NEUTRAL_PROGRAMS, "git grep"}
