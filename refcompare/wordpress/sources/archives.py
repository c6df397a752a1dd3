"""Unpacking archives that may be hostile: only regular files, only below one directory."""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from refcompare.paths import make_open_directory
from refcompare.wordpress.sources.interface import SourceFailure

MAXIMUM_FILES = 50_000
MAXIMUM_BYTES = 1024 * 1024 * 1024

_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of an archive. ``regular`` is False for links and devices; directories are not given."""

    name: str
    size: int
    regular: bool
    open: Callable[[], IO[bytes] | None]


Place = Callable[[str], str | None]
"""Gives where a member goes, relative to the destination with ``/``, or None to leave it out."""


def unpack_tar(archive: Path, place: Place, into: Path) -> int:
    """Unpack a tar, however compressed, in one pass; give the number of files written.

    ``place`` says what goes where. Files get mode 0644, directories 0755. Raises SourceFailure
    when the archive is damaged, holds a wanted member that is not a regular file or would leave
    ``into``, or is larger than MAXIMUM_FILES or MAXIMUM_BYTES.
    """
    with _damage_reported(archive), tarfile.open(archive, "r|*") as tar:
        return _unpack(_tar_members(tar), place, into, archive)


def unpack_zip(archive: Path, place: Place, into: Path) -> int:
    """Unpack a zip as unpack_tar does a tar."""
    with _damage_reported(archive), zipfile.ZipFile(archive) as packed:
        return _unpack(_zip_members(packed), place, into, archive)


def zip_names(archive: Path) -> list[str]:
    """Give the names of a zip's members. Raises SourceFailure when it is damaged."""
    with _damage_reported(archive), zipfile.ZipFile(archive) as packed:
        return packed.namelist()


@contextmanager
def _damage_reported(archive: Path) -> Iterator[None]:
    try:
        yield
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,  # an unknown compression
        RuntimeError,  # an encrypted zip
        UnicodeError,
        OSError,
    ) as error:
        raise SourceFailure(f"The archive {archive.name} cannot be unpacked: {error}.") from error


def _tar_members(tar: tarfile.TarFile) -> Iterator[Member]:
    for info in tar:
        if not info.isdir():
            # Bound at once: the stream is read in order, so each is opened before the next is asked for.
            yield Member(info.name, info.size, info.isreg(), lambda info=info: tar.extractfile(info))  # type: ignore[misc]


def _zip_members(packed: zipfile.ZipFile) -> Iterator[Member]:
    for info in packed.infolist():
        if not info.is_dir():
            kind = stat.S_IFMT(info.external_attr >> 16)
            yield Member(
                info.filename,
                info.file_size,
                kind in {0, stat.S_IFREG},
                lambda info=info: packed.open(info),  # type: ignore[misc]
            )


def _unpack(members: Iterator[Member], place: Place, into: Path, archive: Path) -> int:
    files, budget = 0, MAXIMUM_BYTES
    made: set[Path] = set()
    for member in members:
        destination = place(member.name)
        if destination is None:
            continue
        if not member.regular:
            raise SourceFailure(f"The archive {archive.name} holds a link or device: {member.name!r}.")
        if not is_plain(destination):
            raise SourceFailure(f"The archive {archive.name} holds an unsafe path: {member.name!r}.")
        files += 1
        target = into / destination
        if target.parent not in made:
            make_open_directory(target.parent)
            made.add(target.parent)
        budget -= _write(member, target, budget, archive)
        if files > MAXIMUM_FILES:
            raise SourceFailure(f"The archive {archive.name} holds more than {MAXIMUM_FILES} files.")
    return files


def _write(member: Member, target: Path, budget: int, archive: Path) -> int:
    """Write one member, at most ``budget`` bytes whatever size it claims; give the bytes written."""
    written = 0
    stream = member.open()
    if stream is None:
        raise SourceFailure(f"The archive {archive.name} holds no data for {member.name!r}.")
    # "x": two members of one name, or of two names that the disk takes for one, are no release.
    with stream, target.open("xb") as file:
        while chunk := stream.read(_CHUNK):
            written += len(chunk)
            if written > budget:
                raise SourceFailure(
                    f"The archive {archive.name} unpacks to more than {MAXIMUM_BYTES // 1024**2} MB."
                )
            file.write(chunk)
        os.fchmod(file.fileno(), 0o644)
    if written != member.size:
        raise SourceFailure(f"The archive {archive.name} is cut short in {member.name!r}.")
    return written


def is_plain(path: str) -> bool:
    """Say whether ``path`` is relative, stays below its root and means the same on every system."""
    return not any(
        segment in {"", ".", ".."} or any(character in segment for character in "\\:\0")
        for segment in path.split("/")
    )
