"""What is measured: a repository given on the command line, else the demo's."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from refcompare.demo import build_repository


@dataclass(frozen=True, slots=True)
class Place:
    """A repository with execution tests, and two of its refs."""

    repository: Path
    base: str
    head: str


@contextmanager
def place(given: Path | None) -> Iterator[Place]:
    """Give the repository at ``given`` with its tags ``base`` and ``head``, or the demo's and its refs."""
    if given is not None:
        yield Place(given, "base", "head")
        return
    with tempfile.TemporaryDirectory(prefix="refcompare-bench-") as scratch:
        base, head = build_repository(Path(scratch) / "demo")
        yield Place(Path(scratch) / "demo", base, head)
