"""A tree materialised in a directory of its own, and thrown away."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.tree import Tree
from refcompare.wording import printable

_log = logging.getLogger(__name__)

# What HFS+ leaves out when it compares names, so that ".g\u200cit" opens .git:
# https://github.com/git/git/blob/master/utf8.c, next_hfs_char.
_HFS_IGNORES = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
# What NTFS opens as .git: its short name, trailing dots and spaces, and an alternate data stream.
_NTFS_DOT_GIT = re.compile(r"(\.git|git~1)[ .]*(:.*)?", re.IGNORECASE | re.DOTALL)
_ROUNDS_OF_REMOVAL = 5
# Windows, where results can be read but nothing runs, has neither these flags nor descriptors of folders.
_FOLDER = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC"))


def materialise(
    tree: Tree, destination: Path, *, prefix: str = "", match: Callable[[str], bool] | None = None
) -> int:
    """Write a tree's regular files to a fresh directory, and give their number.

    ``destination`` is made if it is not there, and has to be empty if it is. Only files below the folder
    ``prefix`` are written, by their path from there; ``match`` chooses among them by the path in the tree.
    Directories get mode 0755, files 0644, or 0755 where the tree says executable, whatever the umask.
    Symlinks are never written, so nothing can lead out of the directory.

    Raises UsageError for a path that no honest tree has (``..``, a ``.git`` folder in any spelling, a file
    that is also a folder) and for a destination in use; EnvironmentFailure when the disk refuses.
    """
    _make_root(destination)
    root = os.fsencode(destination)
    folder = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    made = {b""}
    count = 0
    for file in tree.files():
        if not file.path.startswith(folder) or not (match is None or match(file.path)):
            continue
        path = _safe(file.path.removeprefix(folder), file.path)
        data = tree.read(file.path)
        try:
            _make_folders(root, path.rpartition(b"/")[0], made)
            _write(root + b"/" + path, data, 0o755 if file.executable else 0o644)
        except (FileExistsError, NotADirectoryError) as error:
            raise UsageError(
                f"The tree has {printable(file.path)} twice: as two files, a file and a folder, or two names"
                " that this file system takes for one: rename one of them."
            ) from error
        except OSError as error:
            what = f"{printable(file.path)} cannot be written to {destination}: {error.strerror}."
            raise EnvironmentFailure(what) from error
        count += 1
    return count


@contextmanager
def workspace(
    tree: Tree,
    *,
    prefix: str = "",
    match: Callable[[str], bool] | None = None,
    parent: Path | None = None,
) -> Iterator[Path]:
    """Give a temporary directory with a tree in it, which a sandbox's uid can read; remove it at the end.

    ``prefix`` and ``match`` are those of `materialise`; ``parent`` is where the directory is made, the
    system's temporary directory unless given. Whatever was done to the directory meanwhile, it is removed;
    should the system refuse, a warning is logged, since what was measured in it still holds.
    """
    try:
        root = Path(tempfile.mkdtemp(prefix="refcompare-", dir=parent))
    except OSError as error:
        raise EnvironmentFailure(
            f"No temporary directory can be made in {parent or tempfile.gettempdir()}: {error.strerror}."
        ) from error
    try:
        root.chmod(0o755)
        materialise(tree, root, prefix=prefix, match=match)
        yield root
    finally:
        try:
            remove(root)
        except OSError as error:
            _log.warning("%s could not be removed (%s): remove it by hand.", root, error.strerror)


def remove(root: Path) -> None:
    """Remove a directory with all that is in it, or a file. Nothing there is fine. Raises OSError.

    Read-only directories are made writable first, and symlinks are removed and never followed. Directories
    nested thousands deep, which overflow a recursive remover's stack and the longest path, take two open
    files: each folder is moved up to the top before it is emptied.
    """
    for rounds_left in reversed(range(_ROUNDS_OF_REMOVAL)):
        try:
            _remove(root)
        except FileNotFoundError:
            return
        except OSError:
            # A process that has not ended yet may still be writing.
            if not rounds_left:
                raise


def _remove(root: Path) -> None:
    if not stat.S_ISDIR(os.lstat(root).st_mode):
        root.unlink()
        return
    _make_writable(root)
    top = os.open(root, _FOLDER)
    try:
        _empty(top)
    finally:
        os.close(top)
    root.rmdir()


def _empty(top: int) -> None:
    """Remove everything in an open directory."""
    fresh = (f".refcompare-removed-{number}" for number in itertools.count())
    while True:
        with os.scandir(top) as listing:
            entries = list(listing)
        if not entries:
            return
        folders = [entry.name for entry in entries if not _unlink(entry, top)]
        for name in folders:
            _hoist(top, name, fresh)


def _hoist(top: int, name: str, fresh: Iterator[str]) -> None:
    """Remove one folder in ``top``, having moved the folders in it up into ``top``."""
    _make_writable(name, top)
    here = os.open(name, _FOLDER, dir_fd=top)
    try:
        with os.scandir(here) as listing:
            entries = list(listing)
        for entry in entries:
            if not _unlink(entry, here):
                _make_writable(entry.name, here)  # moving a directory writes its ".."
                _move_up(entry.name, here, top, fresh)
    finally:
        os.close(here)
    os.rmdir(name, dir_fd=top)


def _move_up(name: str, here: int, top: int, fresh: Iterator[str]) -> None:
    for candidate in fresh:
        try:
            os.rename(name, candidate, src_dir_fd=here, dst_dir_fd=top)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
        else:
            return


def _unlink(entry: os.DirEntry[str], folder: int) -> bool:
    """Remove an entry of an open directory unless it is a directory itself; say whether that was so."""
    if entry.is_dir(follow_symlinks=False):
        return False
    os.unlink(entry.name, dir_fd=folder)
    return True


def _make_writable(path: Path | str, folder: int | None = None) -> None:
    """Let the owner list and change a directory, if it is ours; should it not be, removing it says so."""
    mode = os.stat(path, dir_fd=folder, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
        try:
            os.chmod(path, stat.S_IMODE(mode) | stat.S_IRWXU, dir_fd=folder)
        except PermissionError:
            return


def _make_root(destination: Path) -> None:
    if destination.is_symlink() or (destination.exists() and not destination.is_dir()):
        raise UsageError(f"{destination} is not a directory that a tree can be written to.")
    try:
        destination.mkdir(parents=True, exist_ok=True)
        used = any(destination.iterdir())
    except OSError as error:
        raise EnvironmentFailure(f"{destination} cannot be made: {error.strerror}.") from error
    if used:
        raise UsageError(f"{destination} is not empty, and a tree is only written to a fresh directory.")


def _safe(path: str, whole: str) -> bytes:
    """Give a path's bytes. Raises UsageError if it leads out of its root or into a ``.git``."""
    parts = path.split("/")
    if "\0" in path or not all(parts) or "." in parts or ".." in parts:
        raise UsageError(f"The tree has a file at {printable(whole)}, outside of the tree: it is refused.")
    # Windows takes a backslash for a slash; elsewhere it is a letter like any other.
    if any(_is_dot_git(part) for part in path.replace("\\", "/").split("/")):
        raise UsageError(f"The tree has a file at {printable(whole)}, which git would obey: it is refused.")
    return path.encode("utf-8", "surrogateescape")


def _is_dot_git(part: str) -> bool:
    """Say whether some file system would open a name as ``.git``."""
    return bool(_NTFS_DOT_GIT.fullmatch(part)) or _HFS_IGNORES.sub("", part).lower() == ".git"


def _make_folders(root: bytes, folder: bytes, made: set[bytes]) -> None:
    """Make a folder and those above it, as far as they are not in ``made``."""
    missing = []
    while folder not in made:
        missing.append(folder)
        folder = folder.rpartition(b"/")[0]
    for path in reversed(missing):
        os.mkdir(root + b"/" + path)  # noqa: PTH102 - a name need not be text
        os.chmod(root + b"/" + path, 0o755)  # noqa: PTH101, S103 - readable by a sandbox's uid
        made.add(path)


def _write(path: bytes, data: bytes, mode: int) -> None:
    # O_EXCL: a name that the file system takes for another's must not overwrite that one.
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with open(file, "wb", buffering=0) as stream:  # noqa: PTH123
        os.fchmod(file, mode)
        rest = memoryview(data)
        while rest:
            rest = rest[stream.write(rest) :]
