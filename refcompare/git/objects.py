"""Reads blobs and their sizes from the object database."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from refcompare.errors import EnvironmentFailure
from refcompare.git.process import GitCommands, Running
from refcompare.wording import printable


class Objects:
    """One ``git cat-file --batch`` kept open, so that a blob costs microseconds. Threads may share it."""

    def __init__(self, git: GitCommands) -> None:
        self._git = git
        self._process: Running | None = None
        self._lock = threading.Lock()
        self._closed = False

    def blob(self, name: str, path: str) -> bytes:
        """Give a blob's bytes. ``path`` is for people. Raises EnvironmentFailure if it cannot be had."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the repository was closed before its trees were read")
            # One that was killed, say for want of memory, is replaced. A new one that ends has met damage.
            known_to_work = self._process is not None
            data = self._ask(name)
            if data is None and known_to_work and self._process is None:
                data = self._ask(name)
        if data is None:
            raise EnvironmentFailure(
                f"{printable(path)} cannot be read: object {name} is missing or damaged.{self._git.advice()}"
            )
        return data

    def _ask(self, name: str) -> bytes | None:
        """Give a blob's bytes, or None if it is missing, or if the process ended instead of answering."""
        process = self._process = self._process or self._git.start("cat-file", "--batch")
        try:
            process.stdin.write(f"{name}\n".encode("ascii"))
            process.stdin.flush()
            header = process.stdout.readline().split()
            if header[1:] == [b"missing"]:
                return None
            if len(header) != 3 or header[1] != b"blob":
                raise ValueError(header)
            size = int(header[2])
            data = process.stdout.read(size)
            if len(data) != size or process.stdout.read(1) != b"\n":
                raise EOFError
        except BaseException as error:
            # An answer that was not read to its end would be taken for the next one's.
            self._process = None
            if not isinstance(error, OSError | EOFError | ValueError):
                raise
            return None
        return data

    def close(self) -> None:
        """End the process. Later reads are refused."""
        with self._lock:
            self._closed = True
            self._process = None


def sizes_of(git: GitCommands, blobs: Iterable[str]) -> dict[str, int]:
    """Give the size in bytes of every one of the blobs that is in the object database."""
    names = "".join(f"{blob}\n" for blob in dict.fromkeys(blobs)).encode()
    if not names:
        return {}
    result = git.run("cat-file", "--batch-check", "--buffer", stdin=names)
    if result.status:
        # A partial clone: git gives up on the first object that it would have to fetch.
        listing = git.read("cat-file", "--batch-check", "--batch-all-objects", "--unordered", "--buffer")
    else:
        listing = result.stdout
    found = (line.split() for line in listing.decode("ascii", "replace").splitlines())
    return {words[0]: int(words[2]) for words in found if len(words) == 3 and words[1] == "blob"}
