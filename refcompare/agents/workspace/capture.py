"""What an agent changed in its workspace, found out without running anything that the agent wrote.

Git is not asked: it obeys configuration, hooks, filters, attributes and nested repositories, any of which
an agent can write. Instead the directory is listed before the run and after it, by `lstat` alone, and
what differs is read and compared with the arm's own copy. No link is followed, no pipe, socket or device
is opened, and everything that is kept has a bound. A directory called ``.git`` is not looked into.

A file whose inode, size and time of status change are what they were is taken as it was: no process
without privileges can set that time.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from refcompare.agents.workspace.patch import Effort, file_patch
from refcompare.errors import EnvironmentFailure

# Windows, where results can be read but nothing runs, has neither these flags nor descriptors of folders.
_FOLDER = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC"))
_FILE = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC")
)

_RACY_NANOSECONDS = 20_000_000
"""A file that was written this shortly before it was listed may change again with no trace in its times."""

_TYPES = {
    stat.S_IFREG: "file",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is looked at and kept, at most: ``entries`` of the directory and ``depth`` of its folders, bytes
    of a file that is compared, bytes of all diffs together, changed files that are listed."""

    entries: int = 500_000
    depth: int = 100
    file: int = 2 * 1024 * 1024
    diff: int = 4 * 1024 * 1024
    changes: int = 200_000


BOUNDS = Bounds()


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a directory that is not a directory, as `lstat` tells it."""

    type: str
    executable: bool
    size: int
    inode: int
    changed: int

    @classmethod
    def of(cls, found: os.stat_result) -> Entry:
        """Take what matters of a stat result; ``changed`` is the time of status change in nanoseconds."""
        kind = _TYPES.get(stat.S_IFMT(found.st_mode), "unknown")
        executable = kind == "file" and bool(found.st_mode & stat.S_IXUSR)
        return cls(kind, executable, found.st_size, found.st_ino, found.st_ctime_ns)

    @property
    def mode(self) -> str:
        """The mode as git writes it for files and links; pipes and the like have a mode of their own."""
        modes = {"file": "100755" if self.executable else "100644", "symlink": "120000"}
        return modes.get(self.type, "000000")


@dataclass(frozen=True, slots=True)
class Listing:
    """A directory as it was at the time ``taken`` (nanoseconds): its entries by path.

    A path has ``/`` between its parts and carries surrogate escapes where it is not UTF-8. ``complete`` is
    False where a bound ended the listing. ``notes`` are sentences about what was not looked at.
    """

    entries: Mapping[str, Entry]
    taken: int
    complete: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileChange:
    """One path that differs: ``before`` and ``after`` are types such as ``file`` or ``symlink``.

    ``diff`` is a unified diff as git writes it, empty where ``note`` says why there is none.
    """

    path: str
    kind: Literal["added", "modified", "deleted"]
    before: str | None
    after: str | None
    diff: str = ""
    note: str | None = None


@dataclass(frozen=True, slots=True)
class WorkspaceChange:
    """All that an agent changed, in the order of the paths' bytes.

    ``omitted`` counts changed paths beyond the bound. ``notes`` are sentences for the reader.
    """

    files: tuple[FileChange, ...] = ()
    omitted: int = 0
    notes: tuple[str, ...] = ()

    @property
    def diff(self) -> str:
        """Every file's diff, one after the other."""
        return "".join(change.diff for change in self.files)


def listing(root: Path, bounds: Bounds = BOUNDS) -> Listing:
    """List a directory, following nothing. Raises EnvironmentFailure where it cannot be listed at all."""
    taken = time.time_ns()
    walk = _Walk(bounds)
    try:
        top = os.open(root, _FOLDER)
    except OSError as error:
        raise EnvironmentFailure(f"The workspace {root} cannot be listed: {error.strerror}.") from error
    try:
        walk.folder(top, "", 0)
    finally:
        os.close(top)
    return Listing(walk.entries, taken, walk.complete, tuple(walk.notes))


def capture(root: Path, before: Listing, original: Path, bounds: Bounds = BOUNDS) -> WorkspaceChange:
    """Say what changed in ``root`` since ``before`` was listed there.

    ``original`` holds the same tree as it was, in a place that the agent never reached. Raises
    EnvironmentFailure where the workspace is gone.
    """
    after = listing(root, bounds)
    found = after.entries if after.complete else {**_still_there(root, before), **after.entries}
    notes = list(after.notes)
    budget = _Budget(bounds.diff)
    changes: list[FileChange] = []
    omitted = 0
    with _Folders(root) as now, _Folders(original) as then:
        for path in _candidates(before, found):
            change = _compare(path, before.entries.get(path), found.get(path), then, now, budget, bounds)
            if change is None:
                continue
            if len(changes) < bounds.changes:
                changes.append(change)
            else:
                omitted += 1
    if budget.cut:
        notes.append(f"the diff was cut: it holds {bounds.diff:,} bytes at most")
    if omitted:
        notes.append(f"{omitted:,} more changed files are not listed")
    return WorkspaceChange(tuple(changes), omitted, tuple(notes))


