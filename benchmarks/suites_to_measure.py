"""The suite that is measured: a repository given on the command line, else the demo's."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from refcompare.demo import build_repository


@contextmanager
def repository(given: Path | None) -> Iterator[tuple[Path, str, str]]:
    """Give a repository and its two refs: the given one's tags ``base`` and ``head``, or the demo's."""
    if given is not None:
        yield given, "base", "head"
        return
    with tempfile.TemporaryDirectory(prefix="refcompare-bench-") as scratch:
        base, head = build_repository(Path(scratch) / "demo")
        yield Path(scratch) / "demo", base, head
