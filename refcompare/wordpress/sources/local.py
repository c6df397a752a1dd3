"""A WordPress that the user has: an unpacked directory or a zip."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from refcompare.errors import UsageError
from refcompare.paths import make_open_directory
from refcompare.wordpress.sources.interface import (
    CORE,
    Progress,
    SourceFailure,
    belongs_to_core,
    read_version,
)
from refcompare.wordpress.sources.official import unpack_core_zip
from refcompare.wordpress.store import content_digest

_NOT_CORE = {".git", "node_modules"}


@dataclass(frozen=True, slots=True)
class LocalSource:
    """The WordPress at ``path``; ``digest`` is a hex SHA-256 of its content as it was found.

    Only what belongs to a pristine WordPress is taken; symbolic links are left out. ``tools`` puts
    the SQLite plugin and WP-CLI beside it.
    """

    path: Path
    digest: str
    tools: Callable[[Path, Progress], None]

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    @classmethod
    def at(cls, path: Path, tools: Callable[[Path, Progress], None]) -> LocalSource:
        """Look at ``path``. Raises UsageError when it is neither a WordPress nor a zip."""
        try:
            if path.is_file():
                with path.open("rb") as stream:
                    return cls(path, hashlib.file_digest(stream, "sha256").hexdigest(), tools)
            if path.is_dir():
                root = path if (path / "wp-load.php").is_file() else path / "wordpress"
                read_version(root)
                return cls(root, content_digest(root, _core_files(root)), tools)
        except SourceFailure as failure:
            raise UsageError(
                f"{path} holds no WordPress; give the directory that has wp-load.php."
            ) from failure
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
        raise UsageError(f"{path} does not exist; give an unpacked WordPress or a zip of one.")

    def fetch(self, into: Path, progress: Progress) -> None:
        """Fill ``into``, see Source."""
        progress(f"Copying WordPress from {self.path}")
        if self.path.is_file():
            unpack_core_zip(self.path, into)
        else:
            self._copy(into / CORE)
        self.tools(into, progress)

    def _copy(self, core: Path) -> None:
        made: set[Path] = set()
        for name in _core_files(self.path):
            target = core / name
            if target.parent not in made:
                make_open_directory(target.parent)
                made.add(target.parent)
            shutil.copyfile(self.path / name, target, follow_symlinks=False)
            target.chmod(0o644)
        if content_digest(core) != self.digest:
            raise SourceFailure(f"{self.path} changed while it was copied; run again.")


def _core_files(root: Path) -> Iterator[str]:
    """Give the paths of the regular files of a pristine WordPress at ``root``, in order."""
    found = []
    for directory, below, files in os.walk(root):
        relative = Path(directory).relative_to(root)
        below[:] = [name for name in below if name not in _NOT_CORE]
        if relative == Path():
            below[:] = [name for name in below if name.startswith("wp-")]
        for name in files:
            path = (relative / name).as_posix()
            if belongs_to_core(path) and not (Path(directory) / name).is_symlink():
                found.append(path)
    yield from sorted(found)
