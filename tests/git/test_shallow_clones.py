"""History that a shallow clone lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from refcompare.errors import UsageError
from refcompare.git import Repository
from tests.support_git import Scratch, command_in, read, refusal, resolved


class TestShallowClones:
    """The printed command has to be the one that helps, so it is run."""

    @pytest.fixture
    def origin(self, scratch: Scratch) -> Scratch:
        scratch.git("switch", "-q", "-c", "topic", "HEAD~1")
        scratch.commit({"t.txt": "t"})
        scratch.git("tag", "v1")
        scratch.git("switch", "-q", "main")
        scratch.commit({"a.txt": "third\n"})
        return scratch

    @pytest.fixture
    def clone(self, origin: Scratch, tmp_path: Path) -> Scratch:
        clone = Scratch(tmp_path / "clone")
        origin.git("clone", "-q", "--depth=1", f"file://{origin.path}", str(clone.path))
        return clone

    def test_a_shallow_clone_knows_that_it_is_one(self, origin: Scratch, clone: Scratch) -> None:
        for scratch, expected in ((origin, False), (clone, True)):
            with Repository.discover(scratch.path) as repository:
                assert repository.is_shallow() is expected

    def test_what_it_has_is_read(self, clone: Scratch) -> None:
        assert read(clone.path, "HEAD")["a.txt"] == b"third\n"

    @pytest.mark.parametrize("spec", ["HEAD~1", "main~2", "main...topic", "topic...HEAD"])
    def test_missing_history_is_named_with_the_command_that_fetches_it(
        self, origin: Scratch, clone: Scratch, spec: str
    ) -> None:
        sentence = refusal(clone.path, spec)
        assert "shallow" in sentence and "fetch --unshallow" in sentence
        clone.git(*command_in(sentence))
        assert resolved(clone.path, spec).commit == origin.git(
            "rev-parse", {"HEAD~1": "main~1"}.get(spec, "main~2")
        )

    @pytest.mark.parametrize("spec", ["topic", "origin/topic", "refs/tags/v1", "SHA"])
    def test_a_missing_ref_is_named_with_the_command_that_fetches_it_alone(
        self, origin: Scratch, clone: Scratch, spec: str
    ) -> None:
        sha = origin.git("rev-parse", "topic")
        spec = sha if spec == "SHA" else spec
        sentence = refusal(clone.path, spec)
        assert "is not in this shallow clone" in sentence and "fetch --depth=1" in sentence
        clone.git(*command_in(sentence))
        assert resolved(clone.path, spec).commit == sha

    def test_a_misspelt_ref_is_also_told_what_was_probably_meant(self, clone: Scratch) -> None:
        assert refusal(clone.path, "mian").endswith("Did you mean main?")

    def test_both_refs_without_the_history_between_them_have_no_merge_base_yet(
        self, origin: Scratch, clone: Scratch
    ) -> None:
        clone.git("fetch", "-q", "--depth=1", "origin", "topic:topic")
        sentence = refusal(clone.path, "main...topic")
        assert "have no merge base in this shallow clone" in sentence
        clone.git(*command_in(sentence))
        assert resolved(clone.path, "main...topic").commit == origin.git("rev-parse", "main~2")

    def test_a_merge_commit_checked_out_alone_can_be_completed(self, origin: Scratch, tmp_path: Path) -> None:
        """As a pull request's job does: one commit of no branch, detached."""
        origin.git("switch", "-q", "--detach", "main")
        origin.git("merge", "-q", "-m", "merged", "topic")
        merge = origin.git("rev-parse", "HEAD")
        origin.git("update-ref", "refs/pull/1/merge", merge)
        origin.git("switch", "-q", "main")
        job = Scratch.create(tmp_path / "job")
        job.git("remote", "add", "origin", f"file://{origin.path}")
        job.git("fetch", "-q", "--depth=1", "origin", f"+{merge}:refs/remotes/pull/1/merge")
        job.git("checkout", "-q", "--detach", "refs/remotes/pull/1/merge")
        with Repository.discover(job.path) as repository:
            with pytest.raises(UsageError) as caught:
                repository.default_base()
            job.git(*command_in(str(caught.value)))
            assert repository.resolve(repository.default_base()).ref.commit == origin.git("rev-parse", "main")
            assert repository.resolve("HEAD^2").ref.commit == origin.git("rev-parse", "topic")
