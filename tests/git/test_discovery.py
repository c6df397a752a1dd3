"""Finding the repository around a directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.git import Repository
from tests.support_git import Scratch, command_in, contents, read, refusal, resolved, untouched


class TestDiscovery:
    def test_a_sub_directory_finds_the_repository_above_it(self, scratch: Scratch) -> None:
        with Repository.discover(scratch.path / "sub") as repository:
            assert repository.root == scratch.path
            assert set(contents(repository.resolve("HEAD"))) == {"a.txt", "sub/b.txt"}
            assert set(contents(repository.resolve("WORKTREE"))) == {"a.txt", "sub/b.txt"}

    def test_a_bare_repository_has_trees_but_no_worktree(self, scratch: Scratch, tmp_path: Path) -> None:
        scratch.git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
        with Repository.discover(tmp_path / "bare.git") as repository:
            assert repository.root is None
            assert contents(repository.resolve("main"))["sub/b.txt"] == b"b\n"
            with pytest.raises(UsageError, match=r"WORKTREE needs a working tree"):
                repository.resolve("WORKTREE")

    def test_a_linked_worktree_has_its_own_head_and_files(self, scratch: Scratch, tmp_path: Path) -> None:
        linked = tmp_path / "linked"
        scratch.git("worktree", "add", "-q", "-b", "other", str(linked), "HEAD~1")
        (linked / "new.txt").write_text("new")
        with Repository.discover(linked) as repository, untouched(scratch):
            assert repository.root == linked
            assert contents(repository.resolve("HEAD")) == {"a.txt": b"first\n"}
            assert contents(repository.resolve("WORKTREE")) == {"a.txt": b"first\n", "new.txt": b"new"}

    def test_git_dir_and_git_work_tree_lead_elsewhere(
        self, scratch: Scratch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.setenv("GIT_DIR", os.path.relpath(scratch.path / ".git", elsewhere))
        monkeypatch.setenv("GIT_WORK_TREE", str(scratch.path))
        with Repository.discover(elsewhere) as repository:
            assert repository.root == scratch.path
            assert contents(repository.resolve("WORKTREE"))["a.txt"] == b"second\n"

    def test_the_index_of_a_commit_in_progress_is_the_one_that_counts(
        self, scratch: Scratch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As in a pre-commit hook, which git runs with GIT_INDEX_FILE set."""
        scratch.git("add", "-N", "a.txt")
        (scratch.path / ".git" / "index").rename(scratch.path / ".git" / "next-index")
        monkeypatch.setenv("GIT_INDEX_FILE", ".git/next-index")
        (scratch.path / ".gitignore").write_text("*.txt\n")
        assert set(read(scratch.path, "WORKTREE")) == {".gitignore", "a.txt", "sub/b.txt"}

    def test_inside_the_git_directory_refs_work_and_worktree_says_why_not(self, scratch: Scratch) -> None:
        assert resolved(scratch.path / ".git", "main").commit == scratch.git("rev-parse", "main")
        assert "needs a working tree" in refusal(scratch.path / ".git", "WORKTREE")

    def test_a_directory_without_a_repository_is_a_usage_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
        with pytest.raises(UsageError, match="is not in a git repository"):
            Repository.discover(tmp_path)
        with pytest.raises(UsageError, match="is not a directory"):
            Repository.discover(tmp_path / "absent")

    def test_a_repository_of_another_owner_is_refused_with_the_command_that_trusts_it(
        self, scratch: Scratch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        with pytest.raises(UsageError) as caught:
            Repository.discover(scratch.path)
        assert command_in(str(caught.value)) == [
            *("config", "--global", "--add", "safe.directory", str(scratch.path)),
        ]

    def test_a_broken_configuration_is_a_failure_of_the_environment_in_one_sentence(
        self, scratch: Scratch
    ) -> None:
        (scratch.path / ".git" / "config").write_text("[core\n")
        with pytest.raises(EnvironmentFailure, match=r"bad config line 1 in file .*config"):
            Repository.discover(scratch.path)

    def test_without_git_the_sentence_says_what_to_install(self, scratch: Scratch, tmp_path: Path) -> None:
        """In a fresh interpreter, since GitPython looks for git when it is imported."""
        code = (
            "import sys, pathlib\n"
            "from refcompare.errors import EnvironmentFailure\n"
            "from refcompare.git import Repository\n"
            "try: Repository.discover(pathlib.Path(sys.argv[1]))\n"
            "except EnvironmentFailure as error: print(error)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, scratch.path],
            env={"PATH": str(tmp_path / "home"), "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "git was not found on PATH: install it" in done.stdout
