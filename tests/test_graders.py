"""Staging a grader: where it cannot be kept, and where a tree has none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.tree import TreeFile
from refcompare.wordpress.graders import grader_of, installed_grader


class EmptyTree:
    """A tree without a file."""

    @property
    def digest(self) -> str:
        return "d" * 40

    def files(self) -> Iterator[TreeFile]:
        return iter(())

    def read(self, path: str) -> bytes:
        raise KeyError(path)


def test_a_cache_that_takes_no_grader_is_named_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "graders").write_text("in the way")
    monkeypatch.setenv("REFCOMPARE_CACHE_DIR", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match=r"cannot be put .*set REFCOMPARE_CACHE_DIR"):
        installed_grader()


def test_a_grader_is_staged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFCOMPARE_CACHE_DIR", str(tmp_path))
    first = installed_grader()
    assert (first.path / "worker.php").is_file()
    assert installed_grader() == first
    assert list((tmp_path / "graders").iterdir()) == [first.path]


def test_a_tree_without_a_grader_is_said_to_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFCOMPARE_CACHE_DIR", str(tmp_path))
    with pytest.raises(UsageError, match=r"^topic carries no grader .*php/ has no boot\.php or worker\.php"):
        grader_of(EmptyTree(), "topic")