def read_file(root: Path, path: str, most: int) -> bytes | None:
    """Read a regular file of the workspace to its end, or its first ``most`` + 1 bytes.

    No link is followed anywhere on the way. None where there is no such regular file or it can't be read.
    """
    with _Folders(root) as folders:
        return folders.read(path, most)


# ----------------------------------------------------------------------------------- walking


@dataclass(slots=True)
class _Walk:
    bounds: Bounds
    entries: dict[str, Entry] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    complete: bool = True
    seen: int = 0

    def folder(self, descriptor: int, prefix: str, depth: int) -> None:
        """List an open folder and those in it, in the order of their names' bytes."""
        names = sorted(self._names(descriptor, prefix))
        for raw in names:
            name = os.fsdecode(raw)
            try:
                found = os.stat(raw, dir_fd=descriptor, follow_symlinks=False)
            except OSError:
                continue  # something that has no status has no contents either
            if not stat.S_ISDIR(found.st_mode):
                if name != ".git":
                    self.entries[prefix + name] = Entry.of(found)
            elif name == ".git":
                if prefix:
                    self._note(f"{prefix[:-1]} is a repository of its own; its .git was not looked at")
            elif depth >= self.bounds.depth:
                self._stop(f"folders are nested deeper than {self.bounds.depth}; the rest was not looked at")
            else:
                self._enter(raw, found, descriptor, f"{prefix}{name}/", depth)

    def _names(self, descriptor: int, prefix: str) -> Iterator[bytes]:
        with os.scandir(descriptor) as found:
            for entry in found:
                self.seen += 1
                if self.seen > self.bounds.entries:
                    self._stop(f"more than {self.bounds.entries:,} entries; the rest was not looked at")
                    return
                yield os.fsencode(entry.name)

    def _enter(self, name: bytes, found: os.stat_result, descriptor: int, prefix: str, depth: int) -> None:
        try:
            below = _open_folder(name, found, descriptor)
        except OSError as error:
            self._stop(f"{prefix[:-1]} cannot be listed ({error.strerror})")
            return
        try:
            self.folder(below, prefix, depth + 1)
        finally:
            os.close(below)

    def _stop(self, note: str) -> None:
        self.complete = False
        self._note(note)

    def _note(self, note: str) -> None:
        if note not in self.notes and len(self.notes) < 50:
            self.notes.append(note)


def _open_folder(name: bytes, found: os.stat_result, parent: int) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except PermissionError:
        # It is ours, and whoever took the right to read it away has ended.
        os.chmod(name, stat.S_IMODE(found.st_mode) | stat.S_IRWXU, dir_fd=parent)
        return os.open(name, _FOLDER, dir_fd=parent)


def _still_there(root: Path, before: Listing) -> dict[str, Entry]:
    """Look at each path that was there before, where the listing after the run ended early."""
    found = {}
    with _Folders(root) as folders:
        for path in before.entries:
            state = folders.stat(path)
            if state is not None and not stat.S_ISDIR(state.st_mode):
                found[path] = Entry.of(state)
    return found


def _candidates(before: Listing, after: Mapping[str, Entry]) -> list[str]:
    """Give the paths that may have changed, in the order of their bytes."""
    settled = before.taken - _RACY_NANOSECONDS
    paths = {
        path
        for path, entry in after.items()
        if before.entries.get(path) != entry or (entry.type == "file" and entry.changed >= settled)
    }
    return sorted(paths | (before.entries.keys() - after.keys()), key=os.fsencode)


