"""Which files' contents a call brought back, for agents that read with a shell."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from refcompare.agents.checks.shell import commands
from refcompare.agents.programs.trajectory import Call, FileRead
from refcompare.agents.sandbox.boundary import WORKSPACE

# Programs that print what is in the files that they are given, and those of their options that take a
# value as the next word.
_READERS = {
    "cat": "", "tac": "", "nl": "bdfhilnsvw", "head": "nc", "tail": "ncs", "sed": "efl", "awk": "fvF",
    "less": "", "more": "", "bat": "", "batcat": "", "fold": "w", "jq": "",
}  # fmt: skip
_SCRIPT_FIRST = ("sed", "awk", "jq")
_QUIET = frozenset({"cd", "pwd", "echo", "printf", "true", "set", "export", "test", "[", "for", "exit"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash"})
_GLOB = re.compile(r"[*?\[]")
_NUMBERED = re.compile(r"^ *\d+[\t→]", re.MULTILINE)
_SKILL = re.compile(r"(?:^|/)\.(?:agents|claude|codex)/skills/([^/]+)/SKILL\.md$")
_MATCHES = 50


def relative_path(path: str, directory: str = WORKSPACE) -> str | None:
    """Give a path relative to the workspace, as seen from ``directory`` inside; None outside of it."""
    whole = posixpath.normpath(posixpath.join(directory, path))
    if whole == WORKSPACE:
        return "."
    return whole.removeprefix(f"{WORKSPACE}/") if whole.startswith(f"{WORKSPACE}/") else None


def without_numbers(text: str) -> str:
    """Take off the line numbers with which a tool shows a file."""
    return _NUMBERED.sub("", text)


def shell_reads(
    command: str, output: str, call: int, workspace: Path, directory: str = WORKSPACE
) -> tuple[FileRead, ...]:
    """Give the files of the workspace that a shell command printed, each with all that came back.

    A command line in which something else may have printed too gives none: then nobody knows whose text
    came back. ``workspace`` is the host's, in which patterns are looked up; ``directory`` is where the
    command ran, inside.
    """
    programs = {words[0] for words in commands(command)}
    if not programs <= {*_READERS, *_QUIET, *_SHELLS}:
        return ()
    paths = dict.fromkeys(_printed(command, workspace, directory))
    return tuple(FileRead(path, output, call) for path in paths)


def skills_read(calls: Sequence[Call], lines: Sequence[str | None], reads: Sequence[FileRead]) -> list[str]:
    """Give the skills whose own file some call brought back, in the order of the calls.

    ``lines`` has for each call the line that it gave to a shell, None where it gave none.
    """
    found: list[tuple[int, str]] = []
    for read in reads:
        found.append((read.call, read.path))
    for index, line in enumerate(lines):
        if line is not None and calls[index].output.strip():
            found += [(index, path) for path in _printed(line, None, WORKSPACE)]
    skills = []
    for index, path in sorted(found):
        skill = _SKILL.search(path)
        failed = calls[index].is_error or calls[index].exit_code not in (0, None)
        if skill and not failed and calls[index].output.strip():
            skills.append(skill[1])
    return skills


def _printed(line: str, workspace: Path | None, directory: str) -> Iterator[str]:
    """Give the paths, relative to the workspace, of the files that the programs of a line print."""
    for program, *given in commands(line):
        if program == "cd" and given:
            directory = posixpath.normpath(posixpath.join(directory, given[-1]))
        elif program in _READERS:
            for path in _files_of(program, given):
                yield from _known(path, workspace, directory)


def _files_of(program: str, given: Sequence[str]) -> list[str]:
    """Give the words after a program that name files."""
    files, script_given, skip = [], program not in _SCRIPT_FIRST, False
    for word in given:
        if skip:
            skip = False
        elif word.startswith("-") and len(word) > 1:
            if word.startswith("--"):
                continue
            script_given |= program in _SCRIPT_FIRST and word[-1] in "ef"
            skip = word[-1] in _READERS[program]
        elif not script_given:
            script_given = True
        elif word != "-":
            files.append(word)
    return files


def _known(path: str, workspace: Path | None, directory: str) -> Iterator[str]:
    """Give a path, or those that a pattern matches, relative to the workspace."""
    if path.startswith("~") or "$" in path or "\0" in path:
        return
    found = relative_path(path, directory)
    if found is None:
        return
    if workspace is None or not _GLOB.search(found):
        yield found
    elif "**" not in found and len(_GLOB.findall(found)) <= 4:
        try:
            for match in islice(workspace.glob(found), _MATCHES):
                yield match.relative_to(workspace).as_posix()
        except (OSError, ValueError):
            return
