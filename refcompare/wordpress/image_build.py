"""One build of an image: its context put together, its progress told, its failures named."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePosixPath
from typing import IO

from refcompare.errors import EnvironmentFailure
from refcompare.wordpress.engine import UNFINISHED, EngineRefused, docker, docker_command, failure_of, is_full

Progress = Callable[[str], None]

_TIME = 1_000_000_000
"""Not 0, which code that asks for a file's time takes for a failure."""

_BUILD_SECONDS = 30 * 60
_NO_NETWORK = re.compile(
    r"Temporary failure resolving|Could not resolve|Could not connect to|Unable to connect to"
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NO_BASE = re.compile(r"pull access denied|manifest unknown|failed to resolve source metadata|/v2/")


@contextmanager
def packed(files: Iterable[tuple[str, Path | IO[bytes] | None]]) -> Iterator[IO[bytes]]:
    """Give a tar of names and their content, None standing for a directory that may be empty.

    Everything in it is root's and of the same time. It lies in a file without a name, so that
    nothing of it stays whatever happens.
    """
    directories: set[str] = set()
    with tempfile.TemporaryFile() as spool:
        with tarfile.open(fileobj=spool, mode="w") as archive:
            for name, source in files:
                parents = [str(parent) for parent in reversed(PurePosixPath(name).parents[:-1])]
                for directory in [*parents, *([name] if source is None else [])]:
                    if directory not in directories:
                        directories.add(directory)
                        entry = _entry(directory, tarfile.DIRTYPE, 0o755)
                        archive.addfile(entry)
                if source is not None:
                    _add_file(archive, name, source)
        spool.seek(0)
        yield spool


def _add_file(archive: tarfile.TarFile, name: str, source: Path | IO[bytes]) -> None:
    entry = _entry(name, tarfile.REGTYPE, 0o644)
    with source.open("rb") if isinstance(source, Path) else nullcontext(source) as content:
        entry.size = content.seek(0, os.SEEK_END)
        content.seek(0)
        archive.addfile(entry, content)


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.mtime = kind, mode, _TIME
    return entry


def build(tag: str, arguments: Sequence[str], files: IO[bytes], say: Progress) -> None:
    """Build an image from a context and name it ``tag``.

    A build that cannot reach the package servers is tried again on the host's network. Raises
    EnvironmentFailure, with what the builder said, when the image cannot be built.
    """
    try:
        _run_build(tag, arguments, files, say)
    except _NoNetwork:
        say("The packages could not be reached; trying again on the network of the engine's machine")
        files.seek(0)
        try:
            _run_build(tag, ["--network", "host", *arguments], files, say)
        except _NoNetwork as failure:
            raise EnvironmentFailure(
                f"The distribution's packages could not be reached while the image was built: {failure}"
            ) from failure


class Disturbed(EnvironmentFailure):
    """What a build stood on was removed under it, by a refcompare of another cache that tidied up."""


class _NoNetwork(Exception):
    """A build failed because no package could be fetched."""


def _run_build(tag: str, arguments: Sequence[str], files: IO[bytes], say: Progress) -> None:
    command = [docker_command(), "build", "--tag", tag, "--force-rm", *arguments, "-"]
    environment = {**os.environ, "BUILDKIT_PROGRESS": "plain", "DOCKER_CLI_HINTS": "false"}
    # An image of another builder's would have to be loaded, and could not be built upon.
    environment["BUILDX_BUILDER"] = _own_builder()
    process = subprocess.Popen(
        command, stdin=files, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    )
    stopper = threading.Timer(_BUILD_SECONDS, process.kill)
    stopper.start()
    last: deque[str] = deque(maxlen=60)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            text = _COLOUR.sub("", line.decode("utf-8", "replace")).strip()
            last.append(text[:500])
            if step := _step(text):
                say(step)
        status = process.wait()
    finally:
        stopper.cancel()
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    if status != 0:
        raise _build_failure(list(last), status)


def _own_builder() -> str:
    """Give the name of the builder that belongs to the engine in use; the first builder ignores it."""
    try:
        return docker("context", "show")
    except EngineRefused:
        return "default"


def _step(line: str) -> str | None:
    """Give a sentence for a line of the builder's that a person waits by; None for any other."""
    if re.match(r"(#\d+ [\d.]+ )?Get:1 ", line):
        return "Fetching packages"
    if re.match(r"(#\d+ [\d.]+ )?Setting up php[\d.]*-cli ", line):
        return "Setting up PHP"
    return None


def _build_failure(lines: Sequence[str], status: int) -> Exception:
    """Give the exception for a build that ended with ``status`` after saying ``lines``."""
    text = "\n".join(lines)
    own = re.findall(r"^(?:#\d+ [\d.]+ )?refcompare: (.+)$", text, re.MULTILINE)
    if own:
        return EnvironmentFailure(f"The worker image cannot be built: {own[-1]}; choose another base image.")
    if re.search(
        r"Temporary failure resolving|Could not connect to|Unable to connect to|Could not resolve", text
    ):
        return _NoNetwork(next(line for line in reversed(lines) if line))
    if re.search(rf"unknown parent image|No such image: sha256|{UNFINISHED}:.*(not found|denied)", text):
        return Disturbed(f"The layers of the worker image were removed while it was built: {lines[-1][:500]}")
    if _NO_BASE.search(text):
        return EnvironmentFailure(
            "The base image is not in the engine and cannot be pulled: name one that is there, or load one "
            f"with `docker load` or `docker import`. The engine said: {lines[-1][:500]}"
        )
    failure = failure_of("docker build", text)
    if is_full(text) or not isinstance(failure, EngineRefused):
        return failure
    # The last line repeats the whole instruction that failed; what went wrong is said before it.
    told = " | ".join([line for line in lines if line and not line.startswith("The command '")][-6:])
    return EngineRefused(f"The worker image could not be built (exit status {status}): {told}", told)
