"""What a ref resolves to."""

from __future__ import annotations

from pathlib import Path

import pytest

from refcompare.git import Repository, ResolvedRef
from tests.support_git import Scratch, contents, read, refusal, resolved


class TestRefs:
    @pytest.mark.parametrize(
        ("spec", "commit", "label"),
        [
            ("main", "main", "main ({})"),
            ("refs/heads/main", "main", "main ({})"),
            ("HEAD", "main", "HEAD ({})"),
            ("@", "main", "@ ({})"),
            ("light", "main~1", "light ({})"),
            ("annotated", "main~1", "annotated ({})"),
            ("tag-of-a-tag", "main~1", "tag-of-a-tag ({})"),
            ("HEAD~1", "main~1", "HEAD~1 ({})"),
            ("main^", "main~1", "main^ ({})"),
            ("main@{0}", "main", "main@{{0}} ({})"),
            ("HEAD^{/first}", "main~1", "HEAD^{{/first}} ({})"),
            ("topic/ü", "main~1", "topic/ü ({})"),
        ],
    )
    def test_whatever_git_resolves_to_a_commit_is_a_ref(
        self, scratch: Scratch, spec: str, commit: str, label: str
    ) -> None:
        scratch.git("tag", "light", "HEAD~1")
        scratch.git("tag", "-a", "-m", "x", "annotated", "HEAD~1")
        scratch.git("tag", "-a", "-m", "x", "tag-of-a-tag", "annotated")
        scratch.git("branch", "topic/ü", "HEAD~1")
        sha = scratch.git("rev-parse", commit)
        with Repository.discover(scratch.path) as repository:
            tree = repository.resolve(spec)
        assert tree.ref == ResolvedRef(spec, sha, label.format(sha[:7]))
        assert tree.digest == scratch.git("rev-parse", f"{commit}^{{tree}}")

    @pytest.mark.parametrize("digits", [4, 7, 12, 40])
    def test_a_sha_is_a_ref_in_any_length_and_case(self, scratch: Scratch, digits: int) -> None:
        sha = scratch.git("rev-parse", "HEAD")
        for spec in (sha[:digits], sha[:digits].upper()):
            assert resolved(scratch.path, spec) == ResolvedRef(spec, sha, sha[:7])

    def test_a_folder_of_a_commit_and_a_bare_tree_are_refs_without_a_commit(self, scratch: Scratch) -> None:
        sha = scratch.git("rev-parse", "HEAD:sub")
        with Repository.discover(scratch.path) as repository:
            for spec, label in (("HEAD:sub", f"HEAD:sub (tree {sha[:7]})"), (sha, f"tree {sha[:7]}")):
                tree = repository.resolve(spec)
                assert tree.ref == ResolvedRef(spec, None, label)
                assert (tree.digest, contents(tree)) == (sha, {"b.txt": b"b\n"})

    def test_the_empty_tree_has_no_files(self, scratch: Scratch) -> None:
        sha = scratch.git("hash-object", "-t", "tree", "--stdin")
        assert read(scratch.path, sha) == {}

    def test_two_refs_with_three_dots_are_their_merge_base(self, scratch: Scratch) -> None:
        scratch.git("switch", "-q", "-c", "topic", "HEAD~1")
        scratch.commit({"c.txt": "c"})
        base = scratch.git("rev-parse", "main~1")
        for spec in ("main...topic", "main...", "...main"):
            assert resolved(scratch.path, spec) == ResolvedRef(spec, base, f"{spec} (merge base {base[:7]})")
        with Repository.discover(scratch.path) as repository:
            assert repository.merge_base("main", "WORKTREE") == base
            assert repository.history("main~1", "topic") == [scratch.git("rev-parse", "topic")]

    def test_a_ref_does_not_move_when_its_branch_does(self, scratch: Scratch) -> None:
        with Repository.discover(scratch.path) as repository:
            tree = repository.resolve("main")
            scratch.commit({"a.txt": "third\n"})
            assert contents(tree)["a.txt"] == b"second\n"

    def test_a_detached_head_is_a_ref(self, scratch: Scratch) -> None:
        scratch.git("checkout", "-q", "--detach", "HEAD~1")
        assert read(scratch.path, "HEAD") == read(scratch.path, "WORKTREE") == {"a.txt": b"first\n"}

    def test_packed_refs_and_objects_read_like_loose_ones(self, scratch: Scratch) -> None:
        before = read(scratch.path, "main")
        scratch.git("gc", "-q")
        scratch.git("pack-refs", "--all")
        assert read(scratch.path, "main") == before

    def test_a_branch_that_only_a_remote_has_answers_to_its_short_name(
        self, scratch: Scratch, tmp_path: Path
    ) -> None:
        scratch.git("branch", "topic", "HEAD~1")
        clone = Scratch(tmp_path / "clone")
        scratch.git("clone", "-q", ".", str(clone.path))
        first, second = scratch.git("rev-parse", "main~1"), scratch.git("rev-parse", "main")
        assert resolved(clone.path, "topic") == ResolvedRef("topic", first, f"origin/topic ({first[:7]})")
        assert resolved(clone.path, "main...topic").commit == first
        assert read(clone.path, "topic:") == {"a.txt": b"first\n"}
        clone.git("branch", "-q", "--no-track", "topic", "main")
        assert resolved(clone.path, "topic").commit == second

    def test_a_remotes_branch_never_stands_in_for_more_of_a_local_one(
        self, scratch: Scratch, tmp_path: Path
    ) -> None:
        clone = Scratch(tmp_path / "clone")
        scratch.git("clone", "-q", ".", str(clone.path))
        clone.git("switch", "-q", "--orphan", "island")
        clone.commit({"x": "x"})
        clone.git("branch", "-f", "main", "island")
        assert "git finds no 'main~1' from there" in refusal(clone.path, "main~1")
        assert "git finds no 'HEAD~1' from there" in refusal(clone.path, "HEAD~1")

    def test_of_two_remotes_origin_wins_and_otherwise_neither(self, scratch: Scratch) -> None:
        for remote, commit in (("upstream", "main"), ("fork", "main~1")):
            scratch.git("remote", "add", remote, "https://example.org/x.git")
            scratch.git("update-ref", f"refs/remotes/{remote}/topic", commit)
        assert "is on several remotes: give fork/topic or upstream/topic" in refusal(scratch.path, "topic")
        scratch.git("remote", "add", "origin", "https://example.org/x.git")
        scratch.git("update-ref", "refs/remotes/origin/topic", "main~1")
        assert resolved(scratch.path, "topic").label.startswith("origin/topic")

    def test_a_branch_called_worktree_yields_to_the_word(self, scratch: Scratch) -> None:
        scratch.git("branch", "WORKTREE", "HEAD~1")
        assert resolved(scratch.path, "WORKTREE") == ResolvedRef("WORKTREE", None, "WORKTREE")
        assert resolved(scratch.path, "refs/heads/WORKTREE").commit == scratch.git("rev-parse", "main~1")

    def test_sha_256_repositories_are_read_too(self, tmp_path: Path) -> None:
        scratch = Scratch.create(tmp_path / "long", "--object-format=sha256")
        sha = scratch.commit({"a.txt": "a\n"})
        scratch.write("b.txt", "b\n")
        assert len(sha) == 64
        assert resolved(scratch.path, sha[:9]).commit == sha
        assert read(scratch.path, "HEAD") == {"a.txt": b"a\n"}
        assert read(scratch.path, "WORKTREE") == {"a.txt": b"a\n", "b.txt": b"b\n"}

    def test_a_replaced_object_is_read_as_its_sha_says(self, scratch: Scratch) -> None:
        scratch.git("replace", "HEAD", "HEAD~1")
        assert scratch.git("show", "HEAD:a.txt") == "first"
        assert read(scratch.path, "HEAD")["a.txt"] == b"second\n"
