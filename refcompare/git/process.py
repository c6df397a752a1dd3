"""Runs git, through GitPython, so that it only reads.

Whatever in a repository names a program to run is switched off, locks and lazy fetches are refused, and
replacement objects are ignored, so that a tree is exactly what its SHA says. Git is never asked to compare
a file on disk with the index, since that runs the repository's clean filters: see `WorktreeTree`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

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
_NO_GIT = "git was not found on PATH: install it, for example with `apt-get install git`, and retry."
# Bytes of a command's standard error that are kept.
_LONGEST_COMPLAINT = 64 * 1024
LONGEST_SECONDS = 600
"""How long one command may take, not counting those that are talked to."""


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


class Running:
    """A command to talk to, or whose output is read as it comes. It is ended with its last reference."""

    def __init__(self, process: Git.AutoInterrupt) -> None:
        self._process = process  # GitPython ends it, waits for it and closes its pipes as this goes
        self.stdin: BinaryIO = process.stdin
        self.stdout: BinaryIO = process.stdout
        self._said = bytearray()
        # The thread has a descriptor of its own, and no reference that would keep the command alive.
        stderr = os.dup(process.stderr.fileno())
        self._listener = threading.Thread(target=_listen, args=(stderr, self._said), daemon=True)
        self._listener.start()

    def wait(self) -> Result:
        """Wait for the end of a command whose output was read."""
        self._listener.join()
        assert self._process.proc is not None
        return Result(self._process.proc.wait(), b"", decoded(bytes(self._said)))


def _listen(stderr: int, said: bytearray) -> None:
    """Empty a command's standard error, without which it would wait for ever, and keep the beginning."""
    with open(stderr, "rb", buffering=0) as stream:
        while part := stream.read(_LONGEST_COMPLAINT):
            said += part[: _LONGEST_COMPLAINT - len(said)]


class GitCommands:
    """Git commands that read, run in one directory."""

    def __init__(self, directory: Path) -> None:
        try:
            # Importing GitPython looks for git and fails without it; only those who need git should notice.
            from git import Git
        except ImportError as error:
            raise EnvironmentFailure(_NO_GIT) from error
        self._git: Git = Git()
        # Told so by -C, git fails where it may not enter; GitPython would run it where Python stands.
        self._directory = str(directory.absolute())
        self._git.update_environment(**_ENVIRONMENT)

    def pin(self, **variables: str) -> None:
        """Set environment variables for every later command."""
        self._git.update_environment(**variables)

    def run(self, *words: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None) -> Result:
        """Run one command to its end, whatever its status. Raises EnvironmentFailure if it has none."""
        process = self._start(words, istream=-1 if stdin else None, env=environment)
        try:
            stdout, stderr = process.communicate(stdin or None, timeout=LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise EnvironmentFailure(
                f"`git {words[0]}` did not end within {LONGEST_SECONDS} seconds: see whether the disk answers"
                " and whether a pipe lies where git reads a file, such as .gitattributes or .gitignore."
            ) from None
        return Result(process.returncode, stdout, decoded(stderr))

    def start(self, *words: str) -> Running:
        """Start a command to talk to. A Ctrl-C on the terminal is not for it."""
        return Running(self._start(words, istream=-1, start_new_session=True))

    def _start(self, words: Iterable[str], **options: Any) -> Git.AutoInterrupt:
        from git.exc import GitCommandNotFound

        argv = [str(self._git.GIT_PYTHON_GIT_EXECUTABLE), "-C", self._directory, *_OPTIONS, *words]
        try:
            process: Git.AutoInterrupt = self._git.execute(argv, as_process=True, **options)
        except GitCommandNotFound as error:
            raise EnvironmentFailure(_NO_GIT) from error
        except OSError as error:
            raise EnvironmentFailure(f"git could not be run: {error}.") from error
        return process

    def read(self, *words: str, stdin: bytes = b"") -> bytes:
        """Run one command that has to succeed, and give its output."""
        return self._succeed(words[0], self.run(*words, stdin=stdin))

    def read_at_most(self, limit: int, *words: str) -> bytes | None:
        """Run one command that has to succeed, and give its output; None if that is over ``limit`` bytes."""
        running = self.start(*words)
        output = running.stdout.read(limit + 1)
        if len(output) > limit:
            return None
        self._succeed(words[0], running.wait())
        return output

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
        try:
            scratch = tempfile.TemporaryDirectory(prefix="refcompare-", ignore_cleanup_errors=True)
        except OSError as error:
            raise EnvironmentFailure(
                f"No temporary directory can be made ({error}): make room, or set TMPDIR to another one."
            ) from error
        with scratch as place:
            environment = {
                "GIT_OBJECT_DIRECTORY": place,
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{objects}"'
                + (f"{os.pathsep}{others}" if others else ""),
            }
            return self._succeed(words[0], self.run(*words, stdin=stdin, environment=environment))

    def path(self, name: str) -> str:
        """Give the path of one of the repository's own files, absolute or from the working tree's root."""
        return decoded(self.read("rev-parse", "--git-path", name).removesuffix(b"\n"))

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
        names = r"^(remote\..*\.promisor|extensions\.partialclone)$"
        partial = self.run("config", "-z", "--get-regexp", names)
        if partial.status and "promisor" not in stderr:
            return " Run `git fsck` to see what is wrong with this repository."
        key, _, value = decoded(partial.stdout).split("\0")[0].partition("\n")
        remote = (
            value if key == "extensions.partialclone" else key.removeprefix("remote.")[: -len(".promisor")]
        )
        command = f"git fetch --refetch --no-filter {shlex.quote(remote or 'origin')}"
        return (
            " This is a partial clone, and refcompare fetches nothing by itself: run"
            f" `{printable(command)}` and try again."
        )
