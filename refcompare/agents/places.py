"""Directories for agents: they belong to whom agents run as, are copied cheaply, and leave nothing behind.

What a copy costs on ext4 is not the bytes. For minutes it does not reuse the inodes of removed files, and
looks at each of them whenever a file is made in their region of the disk; where the last copy was removed,
the next one of ten thousand files takes eight seconds instead of a third of one. So copies are made in
regions that this process has not removed anything from lately. Other file systems do not have regions, and
do not need it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from refcompare.agents.boundary import workspace_owner
from refcompare.errors import EnvironmentFailure
from refcompare.wording import printable
from refcompare.workspace import remove

_log = logging.getLogger(__name__)

# From linux/fs.h, the same on every architecture that agents run on: what is made in a directory with this
# flag is put in a region that follows from its name, not beside the directory.
_GET_FLAGS, _SET_FLAGS, _TOP_OF_A_HIERARCHY = 0x80086601, 0x40086602, 0x00020000

_REGION_BITS = 17
"""A region is sixteen groups of 8,192 inodes each, unless a file system was made in an unusual way."""

_SPENT_SECONDS = 360.0
"""How long ext4 passes over the inode of a removed file: a minute, and five more until it is written."""

_ATTEMPTS = 12


_spent: dict[tuple[int, int], float] = {}
"""When this process last removed a place: by device and region, on the monotonic clock."""


@contextmanager
def own_place(parent: Path | None = None, mode: int = 0o700) -> Iterator[Path]:
    """Give a new directory of whom agents run as, and remove it at the end, whatever was done to it.

    Without a ``parent``, which must be this process's own, it lies where temporary files do. Raises
    EnvironmentFailure where it cannot be made.
    """
    try:
        place = (
            Path(tempfile.mkdtemp(prefix="refcompare-")) if parent is None else _away_from_the_last(parent)
        )
    except OSError as error:
        where = parent or tempfile.gettempdir()
        raise EnvironmentFailure(f"No directory can be made in {where}: {error.strerror}.") from error
    region = _region(place)
    try:
        user, group = workspace_owner()
        if user != os.geteuid():
            os.chown(place, user, group)
        place.chmod(mode)
        yield place
    finally:
        try:
            remove(place)
        except OSError as error:
            _log.warning("%s could not be removed (%s): remove it by hand.", place, error.strerror)
        _spent[region] = time.monotonic()


def _away_from_the_last(parent: Path) -> Path:
    """Make a directory where files are made quickly. Raises OSError."""
    has_regions = _spread(parent)
    for attempt in range(1, _ATTEMPTS + 1):
        place = _new_place(parent)
        removed = _spent.get(_region(place))
        if not has_regions or removed is None or time.monotonic() - removed > _SPENT_SECONDS:
            break
        if attempt < _ATTEMPTS:
            place.rmdir()
    return place


def _new_place(parent: Path | None) -> Path:
    return Path(tempfile.mkdtemp(prefix="refcompare-", dir=parent))


def _region(place: Path) -> tuple[int, int]:
    found = place.lstat()
    return found.st_dev, found.st_ino >> _REGION_BITS


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
    line = ["cp", "-dRT", "--preserve=mode,timestamps", "--reflink=auto", "--", str(original), str(copy)]
    done = subprocess.run(
        line,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
        check=False,
        **settings,  # type: ignore[call-overload]
    )
    if done.returncode:
        said = printable(os.fsdecode(done.stderr).strip().splitlines()[-1])
        raise EnvironmentFailure(f"The workspace cannot be copied: {said}")
