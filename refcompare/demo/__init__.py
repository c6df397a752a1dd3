"""A small repository to compare: one suite in two states, with one of every change worth seeing.

``base`` and ``head`` hold the suite's files. From one to the other a reference breaks, one is
mended, a test loses the fixtures that kept a constant from passing, one is reworded, and three are
added: a good one, a plugin, and one that ``return true`` passes.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from refcompare.errors import EnvironmentFailure, UsageError

SUITE_DIRECTORY = "datasets/suites/demo/execution"
STATES = ("base", "head")

_STATES = Path(__file__).resolve().parent
_AUTHOR = "Demo Author <demo@example.org>"
_FIRST_COMMIT = 1_767_258_000  # seconds since the epoch: 2026-01-01 09:00 UTC
_DAY = 24 * 60 * 60
_MESSAGES = {
    "base": "Add a suite of execution tests",
    "head": "Revise the suite: three new tests, a mended reference, simpler fixtures",
}


def build_repository(destination: Path) -> tuple[str, str]:
    """Make the demo's repository at ``destination``, and give its two commits, as `build_from` does."""
    return build_from(destination, {state: state_files(state) for state in STATES}, _MESSAGES)


def build_from(
    destination: Path, files: Mapping[str, Mapping[str, bytes]], messages: Mapping[str, str]
) -> tuple[str, str]:
    """Make a git repository at ``destination``, a path that is free or an empty directory.

    ``files`` has the contents by path of each of the states, ``messages`` says what their commits do. Gives
    the commit ids of the tags ``base`` and ``head``. They are the same on every machine: the user's
    configuration, hooks, templates, attributes and signing keys take no part. The branch ``main`` is
    checked out at ``head``. Raises UsageError when something is in the way, EnvironmentFailure when git is
    missing or fails.
    """
    destination = destination.absolute()
    try:
        if destination.exists() and any(destination.iterdir()):
            raise UsageError(f"{destination} is not empty; name a new directory for the demo.")
        destination.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"The demo cannot be built at {destination} ({reason}); name another.") from None
    _git(destination, "init", "--quiet", "--template=", "--initial-branch=main", "--object-format=sha1")
    # An import takes bytes as they are: no index, no filters, no end-of-line conversion, no hooks.
    _git(destination, "fast-import", "--quiet", "--date-format=raw", stdin=b"".join(_stream(files, messages)))
    _git(destination, "reset", "--quiet", "--hard", "main")
    base, head = (_git(destination, "rev-parse", f"refs/tags/{state}").strip() for state in STATES)
    return base, head


def state_files(state: str) -> dict[str, bytes]:
    """Give a state's suite files by their path in the repository. ``state`` is ``base`` or ``head``."""
    files = sorted((_STATES / state).glob("*.json"))
    return {f"{SUITE_DIRECTORY}/{file.name}": file.read_bytes() for file in files}


def _stream(files: Mapping[str, Mapping[str, bytes]], messages: Mapping[str, str]) -> Iterator[bytes]:
    """Give the input of ``git fast-import`` for both commits and their tags."""
    for index, state in enumerate(STATES):
        message = messages[state].encode()
        yield b"commit refs/heads/main\n"
        yield f"committer {_AUTHOR} {_FIRST_COMMIT + index * _DAY} +0000\n".encode()
        yield b"data %d\n%s\n" % (len(message), message)
        yield b"deleteall\n"
        for path, contents in files[state].items():
            yield f"M 100644 inline {path}\n".encode()
            yield b"data %d\n%s\n" % (len(contents), contents)
        yield f"reset refs/tags/{state}\nfrom refs/heads/main\n\n".encode()


def _git(directory: Path, *arguments: str, stdin: bytes = b"") -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CEILING_DIRECTORIES": str(directory.parent),
        "HOME": str(directory / ".git"),  # git looks for ignore and attribute files in both
        "XDG_CONFIG_HOME": str(directory / ".git"),
        "LC_ALL": "C",
    }
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments],
            input=stdin,
            capture_output=True,
            env=environment,
            check=True,
            timeout=60,
        )
    except FileNotFoundError:
        raise EnvironmentFailure("git is not installed; install it and run the demo again.") from None
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = (error.stderr or b"").decode("utf-8", "replace").strip() or str(error)
        raise EnvironmentFailure(f"git {arguments[0]} failed while building the demo: {said}") from None
    return done.stdout.decode("ascii")
