"""Runs git, through GitPython, so that it only reads.

Whatever in a repository names a program to run is switched off, locks and lazy fetches are refused, and
replacement objects are ignored, so that a tree is exactly what its SHA says. Git is never asked to compare
a file on disk with the index, since that runs the repository's clean filters: see `WorktreeTree`.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from refcompare.errors import EnvironmentFailure
from refcompare.git.names import decoded
from refcompare.wording import printable

if TYPE_CHECKING:
    from git import Git

_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # The second refuses every transport, for a git that is too old to know the first.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_LITERAL_PATHSPECS": "1",
}
_OPTIONS = (
    "--no-pager",
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.warnAmbiguousRefs=true"),
)


class Result(NamedTuple):
    """How one command ended."""

    status: int
    stdout: bytes
    stderr: str

    @property
    def line(self) -> str:
        """Standard output as one line of text."""
        return decoded(self.stdout.removesuffix(b"\n"))

    @property
    def complaint(self) -> str:
        """The first line with which git said why it failed."""
        lines = [line for line in self.stderr.splitlines() if line.startswith(("fatal: ", "error: "))]
        return printable(lines[0].partition(": ")[2]) if lines else f"exit status {self.status}"


class GitCommands:
    """Git commands that read, run in one directory."""

    def __init__(self, directory: Path) -> None:
        try:
            # Importing GitPython looks for git and fails without it; only those who need git should notice.
            from git import Git
        except ImportError as error:
            raise EnvironmentFailure(
                "git was not found on PATH: install it, for example with `apt-get install git`, and retry."
            ) from error
        self._git: Git = Git(directory)
        self._git.update_environment(**_ENVIRONMENT)

    def pin(self, **variables: str) -> None:
        """Set environment variables for every later command."""
        self._git.update_environment(**variables)

    def run(self, *words: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None) -> Result:
        """Run one command to its end, whatever its status."""
        from git.exc import GitCommandNotFound

        try:
            with tempfile.TemporaryFile() if stdin else nullcontext() as feed:
                if feed:
                    feed.write(stdin)
                    feed.seek(0)
                result = self._git.execute(
                    self._argv(words),
                    env=environment,
                    istream=cast("BinaryIO | None", feed),
                    with_extended_output=True,
                    with_exceptions=False,
                    stdout_as_string=False,
                    strip_newline_in_stdout=False,
                )
        except (GitCommandNotFound, OSError) as error:
            raise EnvironmentFailure(f"git could not be run ({error}): install it and try again.") from error
        return Result(*result)

    def read(self, *words: str, stdin: bytes = b"") -> bytes:
        """Run one command that has to succeed, and give its output."""
        return self._succeed(words[0], self.run(*words, stdin=stdin))

    def _succeed(self, command: str, result: Result) -> bytes:
        if result.status:
            what = f"`git {command}` failed: {result.complaint}."
            raise EnvironmentFailure(what + self.advice(result.stderr))
        return result.stdout

    def read_index(self, *words: str, stdin: bytes = b"") -> bytes:
        """Run one command that reads the index and has to succeed, and give its output.

        To read a sparse index git expands it, for which it writes tree objects: they go to a scratch place.
        """
        objects = self.path("objects").replace("\\", r"\\").replace('"', r"\"")
        others = os.environ.get("GIT_ALTERNATE_OBJECT_DIRECTORIES")
        with tempfile.TemporaryDirectory(prefix="refcompare-") as scratch:
            environment = {
                "GIT_OBJECT_DIRECTORY": scratch,
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{objects}"'
                + (f"{os.pathsep}{others}" if others else ""),
            }
            return self._succeed(words[0], self.run(*words, stdin=stdin, environment=environment))

    def path(self, name: str) -> str:
        """Give the path of one of the repository's own files, absolute or from the working tree's root."""
        return decoded(self.read("rev-parse", "--git-path", name).removesuffix(b"\n"))

    def start(self, *words: str) -> Git.AutoInterrupt:
        """Start a command to talk to. A Ctrl-C on the terminal is not for it."""
        return self._git.execute(self._argv(words), istream=-1, as_process=True, start_new_session=True)

    def _argv(self, words: Iterable[str]) -> list[str]:
        return [str(self._git.GIT_PYTHON_GIT_EXECUTABLE), *_OPTIONS, *words]

    def config(self, name: str) -> str | None:
        """Give one configuration value, the last one set."""
        result = self.run("config", "-z", "--get", name)
        return None if result.status else decoded(result.stdout.removesuffix(b"\0"))

    def flag(self, name: str, default: bool) -> bool:
        """Give one configuration value that is yes or no."""
        result = self.run("config", "--type=bool", "--get", name)
        return default if result.status else result.line == "true"

    def remotes(self) -> list[str]:
        """Give the names of the remotes, ``origin`` first."""
        names = decoded(self.read("remote")).split("\n")[:-1]
        return sorted(names, key=lambda name: name != "origin")

    def advice(self, stderr: str = "") -> str:
        """Say what to do about an object that is not here, if the clone is one that leaves objects out."""
        partial = self.run("config", "--get-regexp", r"^(remote\..*\.promisor|extensions\.partialclone)$")
        if partial.status and "promisor" not in stderr:
            return " Run `git fsck` to see what is wrong with this repository."
        remote = next(iter(self.remotes()), "origin")
        return (
            " This is a partial clone, and refcompare fetches nothing by itself: run"
            f" `git fetch --refetch --no-filter {shlex.quote(remote)}` and try again."
        )
