"""The ref that is compared with where none was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from refcompare.errors import UsageError
from refcompare.git import Repository
from tests.support_git import Scratch


class TestDefaultBase:
    def test_it_is_the_merge_base_with_the_remotes_default_branch(
        self, scratch: Scratch, tmp_path: Path
    ) -> None:
        scratch.git("branch", "-m", "main", "develop")
        clone = Scratch(tmp_path / "clone")
        scratch.git("clone", "-q", ".", str(clone.path))
        clone.git("branch", "main", "HEAD~1")
        clone.git("switch", "-q", "-c", "topic")
        clone.commit({"c": "c"})
        with Repository.discover(clone.path) as repository:
            assert repository.default_base() == "origin/develop...HEAD"
            base = repository.resolve(repository.default_base())
        assert base.ref.commit == scratch.git("rev-parse", "develop")

    @pytest.mark.parametrize("branch", ["main", "master", "trunk", "mainline"])
    def test_without_a_remote_it_is_a_branch_of_the_usual_names(self, scratch: Scratch, branch: str) -> None:
        scratch.git("config", "init.defaultBranch", "mainline")
        scratch.git("branch", "-m", "main", branch)
        scratch.git("switch", "-q", "-c", "topic")
        with Repository.discover(scratch.path) as repository:
            assert repository.default_base() == f"{branch}...HEAD"

    def test_a_checkout_that_only_fetched_the_branch_finds_it(self, scratch: Scratch, tmp_path: Path) -> None:
        """As continuous integration does: no local branch, no origin/HEAD, a detached HEAD."""
        job = Scratch.create(tmp_path / "job")
        job.git("remote", "add", "origin", str(scratch.path))
        job.git("fetch", "-q", "origin")
        job.git("checkout", "-q", "--detach", "origin/main")
        with Repository.discover(job.path) as repository:
            assert repository.resolve(repository.default_base()).ref.commit == scratch.git(
                "rev-parse", "main"
            )

    def test_without_any_default_branch_it_asks_for_base(self, scratch: Scratch) -> None:
        scratch.git("branch", "-m", "main", "something-else")
        with Repository.discover(scratch.path) as repository, pytest.raises(UsageError, match="give BASE"):
            repository.default_base()
