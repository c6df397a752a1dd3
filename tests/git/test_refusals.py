"""Refs that are refused, each with a sentence that says what to do."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path

import pytest

from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.git import Repository
from tests.support_git import Scratch, many_commits, read, refusal, resolved


class TestRefusals:
    def test_an_unknown_ref_names_what_was_probably_meant(self, scratch: Scratch, tmp_path: Path) -> None:
        scratch.git("branch", "feature/audit")
        scratch.git("tag", "v1.2.0")
        clone = tmp_path / "clone"
        scratch.git("clone", "-q", ".", str(clone))
        assert refusal(scratch.path, "mian").endswith("Did you mean main?")
        assert refusal(scratch.path, "feature/Audits").endswith("Did you mean feature/audit?")
        assert refusal(scratch.path, "v1.20").endswith("Did you mean v1.2.0?")
        assert "feature/audit" in refusal(clone, "feature/audot~2")
        assert refusal(scratch.path, "zzzz").endswith("`git branch --all` and `git tag` list what there is.")
        assert "is no branch, tag or commit" in refusal(scratch.path, "f" * 40)

    @pytest.mark.parametrize(
        "spec", ["-", "--all", "-n1", "--git-dir=/", "^main", "", "main\0", "--upload-pack=x"]
    )
    def test_what_git_would_take_for_an_option_or_a_negation_is_no_ref(
        self, scratch: Scratch, spec: str
    ) -> None:
        assert "is not a ref: give a branch, a tag, a SHA" in refusal(scratch.path, spec)

    def test_text_that_no_name_can_hold_is_no_ref(self, scratch: Scratch) -> None:
        """Half a surrogate pair comes out of JSON, and has no bytes."""
        assert "'\\ud800' is not a ref" in refusal(scratch.path, "\ud800")
        assert "is not a ref" in refusal(scratch.path, "main...\ud800")

    def test_neither_side_of_a_merge_base_is_an_option(self, scratch: Scratch) -> None:
        assert "is not a ref" in refusal(scratch.path, "--all...main")
        assert "is not a ref" in refusal(scratch.path, "main...--all")

    def test_a_range_says_how_to_compare_two_refs(self, scratch: Scratch) -> None:
        assert "give BASE and HEAD as two words" in refusal(scratch.path, "main~1..main")

    def test_a_file_is_not_a_ref_and_a_folder_that_is_not_there_neither(self, scratch: Scratch) -> None:
        assert "'HEAD:a.txt' is a file" in refusal(scratch.path, "HEAD:a.txt")
        assert "'HEAD' has no folder 'nowhere'" in refusal(scratch.path, "HEAD:nowhere")
        assert "is a file" in refusal(scratch.path, scratch.git("rev-parse", "HEAD:a.txt"))

    def test_further_back_than_the_first_commit_there_is_nothing(self, scratch: Scratch) -> None:
        assert "'HEAD' exists, but git finds no 'HEAD~9' from there" in refusal(scratch.path, "HEAD~9")

    def test_hostile_names_are_shown_without_their_power(self, scratch: Scratch) -> None:
        assert "'x\\x1b[31m\\u202ey\\n'" in refusal(scratch.path, "x\x1b[31m\u202ey\n")
        assert "'caf\\xe9'" in refusal(scratch.path, "caf\udce9")

    def test_names_of_refs_are_suggested_whole(self, scratch: Scratch) -> None:
        scratch.git("branch", "release\u2028notes")
        assert refusal(scratch.path, "release_notes").endswith("Did you mean release\\u2028notes?")

    def test_directories_are_shown_without_their_power(self, tmp_path: Path, scratch: Scratch) -> None:
        place = tmp_path / "x\x1b[31m\udcff"
        with pytest.raises(UsageError, match=r"x\\x1b\[31m\\xff is not a directory"):
            Repository.discover(place)
        scratch.git("clone", "-q", "--bare", ".", str(place))
        assert "x\\x1b[31m\\xff has none here" in refusal(place, "WORKTREE")

    def test_a_repository_without_commits_says_so(self, tmp_path: Path) -> None:
        scratch = Scratch.create(tmp_path / "empty")
        scratch.write("a.txt", "a")
        for spec in ("HEAD", "HEAD~1", "main", "main...HEAD"):
            assert "nothing is committed yet: commit first" in refusal(scratch.path, spec)
        with (
            Repository.discover(scratch.path) as repository,
            pytest.raises(UsageError, match="nothing is committed"),
        ):
            repository.default_base()
        assert read(scratch.path, "WORKTREE") == {"a.txt": b"a"}

    def test_a_short_sha_of_several_commits_names_them(self, tmp_path: Path) -> None:
        scratch, first, second = many_commits(tmp_path)
        sentence = refusal(scratch.path, first[:4])
        assert f"'{first[:4]}' is how several SHAs begin" in sentence
        assert first in sentence and second in sentence
        assert resolved(scratch.path, first[:9]).commit == first

    def test_a_short_sha_of_one_commit_and_some_blob_is_the_commit(self, scratch: Scratch) -> None:
        sha = scratch.git("rev-parse", "HEAD")
        texts = (b"%d" % number for number in itertools.count())
        blob = next(t for t in texts if hashlib.sha1(b"blob %d\0" % len(t) + t).hexdigest()[:4] == sha[:4])
        scratch.git("hash-object", "-w", "--stdin", stdin=blob)
        assert resolved(scratch.path, sha[:4]).commit == sha

    def test_a_name_of_a_branch_and_of_a_tag_is_refused_unless_they_agree(self, scratch: Scratch) -> None:
        scratch.git("branch", "both", "main")
        scratch.git("tag", "both", "main")
        assert resolved(scratch.path, "both").commit == scratch.git("rev-parse", "main")
        scratch.git("branch", "-f", "both", "main~1")
        assert "is the name of several refs: give tags/both or heads/both" in refusal(scratch.path, "both")
        assert resolved(scratch.path, "heads/both").commit == scratch.git("rev-parse", "main~1")

    def test_a_branch_named_like_another_commits_sha_is_refused(self, scratch: Scratch) -> None:
        """Git would take the branch, and whoever may push one would choose what is compared."""
        sha = scratch.git("rev-parse", "HEAD")
        scratch.git("branch", sha[:7], "HEAD~1")
        sentence = refusal(scratch.path, sha[:7])
        assert f"is the name of several refs: give heads/{sha[:7]} or {sha}" in sentence
        assert "is the name of several refs" in refusal(scratch.path, f"{sha[:7]}^{{tree}}")
        scratch.git("branch", "-f", sha[:7], "HEAD")
        assert resolved(scratch.path, sha[:7]).commit == sha

    def test_a_branch_named_by_a_whole_sha_never_stands_in_for_it(self, scratch: Scratch) -> None:
        sha = scratch.git("rev-parse", "HEAD")
        scratch.git("update-ref", f"refs/heads/{sha}", "HEAD~1")
        assert resolved(scratch.path, sha).commit == sha

    def test_a_branch_named_by_a_year_is_no_sha(self, tmp_path: Path) -> None:
        scratch, first, _ = many_commits(tmp_path)
        commit = scratch.git("rev-parse", "main")
        scratch.git("update-ref", f"refs/heads/{first[:4]}", commit)
        assert resolved(scratch.path, first[:4]).commit == commit

    def test_a_ref_outside_of_refs_does_not_hide_the_branch_of_its_name(self, scratch: Scratch) -> None:
        """``git update-ref main X`` makes one, where ``refs/heads/main`` was meant."""
        scratch.git("update-ref", "main", "HEAD~1")
        assert "'main' is the name of several refs: give heads/main" in refusal(scratch.path, "main")
        assert resolved(scratch.path, "heads/main").commit == scratch.git("rev-parse", "HEAD")

    def test_no_branch_or_tag_can_take_the_name_head(self, scratch: Scratch) -> None:
        scratch.git("update-ref", "refs/heads/HEAD", "HEAD~1")
        scratch.git("update-ref", "refs/tags/HEAD", scratch.commit({"c.txt": "c"}))
        scratch.git("update-ref", "refs/remotes/HEAD", "HEAD~1")
        assert resolved(scratch.path, "HEAD").commit == scratch.git("rev-parse", "refs/heads/main")
        assert resolved(scratch.path, "HEAD~1").commit == scratch.git("rev-parse", "refs/heads/main~1")

    def test_refs_without_common_history_have_no_merge_base(self, scratch: Scratch) -> None:
        scratch.git("switch", "-q", "--orphan", "island")
        scratch.commit({"x": "x"})
        assert "have no merge base: they share no history" in refusal(scratch.path, "main...island")
        assert "is not a commit" in refusal(scratch.path, "island...main:sub")

    def test_a_damaged_object_is_a_failure_of_the_environment(self, scratch: Scratch) -> None:
        blob = scratch.git("rev-parse", "HEAD:a.txt")
        place = scratch.path / ".git" / "objects" / blob[:2] / blob[2:]
        place.chmod(0o644)
        place.write_bytes(b"not an object")
        with Repository.discover(scratch.path) as repository:
            tree = repository.resolve("HEAD")
            with pytest.raises(EnvironmentFailure, match=r"a\.txt cannot be read: .*Run `git fsck`"):
                tree.read("a.txt")
            assert tree.read("sub/b.txt") == b"b\n"
            place.unlink()
            with pytest.raises(EnvironmentFailure, match=r"a\.txt cannot be read: .* is missing or damaged"):
                tree.read("a.txt")
