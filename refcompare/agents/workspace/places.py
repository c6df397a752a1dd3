"""Directories for agents: they belong to whom agents run as, are copied cheaply, and leave nothing behind.

What a copy costs on ext4 is not the bytes. For minutes it does not reuse the inodes of removed files, and
looks at each of them whenever a file is made in their region of the disk; where ten thousand files were
removed lately, a copy of ten thousand takes eight seconds instead of a third of one. So each copy is put in a
region of its own, where a file turns out to be made quickly.
"""

from __future__ import annotations

import fcntl
import logging
import os
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from refcompare.agents.sandbox.boundary import workspace_owner
from refcompare.errors import EnvironmentFailure
from refcompare.wording import printable
from refcompare.workspace import remove

_log = logging.getLogger(__name__)

# From linux/fs.h, the same on every architecture that agents run on: what is made in a directory with this
# flag is put in a region that follows from its name, not beside the directory.
_GET_FLAGS, _SET_FLAGS, _TOP_OF_A_HIERARCHY = 0x80086601, 0x40086602, 0x00020000

_QUICK_SECONDS = 0.0001
"""What making a file takes at most, where nothing was removed lately: a fifth of it, with some room."""

_TRIED_FILES = 6
_ATTEMPTS = 12
_MOST_WAITING = 8
"""Places that wait to be removed, before whoever leaves another waits too."""


@contextmanager
def own_place(parent: Path | None = None, mode: int = 0o700) -> Iterator[Path]:
    """Give a new directory of whom agents run as, and remove it at the end, whatever was done to it.

    Without a ``parent``, which must be this process's own, it lies where temporary files do. Raises
    EnvironmentFailure where it cannot be made.
    """
    place = _made(parent, mode)
    try:
        yield place
    finally:
        _remove(place)


class Places:
    """Directories in one parent, each as `own_place` gives it, but removed while what follows goes on.

    Leaving it in ``with`` waits until all are gone. Thread-safe.
    """

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._remover = ThreadPoolExecutor(1, "remover")
        # Should removing be slower than what fills them, they must not fill the disk.
        self._room = threading.Semaphore(_MOST_WAITING)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remover.shutdown()

    @contextmanager
    def place(self) -> Iterator[Path]:
        """Give a new directory. Raises EnvironmentFailure where it cannot be made."""
        place = _made(self._parent, 0o700)
        try:
            yield place
        finally:
            self._room.acquire()
            try:
                self._remover.submit(self._remove, place)
            except RuntimeError:  # it was left in the meantime: a trial that would not end
                self._remove(place)

    def _remove(self, place: Path) -> None:
        try:
            _remove(place)
        finally:
            self._room.release()


def _made(parent: Path | None, mode: int) -> Path:
    try:
        place = _quick_place(parent) if parent is not None and _spread(parent) else _new_place(parent)
    except OSError as error:
        where = parent or tempfile.gettempdir()
        raise EnvironmentFailure(f"No directory can be made in {where}: {error.strerror}.") from error
    user, group = workspace_owner()
    if user != os.geteuid():
        os.chown(place, user, group)
    place.chmod(mode)
    return place


def _remove(place: Path) -> None:
    try:
        remove(place)
    except OSError as error:
        _log.warning("%s could not be removed (%s): remove it by hand.", place, error.strerror)


def _quick_place(parent: Path) -> Path:
    """Make a directory where files are made quickly, or else the quickest of several. Raises OSError."""
    best = _new_place(parent)
    seconds = _seconds_to_make_a_file(best)
    for _ in range(_ATTEMPTS - 1):
        if seconds <= _QUICK_SECONDS:
            break
        other = _new_place(parent)
        others = _seconds_to_make_a_file(other)
        if others < seconds:
            best, other, seconds = other, best, others
        other.rmdir()
    return best


def _seconds_to_make_a_file(place: Path) -> float:
    """Give what the quickest of a few files took, which were removed again."""
    files = [place / str(number) for number in range(_TRIED_FILES)]
    times = []
    for file in files:
        started = time.perf_counter()
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        times.append(time.perf_counter() - started)
    for file in files:
        file.unlink()
    return min(times)


def _new_place(parent: Path | None) -> Path:
    return Path(tempfile.mkdtemp(prefix="refcompare-", dir=parent))


def _spread(parent: Path) -> bool:
    """Have what is made in a directory put in regions of their own; False where there are none."""
    folder = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        (flags,) = struct.unpack("i4x", fcntl.ioctl(folder, _GET_FLAGS, bytes(8)))
        fcntl.ioctl(folder, _SET_FLAGS, struct.pack("i4x", flags | _TOP_OF_A_HIERARCHY))
    except OSError:
        return False
    finally:
        os.close(folder)
    return True


def give_away(root: Path) -> None:
    """Make a tree belong to whom agents run as, where that is somebody else."""
    user, group = workspace_owner()
    if user == os.geteuid():
        return
    os.chown(root, user, group, follow_symlinks=False)
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            os.chown(os.path.join(folder, name), user, group, follow_symlinks=False)  # noqa: PTH118


def copy_tree(original: Path, copy: Path) -> None:
    """Copy a tree as whom agents run as, sharing no byte that either side could change."""
    user, group = workspace_owner()
    settings: dict[str, int | tuple[int, ...]] = {}
    if user != os.geteuid():
        settings = {"user": user, "group": group, "extra_groups": ()}
    line = ["cp", "-dRT", "--preserve=timestamps", "--reflink=auto", "--", str(original), str(copy)]
    done = subprocess.run(
        line,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
        check=False,
        umask=0,  # so that modes stay what they are; to ask cp for them costs two calls more for each file
        **settings,  # type: ignore[call-overload]
    )
    if done.returncode:
        said = printable(os.fsdecode(done.stderr).strip().splitlines()[-1])
        raise EnvironmentFailure(f"The workspace cannot be copied: {said}")
