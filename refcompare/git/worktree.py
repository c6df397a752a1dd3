"""The files as they lie, uncommitted edits included."""

from __future__ import annotations

import functools
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from refcompare.errors import EnvironmentFailure
from refcompare.git.conversion import Rule, conversion_rules
from refcompare.git.index import read_index
from refcompare.git.names import decoded, encoded
from refcompare.git.objects import Objects, sizes_of
from refcompare.git.process import GitCommands
from refcompare.git.trees import Entry, ResolvedRef, tree_files
from refcompare.tree import TreeFile
from refcompare.wording import printable

WORKTREE = "WORKTREE"

# Bytes up to which a file is read to learn how long its text is once line endings are converted.
_MEASURED = 16 * 1024 * 1024


class WorktreeTree:
    """The files as they lie: tracked and untracked ones, with uncommitted edits; not ignored or deleted ones.

    The bytes are those that ``git add`` would store, filter programs and ``working-tree-encoding`` aside, so
    that an untouched checkout reads like its commit. A file that the index knows to be unmodified (as in git:
    same times, size and inode, and older than the index) is read from the object database, and so is one that
    a sparse checkout left out. Any other is read from the disk, with its line endings converted as the
    attributes and ``core.autocrlf`` ask; a Git LFS file whose content is the committed one becomes its
    pointer. The list of files is made once, when the ref is resolved, and a file that is edited later can no
    longer be read: all that is measured in one tree is measured on the same bytes.
    """

    def __init__(self, root: Path, git: GitCommands, objects: Objects) -> None:
        self.ref = ResolvedRef(WORKTREE, None, WORKTREE)
        self._root = encoded(str(root))
        self._git = git
        self._objects = objects
        self._rules: dict[str, Rule] = {}
        self._entries = self._list()

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 over each file's path, mode and git blob id, so never the digest of a commit.

        A file that cannot be read counts by its size and time when it was listed: as nobody can measure its
        bytes, it should not cost those who measure others.
        """
        total = hashlib.sha256(b"refcompare worktree\0")
        for path, entry in self._entries.items():
            mode = "100755" if entry.executable else "100644"
            total.update(
                encoded(path) + f"\0{mode} {entry.blob or self._identity(path, entry)}\n".encode("ascii")
            )
        return total.hexdigest()

    def files(self) -> Iterator[TreeFile]:
        """Give every regular file, in the order of the paths' bytes.

        The size of a file over 16 MiB is that on the disk, before its line endings are converted.
        """
        return tree_files(self._entries)

    def read(self, path: str) -> bytes:
        """Give one file's bytes. Raises KeyError, or EnvironmentFailure when the file changed meanwhile."""
        return self._stored(path, self._entries[path])

    def links(self) -> dict[str, str]:
        """Give the target of every symlink by its path, as they lie now. A target is anybody's text."""
        listing = self._git.read_index("ls-files", "-z", "--others", "--exclude-standard")
        paths = {item.path for item in read_index(self._git) if not _leads_away(item.path)}
        found = {}
        for path in sorted(paths.union(listing.split(b"\0")[:-1])):
            if self._is_folder(path.rpartition(b"/")[0]):
                with suppress(OSError):  # it is no link, or it is gone
                    found[decoded(path)] = decoded(os.readlink(os.path.join(self._root, path)))  # noqa: PTH115, PTH118
        return found

    def _list(self) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        for path, entry in self._tracked():
            # A file in conflict comes several times; git goes by our side, which alone has ``indexed``.
            if entry.indexed or path not in entries:
                entries[path] = entry
        entries.update(self._untracked())
        return self._measured({path: entries[path] for path in sorted(entries, key=encoded)})

    def _tracked(self) -> Iterator[tuple[str, Entry]]:
        keeps_modes = self._git.flag("core.fileMode", True)
        has_symlinks = self._git.flag("core.symlinks", True)
        index_seconds = self._index_seconds()
        for item in read_index(self._git):
            if _leads_away(item.path):
                continue
            regular = item.mode.startswith("100")
            executable = item.mode == "100755"
            if item.skipped:
                if regular:
                    yield decoded(item.path), Entry(executable, 0, item.blob)
                continue
            if item.mode == "120000" and not has_symlinks:
                continue  # here git writes a symlink as a file that holds its target
            found = self._lstat(item.path)
            if found is None:
                continue
            if keeps_modes:
                executable = bool(found.st_mode & stat.S_IXUSR)
            indexed = item.blob if item.stage in ("0", "2") and regular else None
            blob = indexed if item.stage == "0" and item.matches(found, index_seconds) else None
            yield decoded(item.path), Entry(executable, found.st_size, blob, indexed, _stamp(found))

    def _untracked(self) -> Iterator[tuple[str, Entry]]:
        keeps_modes = self._git.flag("core.fileMode", True)
        listing = self._git.read_index("ls-files", "-z", "--others", "--exclude-standard")
        for path in listing.split(b"\0")[:-1]:
            found = self._lstat(path)
            if found is not None:
                executable = keeps_modes and bool(found.st_mode & stat.S_IXUSR)
                yield decoded(path), Entry(executable, found.st_size, None, stamp=_stamp(found))

    def _lstat(self, path: bytes) -> os.stat_result | None:
        """Give what the disk says of a regular file beneath the root; None for anything else, or nothing."""
        if not self._is_folder(path.rpartition(b"/")[0]):
            return None
        try:
            found = os.lstat(os.path.join(self._root, path))  # noqa: PTH118
        except OSError:
            return None
        return found if stat.S_ISREG(found.st_mode) else None

    @functools.cached_property
    def _is_folder(self) -> Callable[[bytes], bool]:
        return functools.cache(functools.partial(_is_folder, self._root))

    def _measured(self, entries: dict[str, Entry]) -> dict[str, Entry]:
        """Give the entries with the size of the bytes that will be read, if not that on the disk."""
        sizes = sizes_of(self._git, (entry.blob for entry in entries.values() if entry.blob))
        for path, entry in entries.items():
            if entry.blob in sizes:
                entries[path] = entry._replace(size=sizes[entry.blob])
            elif entry.blob and entry.indexed:
                entries[path] = entry._replace(blob=None)  # a partial clone without it, but the disk has it
        on_disk = [path for path, entry in entries.items() if entry.blob is None]
        self._rules = conversion_rules(self._git, on_disk)
        for path in self._rules:
            if entries[path].size <= _MEASURED:
                # That a file cannot be read matters when somebody reads it.
                with suppress(EnvironmentFailure):
                    entries[path] = entries[path]._replace(size=len(self._stored(path, entries[path])))
        return entries

    def _index_seconds(self) -> int:
        """Give the time at which the index was written, in whole seconds; 0 when there is none."""
        index = os.path.join(self._root, encoded(self._git.path("index")))  # noqa: PTH118
        try:
            return int(os.stat(index).st_mtime)  # noqa: PTH116
        except FileNotFoundError:
            return 0

    def _stored(self, path: str, entry: Entry) -> bytes:
        """Give the bytes that git would store for a file."""
        if entry.blob:
            return self._objects.blob(entry.blob, path)
        try:
            data = _read_beneath(self._root, encoded(path), entry.stamp)
        except OSError as error:
            raise EnvironmentFailure(
                f"{printable(path)} in {WORKTREE} cannot be read: {error.strerror}."
            ) from error
        rule = self._rules.get(path)
        return data if rule is None else rule.apply(data, functools.partial(self._indexed, path, entry))

    def _indexed(self, path: str, entry: Entry) -> bytes:
        try:
            return self._objects.blob(entry.indexed, path) if entry.indexed else b""
        except EnvironmentFailure:
            return b""  # left out of a partial clone

    def _identity(self, path: str, entry: Entry) -> str:
        try:
            return self._blob_id(self._stored(path, entry))
        except EnvironmentFailure:
            return f"unread {entry.stamp}"

    def _blob_id(self, data: bytes) -> str:
        header = b"blob %d\0" % len(data)
        if self._hashes_with_sha256:
            return hashlib.sha256(header + data).hexdigest()
        return hashlib.sha1(header + data, usedforsecurity=False).hexdigest()

    @functools.cached_property
    def _hashes_with_sha256(self) -> bool:
        return self._git.run("rev-parse", "--show-object-format").line == "sha256"


