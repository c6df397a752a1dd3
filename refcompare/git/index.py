"""What the index says of each file, and whether a file on disk is surely the one that was added."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from refcompare.git.process import GitCommands

_INDEX_ITEM = re.compile(
    rb"(\S) (\d{6}) ([0-9a-f]+) (\d)\t([^\0]+)\0"
    rb"(?:  ctime: (\d+):(\d+)\n  mtime: (\d+):(\d+)\n  dev: \d+\tino: (\d+)\n"
    rb"  uid: (\d+)\tgid: (\d+)\n  size: (\d+)\tflags: [0-9a-f]+\n)?"
)


class IndexItem(NamedTuple):
    """One entry of the index; ``times`` is what it knows of the file on disk, empty if nothing."""

    tag: str
    mode: str
    blob: str
    stage: str
    path: bytes
    times: tuple[int, ...]

    @property
    def skipped(self) -> bool:
        """Say whether a sparse checkout left the file out."""
        return self.tag in "Ss"

    def matches(self, found: os.stat_result, index_seconds: int) -> bool:
        """Say whether the file is surely the one that was added, by git's own rules.

        https://git-scm.com/docs/racy-git: a file no older than the index may have been changed since without
        a trace in its times. Git then compares contents; here the answer is no, and the disk is read.
        """
        if not self.times or self.times[2] >= index_seconds:
            return False
        numbers = (
            *divmod(found.st_ctime_ns, 10**9),
            *divmod(found.st_mtime_ns, 10**9),
            found.st_ino,
            found.st_uid,
            found.st_gid,
            found.st_size,
        )
        return self.times == tuple(number & 0xFFFFFFFF for number in numbers)


def read_index(git: GitCommands) -> Iterator[IndexItem]:
    """Give the entries of the index, with what it knows of the files on disk if this git tells it."""
    words = ("ls-files", "-z", "-v", "--stage")
    listing = git.read_index(*words, "--debug")
    # Git's manual reserves the right to change this form; then no file counts as known.
    if sum(len(item.group()) for item in _INDEX_ITEM.finditer(listing)) != len(listing):
        listing = git.read_index(*words)
    for item in _INDEX_ITEM.finditer(listing):
        tag, mode, blob, stage, path, *times = item.groups()
        known = tuple(int(number) for number in times if number is not None)
        yield IndexItem(tag.decode(), mode.decode(), blob.decode(), stage.decode(), path, known)
