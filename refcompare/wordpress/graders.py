"""The grader's PHP files, kept by content where a worker of another uid can read them."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.paths import CACHE_VARIABLE, cache_directory, make_open_directory
from refcompare.resources import grader_source
from refcompare.tree import Tree
from refcompare.wording import alternatives

PROTOCOL = 1
"""The version of the worker's protocol; part of the grader's digest."""

_ENTRY_POINTS = ("boot.php", "worker.php")


@dataclass(frozen=True, slots=True)
class Grader:
    """A staged grader: ``path`` holds ``worker.php``; ``digest`` is a hex SHA-256 over its files."""

    path: Path
    digest: str


def installed_grader() -> Grader:
    """Stage the grader that ships with refcompare."""
    source = grader_source()
    files = {path.relative_to(source).as_posix(): path.read_bytes() for path in sorted(source.rglob("*.php"))}
    if missing := _missing(files):
        raise EnvironmentFailure(f"The installation is damaged: {source} has no {alternatives(missing)}.")
    return _stage(files)


def grader_of(tree: Tree, label: str, directory: str = "php") -> Grader:
    """Stage the grader that a ref's own tree carries. ``label`` is what the user calls the ref.

    Raises UsageError when the tree has none.
    """
    prefix = directory.rstrip("/") + "/"
    files = {
        file.path.removeprefix(prefix): tree.read(file.path)
        for file in tree.files()
        if file.path.startswith(prefix) and file.path.endswith(".php") and ".." not in file.path
    }
    if missing := _missing(files):
        raise UsageError(
            f"{label} carries no grader of its own ({prefix} has no {alternatives(missing)}): "
            "leave out `--grader ref`, and the installed one grades both refs."
        )
    return _stage(files)


def _missing(files: Mapping[str, bytes]) -> list[str]:
    return [name for name in _ENTRY_POINTS if name not in files]


def _stage(files: Mapping[str, bytes]) -> Grader:
    digest = hashlib.sha256(f"protocol {PROTOCOL}\0".encode())
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    target = cache_directory() / "graders" / digest.hexdigest()
    if not target.is_dir():
        try:
            make_open_directory(target.parent)
            _write(files, target)
        except OSError as error:
            raise EnvironmentFailure(
                f"The grader cannot be put into the cache at {target.parent} ({error.strerror}); "
                f"mend that, or set {CACHE_VARIABLE} to a directory that you can write to."
            ) from error
    return Grader(target, digest.hexdigest())


def _write(files: Mapping[str, bytes], target: Path) -> None:
    """Write the files beside the target and move them there whole; a second writer is welcome."""
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=".new-"))
    try:
        temporary.chmod(0o755)
        for name, content in files.items():
            path = temporary / name
            make_open_directory(path.parent)
            path.write_bytes(content)
            path.chmod(0o644)
        os.replace(temporary, target)  # noqa: PTH105 (Path.replace has the same meaning)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        if not target.is_dir():
            raise