class _Folders:
    """Reads below a directory without following a link, keeping the last folder open."""

    def __init__(self, root: Path) -> None:
        self._root = os.open(root, _FOLDER)
        self._path: str | None = None
        self._descriptor: int | None = None

    def __enter__(self) -> _Folders:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()
        os.close(self._root)

    def stat(self, path: str) -> os.stat_result | None:
        """Give what `lstat` says; None where there is nothing, or only behind a link."""
        folder, _, name = path.rpartition("/")
        try:
            return os.stat(os.fsencode(name), dir_fd=self._enter(folder), follow_symlinks=False)
        except (OSError, ValueError):
            return None

    def read(self, path: str, most: int) -> bytes | None:
        """Give the first ``most`` + 1 bytes of a regular file, None where there is none to be read."""
        folder, _, name = path.rpartition("/")
        try:
            parent = self._enter(folder)
            file = _open_file(os.fsencode(name), parent)
        except (OSError, ValueError):
            return None
        try:
            return _read(file, most + 1) if stat.S_ISREG(os.fstat(file).st_mode) else None
        except OSError:
            return None
        finally:
            os.close(file)

    def link(self, path: str) -> str | None:
        """Give the target of a link, None where there is none."""
        folder, _, name = path.rpartition("/")
        try:
            return os.fsdecode(os.readlink(os.fsencode(name), dir_fd=self._enter(folder)))
        except (OSError, ValueError):
            return None

    def _enter(self, folder: str) -> int:
        if self._descriptor is not None and folder == self._path:
            return self._descriptor
        self._leave()
        here = os.dup(self._root)
        try:
            for part in folder.split("/") if folder else ():
                if part in ("", ".", ".."):
                    raise FileNotFoundError(folder)
                below = os.open(os.fsencode(part), _FOLDER, dir_fd=here)
                os.close(here)
                here = below
        except BaseException:
            os.close(here)
            raise
        self._path, self._descriptor = folder, here
        return here

    def _leave(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._path = self._descriptor = None


def _open_file(name: bytes, parent: int) -> int:
    try:
        return os.open(name, _FILE, dir_fd=parent)
    except PermissionError:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            raise
        os.chmod(name, stat.S_IMODE(found.st_mode) | stat.S_IRUSR, dir_fd=parent)
        return os.open(name, _FILE, dir_fd=parent)


def _read(descriptor: int, most: int) -> bytes:
    chunks = []
    while most and (chunk := os.read(descriptor, min(most, 1 << 20))):
        chunks.append(chunk)
        most -= len(chunk)
    return b"".join(chunks)


# --------------------------------------------------------------------------------- comparing


@dataclass(slots=True)
class _Budget:
    """What diffs may still take: ``left`` bytes of text, and the effort of making them."""

    left: int
    effort: Effort = field(default_factory=Effort)
    cut: bool = False

    def take(self, diff: str) -> bool:
        """Say whether a diff still fits, and take its room."""
        size = len(diff.encode("utf-8", "surrogateescape"))
        if size > self.left:
            self.cut = True
            return False
        self.left -= size
        return True


def _compare(
    path: str,
    before: Entry | None,
    after: Entry | None,
    then: _Folders,
    now: _Folders,
    budget: _Budget,
    bounds: Bounds,
) -> FileChange | None:
    """Compare one path; None where it is what it was."""
    kind: Literal["added", "modified", "deleted"] = "modified"
    if before is None or after is None:
        kind = "added" if before is None else "deleted"
    types = (before.type if before else None, after.type if after else None)
    if kind == "added" and budget.cut:
        return FileChange(path, kind, *types, note="its diff was left out")
    old, old_note = _content(path, before, then, bounds)
    new, new_note = _content(path, after, now, bounds)
    if before and after and _alike(before, after, old, new):
        return None
    note = new_note or old_note
    if note:
        return FileChange(path, kind, *types, note=note)
    modes = (before.mode if before else None, after.mode if after else None)
    diff = file_patch(path, old, new, *modes, effort=budget.effort)
    if diff is None:
        return FileChange(path, kind, *types, note="it is not text")
    if not budget.take(diff):
        return FileChange(path, kind, *types, note="its diff was left out")
    return FileChange(path, kind, *types, diff=diff)


def _alike(before: Entry, after: Entry, old: bytes | None, new: bytes | None) -> bool:
    if (before.type, before.mode) != (after.type, after.mode):
        return False
    if old is not None or new is not None:
        return old == new
    # There is nothing to compare: a large file that was written to counts as changed, a pipe does not.
    return before == after or before.type != "file"


def _content(path: str, entry: Entry | None, folders: _Folders, bounds: Bounds) -> tuple[bytes | None, str]:
    """Give a file's bytes or a link's target, or else why there are none to compare."""
    if entry is None:
        return None, ""
    if entry.type == "symlink":
        target = folders.link(path)
        return (None, "it cannot be read") if target is None else (os.fsencode(target), "")
    if entry.type != "file":
        return None, f"it is a {entry.type}"
    if entry.size > bounds.file:
        return None, f"it has {entry.size:,} bytes, too many to compare"
    data = folders.read(path, bounds.file)
    return (None, "it cannot be read") if data is None else (data, "")