def _stamp(found: os.stat_result) -> tuple[int, int]:
    """Give what an edit changes. The inode is left out: on shared folders it is not always the same."""
    return found.st_size, found.st_mtime_ns


def _leads_away(path: bytes) -> bool:
    """Say whether a path leads out of the root, or to credentials; only a forged index has such."""
    return any(part in (b"", b".", b"..") or part.lower() == b".git" for part in path.split(b"/"))


def _is_folder(root: bytes, path: bytes) -> bool:
    """Say whether a path beneath the root is a directory that is reached through directories alone."""
    here = root
    for part in path.split(b"/") if path else ():
        here = os.path.join(here, part)  # noqa: PTH118
        try:
            if not stat.S_ISDIR(os.lstat(here).st_mode):
                return False
        except OSError:
            return False
    return True


def _read_beneath(root: bytes, path: bytes, stamp: tuple[int, int] | None) -> bytes:
    """Read a regular file without following a symlink anywhere beneath the root.

    Raises OSError, also when it is not the file any more that had this stamp.
    """
    *folders, name = path.split(b"/")
    beneath = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            below = os.open(folder, beneath | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
        # Without O_NONBLOCK a pipe that has taken the file's place would be waited for.
        file = os.open(name, beneath | os.O_NONBLOCK, dir_fd=here)
    finally:
        os.close(here)
    with open(file, "rb") as stream:  # noqa: PTH123
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(0, "it is not a regular file any more")
        data = stream.read()
        if _stamp(os.fstat(file)) != stamp:
            raise OSError(0, "it was edited after refcompare had begun, so run again")
        return data
