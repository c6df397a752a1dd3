"""A tree of files, wherever it is kept. The one way in which suites and graders are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TreeFile:
    """One regular file: ``path`` relative to the tree's root with ``/``, ``size`` in bytes.

    A path that is not UTF-8 carries surrogate escapes, so that it can be given back to the disk.
    """

    path: str
    size: int
    executable: bool = False


class Tree(Protocol):
    """What can be asked of a resolved ref's files. Symlinks and submodules are never files."""

    @property
    def digest(self) -> str:
        """A hex digest that changes when any file does."""

    def files(self) -> Iterator[TreeFile]:
        """Give every regular file, in path order."""

    def read(self, path: str) -> bytes:
        """Give one file's bytes. Raises KeyError when the tree has no such regular file."""
