"""A directory in which a confined program leaves files, and how they are read: as hostile input."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from refcompare.agents.sandbox.boundary import workspace_owner
from refcompare.errors import EnvironmentFailure
from refcompare.workspace import remove

FILE_BYTES = 256 * 1024 * 1024
"""A larger file is not read."""

_ENTRIES = 10_000
_DEPTH = 6


@contextmanager
def outbox() -> Iterator[Path]:
    """Give an empty directory of the host that belongs to agents; it is removed at the end."""
    try:
        base = Path(tempfile.mkdtemp(prefix="refcompare-outbox-"))
    except OSError as error:
        raise EnvironmentFailure(f"No temporary directory can be made: {error}.") from error
    try:
        base.chmod(0o711)
        inner = base / "outbox"
        inner.mkdir(mode=0o755)
        os.chown(inner, *workspace_owner())
        yield inner
    finally:
        remove(base)


def shown(text: str, opened: ExitStack) -> Path:
    """Give a file of the host with that text, which agents can read, and which goes when ``opened`` does."""
    base = Path(tempfile.mkdtemp(prefix="refcompare-shown-"))
    opened.callback(remove, base)
    base.chmod(0o711)
    file = base / "file"
    file.write_text(text)
    file.chmod(0o644)
    return file


def read_left(directory: Path, name: str) -> bytes | None:
    """Read a file that was left directly in ``directory``; None where there is none that may be read.

    Nothing but a regular file of at most ``FILE_BYTES`` bytes is opened: no symlink, pipe or device.
    """
    try:
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > FILE_BYTES:
                return None
            return file.read(FILE_BYTES)
    except OSError:
        return None
    finally:
        os.close(folder)


def find_left(directory: Path, prefix: str, suffix: str) -> list[Path]:
    """Give the files below ``directory`` that are named so, sorted; bounded, and no symlink is followed."""
    found: list[Path] = []
    seen = 0
    for base, folders, files in os.walk(directory):
        if len(Path(base).relative_to(directory).parts) >= _DEPTH:
            folders.clear()
        seen += len(folders) + len(files)
        if seen > _ENTRIES:
            break
        found += [Path(base) / name for name in files if name.startswith(prefix) and name.endswith(suffix)]
    return sorted(found)
