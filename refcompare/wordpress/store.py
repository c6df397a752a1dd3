"""Directories in the cache that are built once, put in place whole, and checked when used."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from refcompare.errors import EnvironmentFailure
from refcompare.paths import CACHE_VARIABLE, make_open_directory
from refcompare.wordpress.sources.interface import Progress

Kept = TypeVar("Kept")


def keep(
    directory: Path,
    load: Callable[[Path], Kept | None],
    build: Callable[[Path], None],
    progress: Progress,
) -> Kept:
    """Give what ``load`` finds in ``directory``; where it finds nothing sound, build that first.

    ``build`` fills an empty directory beside it, which is renamed into place when all is done, so
    that an interrupted build leaves nothing to be found. Of several processes one builds and
    the others wait for it. ``load`` gives None for a directory that is absent or damaged.
    Raises EnvironmentFailure when the cache cannot be written, and whatever ``build`` raises.
    """
    kept = load(directory)
    if kept is not None:
        return kept
    try:
        return _built(directory, load, build, progress)
    except OSError as error:
        raise EnvironmentFailure(
            f"The cache cannot hold {directory} ({error.strerror or error}); "
            f"free some space, or set {CACHE_VARIABLE} to a directory that you can write to."
        ) from error


def _built(
    directory: Path, load: Callable[[Path], Kept | None], build: Callable[[Path], None], progress: Progress
) -> Kept:
    make_open_directory(directory.parent)
    with _locked(directory, progress):
        kept = load(directory)  # another process may have built it meanwhile
        if kept is not None:
            return kept
        partial = directory.with_name(f".{directory.name}.partial")
        remove(partial)  # what a killed process left
        try:
            make_open_directory(partial)
            build(partial)
            remove(directory)
            partial.rename(directory)
        finally:
            remove(partial)
        kept = load(directory)
        assert kept is not None, f"{directory} was just built"
        return kept


@contextmanager
def _locked(directory: Path, progress: Progress) -> Iterator[None]:
    lock = FileLock(directory.with_name(f".{directory.name}.lock"))
    try:
        held = lock.acquire(timeout=0)
    except Timeout:
        progress(f"Waiting for another process that prepares {directory.name}")
        held = lock.acquire()
    with held:
        yield


def remove(path: Path) -> None:
    """Remove a directory tree or a file, or nothing where there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def empty(directory: Path) -> None:
    """Remove everything in ``directory``."""
    for path in directory.iterdir():
        remove(path)


def open_permissions(directory: Path) -> None:
    """Make everything below ``directory`` readable by every uid: directories 0755, files 0644."""
    for root, _, files in os.walk(directory):
        Path(root).chmod(0o755)
        for name in files:
            Path(root, name).chmod(0o644)


def regular_files(directory: Path) -> Iterator[tuple[str, int]]:
    """Give the path (relative, with ``/``) and size of every file below ``directory``, in path order."""
    found: list[tuple[str, int]] = []
    pending = [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(directory / prefix) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(f"{prefix}{entry.name}/")
                else:
                    found.append((prefix + entry.name, entry.stat(follow_symlinks=False).st_size))
    yield from sorted(found)


def shape_digest(directory: Path, *, without: str | None = None) -> str:
    """Give a hex SHA-256 over all names and sizes but one: cheap, changed by any file cut short or lost."""
    digest = hashlib.sha256()
    for path, size in regular_files(directory):
        if path == without:
            continue
        digest.update(f"{path}\0{size}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def content_digest(directory: Path, files: Iterable[str] | None = None, *, without: str | None = None) -> str:
    """Give a hex SHA-256 over names and bytes, the same wherever the files lie.

    Takes ``files`` (relative paths, in order), else all below ``directory`` but ``without``.
    """
    digest = hashlib.sha256()
    for path in files if files is not None else (path for path, _ in regular_files(directory)):
        if path == without:
            continue
        with (directory / path).open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        digest.update(f"{path}\0{content}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()
