"""What a ref turned out to be, and the files of a commit."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from refcompare.errors import EnvironmentFailure
from refcompare.git.names import decoded
from refcompare.git.objects import Objects, sizes_of
from refcompare.git.process import GitCommands
from refcompare.tree import TreeFile

LONGEST_LISTING = 128 * 1024 * 1024
"""Bytes of file names, modes and ids that a tree may have: about a million files.

Trees that name each other take kilobytes, and list without an end.
"""


@dataclass(frozen=True, slots=True)
class ResolvedRef:
    """What a ref turned out to be. It does not move when the branch does.

    ``spec`` is what the user typed; ``commit`` the full SHA, None for WORKTREE or a bare tree; ``label`` is
    printable and short: ``main (abc1234)``, ``WORKTREE``, ``A...B (merge base abc1234)``.
    """

    spec: str
    commit: str | None
    label: str


class Entry(NamedTuple):
    """One regular file: ``blob`` holds its bytes, or with ``blob`` None the disk does.

    ``indexed`` is what the index has for it, and ``stamp`` tells the file on the disk from an edited one.
    """

    executable: bool
    size: int
    blob: str | None
    indexed: str | None = None
    stamp: tuple[int, int] | None = None


def tree_files(entries: dict[str, Entry]) -> Iterator[TreeFile]:
    """Give the entries as any tree gives its files."""
    return (TreeFile(path, entry.size, entry.executable) for path, entry in entries.items())


class GitTree:
    """The regular files of a commit or tree, read from the object database."""

    def __init__(self, ref: ResolvedRef, digest: str, git: GitCommands, objects: Objects) -> None:
        self.ref = ref
        self._digest = digest
        self._git = git
        self._objects = objects

    @property
    def digest(self) -> str:
        """Git's own id of the tree: SHA-1, or SHA-256 where the repository uses it."""
        return self._digest

    def files(self) -> Iterator[TreeFile]:
        """Give every regular file, in the order of the paths' bytes.

        In a partial clone a file whose blob was left out has size 0, and cannot be read.
        """
        return tree_files(self._entries)

    def read(self, path: str) -> bytes:
        """Give one file's bytes as stored. Raises KeyError, or EnvironmentFailure when they are not here."""
        blob = self._entries[path].blob
        assert blob is not None
        return self._objects.blob(blob, path)

    def links(self) -> dict[str, str]:
        """Give the target of every symlink by its path. A target is anybody's text: follow it with care."""
        links = ((path, blob) for path, mode, blob in self._listing if mode == "120000")
        return {path: decoded(self._objects.blob(blob, path)) for path, blob in links}

    @functools.cached_property
    def _listing(self) -> list[tuple[str, str, str]]:
        """Give the path, mode and blob of everything that is not a folder or a submodule."""
        output = self._git.read_at_most(LONGEST_LISTING, "ls-tree", "-r", "-z", "--full-tree", self._digest)
        if output is None:
            size = f"more than {LONGEST_LISTING // 2**20} MiB of file names"
            raise EnvironmentFailure(f"The tree of {self.ref.label} has {size}, which is more than is read.")
        listing = []
        for record in output.split(b"\0")[:-1]:
            meta, _, path = record.partition(b"\t")
            mode, kind, blob = meta.decode("ascii").split(" ")
            if kind == "blob":
                listing.append((decoded(path), mode, blob))
        return listing

    @functools.cached_property
    def _entries(self) -> dict[str, Entry]:
        files = [(path, mode, blob) for path, mode, blob in self._listing if mode.startswith("100")]
        sizes = sizes_of(self._git, (blob for _, _, blob in files))
        return {path: Entry(mode == "100755", sizes.get(blob, 0), blob) for path, mode, blob in files}
