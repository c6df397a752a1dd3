"""A scratch repository, out of reach of the host's git configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support_git import Scratch, isolate


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    isolate(monkeypatch, home)


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    """Give a repository with two commits on main: a file, then a folder beside it."""
    scratch = Scratch.create(tmp_path / "repository")
    scratch.commit({"a.txt": "first\n"}, "first")
    scratch.commit({"a.txt": "second\n", "sub/b.txt": "b\n"}, "second")
    return scratch
