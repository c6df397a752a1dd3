"""The checks that a trial is held to, one family a file; here they are made from their data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from refcompare.agents.checks.calls import Ran, SkillUsed, ToolCalled
from refcompare.agents.checks.changes import Changed, DiffContains, NotChanged
from refcompare.agents.checks.command import Command
from refcompare.agents.checks.execution import ExecutionTests
from refcompare.agents.checks.files import File
from refcompare.agents.checks.interface import Check
from refcompare.agents.checks.reads import LEAST_READ, MOST_READ, NotRead, Read
from refcompare.agents.checks.wordpress import WordPress


def make_check(kind: str, value: Any) -> Check:
    """Make a check of a kind from the value that its key has, which the schema of evals allows."""
    return _MAKERS[kind](value)


def _mapping(value: Any, key: str) -> Mapping[str, Any]:
    """Give the long form of a value: its short one is that of the key which the long one has to have."""
    return value if isinstance(value, dict) else {key: value}


def _texts(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _read(value: Any) -> Check:
    fields = _mapping(value, "path")
    return Read(fields["path"], float(fields.get("at-least", MOST_READ)))


def _not_read(value: Any) -> Check:
    fields = _mapping(value, "path")
    return NotRead(fields["path"], float(fields.get("at-most", LEAST_READ)))


def _tool_called(value: Any) -> Check:
    fields = _mapping(value, "tool")
    most = fields.get("at-most")
    least = fields.get("at-least", 0 if most == 0 else 1)
    return ToolCalled(fields["tool"], fields.get("input", ""), least, most)


def _ran(value: Any) -> Check:
    fields = _mapping(value, "command")
    return Ran(tuple(fields["command"].split()), fields.get("exit"))


def _diff_contains(value: Any) -> Check:
    fields = _mapping(value, "text")
    return DiffContains(_texts(fields["text"]), fields.get("path", "**"), fields.get("in", "added"))


def _file(value: Any) -> Check:
    fields = _mapping(value, "path")
    contains, lacks = _texts(fields.get("contains", ())), _texts(fields.get("lacks", ()))
    return File(fields["path"], contains, lacks, fields.get("exists", True))


def _command(value: Any) -> Check:
    fields = _mapping(value, "run")
    return Command(
        fields["run"],
        fields.get("exit", 0),
        _texts(fields.get("output-contains", ())),
        float(fields.get("seconds", 60)),
    )


def _wordpress(value: Any) -> Check:
    return WordPress(
        value["plugin"],
        tuple(value["assertions"]),
        value.get("setup", ""),
        value.get("teardown", ""),
        float(value.get("seconds", 90)),
    )


def _execution_tests(value: Any) -> Check:
    fields = _mapping(value, "path")
    return ExecutionTests(
        fields["path"],
        _texts(fields.get("ids", ())),
        _texts(fields.get("accepts", ())),
        _texts(fields.get("rejects", ())),
        float(fields.get("seconds", 30)),
    )


_MAKERS: Mapping[str, Callable[[Any], Check]] = {
    "skill-used": SkillUsed,
    "read": _read,
    "not-read": _not_read,
    "tool-called": _tool_called,
    "ran": _ran,
    "changed": lambda value: Changed(_texts(value)),
    "not-changed": lambda value: NotChanged(_texts(value)),
    "diff-contains": _diff_contains,
    "file": _file,
    "command": _command,
    "wordpress": _wordpress,
    "execution-tests": _execution_tests,
}

KINDS = tuple(_MAKERS)
"""Every kind of check, by its key in an eval."""
