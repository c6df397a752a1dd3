"""Refs and trees, on real repositories."""

from __future__ import annotations

import gc
import hashlib
import itertools
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.git import GitTree, Repository, ResolvedRef, WorktreeTree
from refcompare.tree import Tree
from tests.support_git import Scratch, isolate, settle, untouched

CRLF = b"one\r\ntwo\r\n"
LF = b"one\ntwo\n"


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


def contents(tree: Tree) -> dict[str, bytes]:
    found = {file.path: tree.read(file.path) for file in tree.files()}
    assert {file.path: file.size for file in tree.files()} == {
        path: len(data) for path, data in found.items()
    }
    return found


def read(path: Path, spec: str) -> dict[str, bytes]:
    with Repository.discover(path) as repository:
        return contents(repository.resolve(spec))


def resolved(path: Path, spec: str) -> ResolvedRef:
    with Repository.discover(path) as repository:
        return repository.resolve(spec).ref


def refusal(path: Path, spec: str) -> str:
    with Repository.discover(path) as repository, pytest.raises(UsageError) as caught:
        repository.resolve(spec)
    sentence = str(caught.value)
    assert "\n" not in sentence and sentence.isprintable()
    return sentence


def command_in(sentence: str) -> list[str]:
    match = re.search(r"`(git [^`]*)`", sentence)
    assert match, sentence
    return shlex.split(match[1])[1:]


def many_commits(tmp_path: Path) -> tuple[Scratch, str, str]:
    """Give a repository of so many commits that two SHAs, given too, begin with the same four digits."""
    scratch = Scratch.create(tmp_path / "many")
    who = b"committer A <a@example.org> 1700000000 +0000"
    stream = b"".join(b"commit refs/heads/main\n%s\ndata 5\n%05d\n\n" % (who, n) for n in range(1200))
    scratch.git("fast-import", "--quiet", stdin=stream)
    shas = sorted(scratch.git("rev-list", "main").split())
    return scratch, *next((a, b) for a, b in itertools.pairwise(shas) if a[:4] == b[:4])


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


class TestPartialClones:
    @pytest.fixture
    def clone(self, scratch: Scratch, tmp_path: Path) -> Scratch:
        scratch.git("config", "uploadpack.allowFilter", "true")
        clone = Scratch(tmp_path / "clone")
        scratch.git("clone", "-q", "--filter=blob:none", f"file://{scratch.path}", str(clone.path))
        return clone

    def test_what_is_here_is_read_and_what_is_not_is_never_fetched(self, clone: Scratch) -> None:
        with Repository.discover(clone.path) as repository, untouched(clone):
            assert contents(repository.resolve("HEAD")) == {"a.txt": b"second\n", "sub/b.txt": b"b\n"}
            assert contents(repository.resolve("WORKTREE")) == {"a.txt": b"second\n", "sub/b.txt": b"b\n"}
            first = repository.resolve("HEAD~1")
            assert [(file.path, file.size) for file in first.files()] == [("a.txt", 0)]
            with pytest.raises(EnvironmentFailure, match=r"a\.txt cannot be read: .* partial clone"):
                first.read("a.txt")

    def test_the_printed_command_completes_the_clone(self, clone: Scratch) -> None:
        with Repository.discover(clone.path) as repository:
            tree = repository.resolve("HEAD~1")
            with pytest.raises(EnvironmentFailure) as caught:
                tree.read("a.txt")
            clone.git(*command_in(str(caught.value)))
            assert tree.read("a.txt") == b"first\n"

    def test_a_tree_that_was_left_out_is_no_crash(self, scratch: Scratch, tmp_path: Path) -> None:
        scratch.git("config", "uploadpack.allowFilter", "true")
        clone = Scratch(tmp_path / "treeless")
        scratch.git(
            "clone", "-q", "--no-checkout", "--filter=tree:0", f"file://{scratch.path}", str(clone.path)
        )
        with pytest.raises(EnvironmentFailure, match="partial clone"):
            read(clone.path, "HEAD")

    def test_unmodified_files_whose_blobs_are_not_here_are_read_from_the_disk(
        self, scratch: Scratch, clone: Scratch
    ) -> None:
        blob = scratch.git("rev-parse", "HEAD:a.txt")
        packs = clone.path / ".git" / "objects" / "pack"
        kept = clone.git("cat-file", "--batch-check", "--batch-all-objects").splitlines()
        lines = [line.split()[0] for line in kept if not line.startswith(blob)]
        made = clone.git(
            "pack-objects", "-q", str(clone.path / "kept"), stdin="\n".join(lines).encode() + b"\n"
        )
        for old in packs.iterdir():
            old.unlink()
        for end in ("pack", "idx", "rev"):
            if (clone.path / f"kept-{made}.{end}").exists():
                (clone.path / f"kept-{made}.{end}").rename(packs / f"pack-{made}.{end}")
        (packs / f"pack-{made}.promisor").touch()
        with Repository.discover(clone.path) as repository:
            with pytest.raises(EnvironmentFailure):
                repository.resolve("HEAD").read("a.txt")
            assert contents(repository.resolve("WORKTREE"))["a.txt"] == b"second\n"


class TestTrees:
    def test_files_come_in_the_order_of_their_bytes_with_size_and_mode(self, scratch: Scratch) -> None:
        scratch.write("run", "#!/bin/sh\n", executable=True)
        scratch.write("sub.txt", "xyz")
        scratch.write("sub/é", "")
        scratch.commit()
        with Repository.discover(scratch.path) as repository:
            for spec in ("HEAD", "WORKTREE"):
                files = [(f.path, f.size, f.executable) for f in repository.resolve(spec).files()]
                assert files == [
                    ("a.txt", 7, False),
                    ("run", 10, True),
                    ("sub.txt", 3, False),
                    ("sub/b.txt", 2, False),
                    ("sub/é", 0, False),
                ]

    @pytest.mark.parametrize("spec", ["HEAD", "WORKTREE"])
    def test_symlinks_and_submodules_are_never_files_and_never_entered(
        self, scratch: Scratch, tmp_path: Path, spec: str
    ) -> None:
        inner = Scratch.create(tmp_path / "inner")
        inner.commit({"inner.txt": "inner"})
        scratch.git(
            "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "module"
        )
        (scratch.path / "link").symlink_to("a.txt")
        (scratch.path / "folder-link").symlink_to("sub")
        (scratch.path / "away").symlink_to("/etc")
        scratch.commit()
        with Repository.discover(scratch.path) as repository:
            tree = repository.resolve(spec)
            assert [file.path for file in tree.files()] == [".gitmodules", "a.txt", "sub/b.txt"]
            for path in (
                "link",
                "folder-link",
                "folder-link/b.txt",
                "away/passwd",
                "module",
                "module/inner.txt",
                "sub",
            ):
                with pytest.raises(KeyError):
                    tree.read(path)
        assert "has no folder 'module'" in refusal(scratch.path, "HEAD:module")

    @pytest.mark.parametrize("spec", ["HEAD", "WORKTREE"])
    def test_names_that_are_not_utf_8_go_through_unharmed(self, scratch: Scratch, spec: str) -> None:
        names = [b"caf\xe9.txt", b'tab\tquote".txt', b"line\nbreak", b" leading", b":(glob)*", b"sub/\xff/x"]
        for name in names:
            place = Path(os.fsdecode(os.fsencode(scratch.path) + b"/" + name))
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(name)
        scratch.commit()
        found = read(scratch.path, spec)
        for name in names:
            assert found[name.decode("utf-8", "surrogateescape")] == name

    def test_bytes_are_given_as_they_are_stored(self, scratch: Scratch) -> None:
        binary = bytes(range(256)) * 1000
        scratch.git("config", "core.autocrlf", "false")
        pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 5\n"
        scratch.commit({"crlf": CRLF, "binary": binary, "empty": "", "pointer": pointer})
        scratch.git("config", "core.autocrlf", "true")
        found = read(scratch.path, "HEAD")
        assert (found["crlf"], found["binary"], found["empty"]) == (CRLF, binary, b"")
        assert found["pointer"] == pointer.encode()

    def test_the_digest_changes_exactly_when_a_file_does(self, scratch: Scratch) -> None:
        scratch.commit(message="nothing changed")
        with Repository.discover(scratch.path) as repository:
            digests = [repository.resolve(spec).digest for spec in ("HEAD", "HEAD~1", "HEAD~2")]
        assert digests[0] == digests[1] != digests[2]

    def test_threads_may_read_at_once(self, scratch: Scratch) -> None:
        expected = {f"many/{number}": b"%d" % number * number for number in range(200)}
        scratch.commit(dict(expected))
        with Repository.discover(scratch.path) as repository, ThreadPoolExecutor(8) as pool:
            tree = repository.resolve("HEAD")
            assert dict(zip(expected, pool.map(tree.read, expected), strict=True)) == expected

    def test_a_ctrl_c_on_the_terminal_leaves_the_trees_readable(self, scratch: Scratch) -> None:
        """It goes to the whole process group, and what is known so far still has to be written."""
        code = (
            "import os, pathlib, signal, sys, time\n"
            "from refcompare.git import Repository\n"
            "signal.signal(signal.SIGINT, lambda *_: None)\n"
            "with Repository.discover(pathlib.Path(sys.argv[1])) as repository:\n"
            "    tree = repository.resolve('HEAD')\n"
            "    tree.read('a.txt')\n"
            "    os.killpg(0, signal.SIGINT)\n"
            "    time.sleep(0.1)\n"
            "    print(tree.read('a.txt'))\n"
        )
        words = [sys.executable, "-c", code, str(scratch.path)]
        done = subprocess.run(words, start_new_session=True, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("b'second\\n'\n", "")

    def test_closing_ends_the_process_and_refuses_later_reads(self, scratch: Scratch) -> None:
        def children() -> set[str]:
            listed = [place.read_text() for place in Path("/proc/self/task").glob("*/children")]
            return set(" ".join(listed).split())

        before = children()
        with Repository.discover(scratch.path) as repository:
            tree = repository.resolve("HEAD")
            tree.read("a.txt")
        gc.collect()
        assert children() == before
        with pytest.raises(RuntimeError, match="closed"):
            tree.read("a.txt")


class TestWorktree:
    def test_it_is_the_files_as_they_lie(self, scratch: Scratch) -> None:
        scratch.commit(
            {".gitignore": "*.log\nbuild/\n", "gone": "gone", "moved": "moved", "staged": "committed"}
        )
        scratch.write("a.txt", "edited\n")
        scratch.write("new/untracked.txt", "new")
        scratch.write("debug.log", "ignored")
        scratch.write("build/out", "ignored")
        (scratch.path / "gone").unlink()
        scratch.git("rm", "-q", "--cached", "moved")
        scratch.write("staged", "staged")
        scratch.git("add", "staged")
        scratch.write("staged", "edited since")
        scratch.write("intended", "intended")
        scratch.git("add", "-N", "intended")
        with untouched(scratch):
            assert read(scratch.path, "WORKTREE") == {
                ".gitignore": b"*.log\nbuild/\n",
                "a.txt": b"edited\n",
                "intended": b"intended",
                "moved": b"moved",
                "new/untracked.txt": b"new",
                "staged": b"edited since",
                "sub/b.txt": b"b\n",
            }

    def test_a_tracked_file_counts_even_if_it_is_ignored(self, scratch: Scratch) -> None:
        scratch.commit({".gitignore": "a.txt\n"})
        assert "a.txt" in read(scratch.path, "WORKTREE")

    @pytest.mark.parametrize("later", [0, 1])
    def test_an_edit_in_the_second_of_the_add_is_seen(self, scratch: Scratch, later: int) -> None:
        """The index cannot tell such a file from the one that was added: https://git-scm.com/docs/racy-git.

        The state is forged, since whether an edit falls into the same tick of the clock is luck: the index
        holds another blob for the file than it has. Only an index later than the file is believed, as in git.
        """
        blobs = [scratch.git("hash-object", "-w", "--stdin", stdin=text) for text in (b"aaaa", b"bbbb")]
        written = scratch.write("racy", b"bbbb").stat().st_mtime
        scratch.git("add", "racy")
        index = scratch.path / ".git" / "index"
        forged = index.read_bytes()[:-20].replace(bytes.fromhex(blobs[1]), bytes.fromhex(blobs[0]))
        index.write_bytes(forged + hashlib.sha1(forged).digest())
        os.utime(index, (written + later, written + later))
        assert read(scratch.path, "WORKTREE")["racy"] == (b"aaaa" if later else b"bbbb")

    def test_an_edit_with_its_old_time_put_back_is_seen(self, scratch: Scratch) -> None:
        scratch.write("a.txt", "SECOND\n")
        assert read(scratch.path, "WORKTREE")["a.txt"] == b"SECOND\n"

    def test_what_took_a_files_place_is_not_followed(self, scratch: Scratch, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "b.txt").write_text("secret")
        scratch.commit({"to-link": "x", "to-folder": "x", "to-pipe": "x"})
        for name in ("to-link", "to-folder", "to-pipe", "sub/b.txt"):
            (scratch.path / name).unlink()
        (scratch.path / "to-link").symlink_to(outside / "b.txt")
        (scratch.path / "to-folder").mkdir()
        (scratch.path / "to-folder" / "inside").write_text("inside")
        os.mkfifo(scratch.path / "to-pipe")
        (scratch.path / "sub").rmdir()
        (scratch.path / "sub").symlink_to(outside)
        assert read(scratch.path, "WORKTREE") == {"a.txt": b"second\n", "to-folder/inside": b"inside"}

    def test_a_file_that_took_a_symlinks_place_is_a_file(self, scratch: Scratch) -> None:
        (scratch.path / "link").symlink_to("a.txt")
        scratch.commit()
        (scratch.path / "link").unlink()
        scratch.write("link", "a file now")
        assert read(scratch.path, "WORKTREE")["link"] == b"a file now"

    def test_where_git_cannot_make_symlinks_their_stand_ins_are_not_files(self, scratch: Scratch) -> None:
        scratch.git("config", "core.symlinks", "false")
        blob = scratch.git("hash-object", "-w", "--stdin", stdin=b"a.txt")
        scratch.git("update-index", "--add", "--cacheinfo", f"120000,{blob},link")
        scratch.git("checkout-index", "link")
        assert (scratch.path / "link").read_bytes() == b"a.txt"
        assert "link" not in read(scratch.path, "WORKTREE")

    def test_a_symlink_put_in_the_way_after_resolving_is_not_followed(
        self, scratch: Scratch, tmp_path: Path
    ) -> None:
        (tmp_path / "secret").write_text("secret")
        scratch.write("a.txt", "edited")
        scratch.write("sub/b.txt", "edited")
        with Repository.discover(scratch.path) as repository:
            tree = repository.resolve("WORKTREE")
            (scratch.path / "a.txt").unlink()
            (scratch.path / "a.txt").symlink_to(tmp_path / "secret")
            (scratch.path / "sub" / "b.txt").unlink()
            os.mkfifo(scratch.path / "sub" / "b.txt")
            for path in ("a.txt", "sub/b.txt"):
                with pytest.raises(EnvironmentFailure, match=f"{path} in WORKTREE cannot be read"):
                    tree.read(path)

    @pytest.mark.parametrize("text", ["later", "edited later"])
    def test_what_is_edited_after_resolving_is_never_taken_for_what_was_resolved(
        self, scratch: Scratch, text: str
    ) -> None:
        """Both arms and all trials are of the same bytes, or nothing of that file is measured."""
        (scratch.path / "a.txt").write_text("first")
        (scratch.path / "new.txt").write_text("first")
        with Repository.discover(scratch.path) as repository:
            tree = repository.resolve("WORKTREE")
            assert tree.read("a.txt") == b"first"
            for name in ("a.txt", "new.txt"):
                (scratch.path / name).write_text(text)
                with pytest.raises(
                    EnvironmentFailure, match=f"{name} in WORKTREE cannot be read: .*run again"
                ):
                    tree.read(name)
            assert tree.read("sub/b.txt") == b"b\n"
            assert repository.resolve("WORKTREE").read("a.txt") == text.encode()

    def test_a_file_that_nobody_measures_may_be_edited_meanwhile(self, scratch: Scratch) -> None:
        """Saving a file in an editor must not cost those who measure others."""
        (scratch.path / "a.txt").write_text("first")
        with Repository.discover(scratch.path) as repository:
            tree = repository.resolve("WORKTREE")
            (scratch.path / "a.txt").write_text("edited since")
            assert tree.digest not in {repository.resolve(ref).digest for ref in ("WORKTREE", "HEAD")}
            (scratch.path / "a.txt").unlink()
            assert tree.digest == tree.digest

    def test_a_repository_inside_that_is_no_submodule_is_left_out(self, scratch: Scratch) -> None:
        Scratch.create(scratch.path / "nested").commit({"x": "x"})
        assert set(read(scratch.path, "WORKTREE")) == {"a.txt", "sub/b.txt"}

    def test_files_in_conflict_are_given_once_as_they_lie(self, scratch: Scratch) -> None:
        scratch.git("switch", "-q", "-c", "topic", "HEAD~1")
        scratch.commit({"a.txt": "ours\n"})
        scratch.git("merge", "-q", "main", check=False)
        assert scratch.git("ls-files", "-u")
        assert b"<<<<<<<" in read(scratch.path, "WORKTREE")["a.txt"]

    def test_modes_come_from_the_disk_unless_the_repository_says_not_to_trust_them(
        self, scratch: Scratch
    ) -> None:
        def executable() -> bool:
            with Repository.discover(scratch.path) as repository:
                return next(f.executable for f in repository.resolve("WORKTREE").files() if f.path == "a.txt")

        (scratch.path / "a.txt").chmod(0o755)
        assert executable()
        scratch.git("config", "core.fileMode", "false")
        assert not executable()

    @pytest.mark.parametrize("sparse_index", [False, True])
    def test_what_a_sparse_checkout_left_out_is_read_from_the_commit(
        self, scratch: Scratch, sparse_index: bool
    ) -> None:
        scratch.commit({"far/away/c.txt": "c\n", "far/e.txt": "e\n", "near/d.txt": "d\n"})
        flag = "--sparse-index" if sparse_index else "--no-sparse-index"
        scratch.git("sparse-checkout", "set", "--cone", flag, "near")
        assert not (scratch.path / "far").exists()
        # To expand a sparse index git writes trees, or touches the ones that are there.
        with untouched(scratch, object_times=not sparse_index):
            assert read(scratch.path, "WORKTREE") == read(scratch.path, "HEAD")
        scratch.write("near/d.txt", "edited")
        scratch.write("near/new.txt", "new")
        scratch.git("add", "near")
        scratch.write("far/e.txt", "as it lies")
        with untouched(scratch, object_times=not sparse_index):
            assert read(scratch.path, "WORKTREE") == {
                **read(scratch.path, "HEAD"),
                "near/d.txt": b"edited",
                "near/new.txt": b"new",
                "far/e.txt": b"as it lies",
            }

    @pytest.mark.parametrize("words", [("--index-version", "4"), ("--split-index",), ("--untracked-cache",)])
    def test_every_form_of_index_is_understood(self, scratch: Scratch, words: tuple[str, ...]) -> None:
        scratch.git("update-index", *words)
        scratch.write("a.txt", "edited")
        assert read(scratch.path, "WORKTREE") == {"a.txt": b"edited", "sub/b.txt": b"b\n"}

    @pytest.mark.parametrize("skipped", [False, True])
    def test_a_forged_index_leads_neither_out_of_the_tree_nor_to_credentials(
        self, scratch: Scratch, tmp_path: Path, skipped: bool
    ) -> None:
        (tmp_path / "away!").write_text("secret")
        names = {"--/away!": "../away!", ".gix/config": ".git/config", "-etc": "/etc", ".giz": ".git"}
        for name in names:
            scratch.write(name, "x")
        scratch.git("add", "-A")
        if skipped:
            scratch.git("update-index", "--skip-worktree", "--", *names)
        index = scratch.path / ".git" / "index"
        forged = index.read_bytes()[:-20]
        for honest, name in names.items():
            forged = forged.replace(honest.encode() + b"\0", name.encode() + b"\0")
        index.write_bytes(forged + hashlib.sha1(forged).digest())
        with Repository.discover(scratch.path) as repository:
            try:
                paths = set(contents(repository.resolve("WORKTREE")))
            except EnvironmentFailure as error:  # a git that refuses such an index will do
                assert "`git ls-files` failed" in str(error)
                return
        assert not paths & set(names.values())

    def test_the_digest_is_of_the_content_and_not_of_its_times(self, scratch: Scratch) -> None:
        def digest() -> str:
            with Repository.discover(scratch.path) as repository:
                return repository.resolve("WORKTREE").digest

        first = digest()
        settle(scratch.path)
        assert digest() == first
        scratch.write("new", "new")
        second = digest()
        scratch.git("add", "new")
        assert first != second == digest()
        (scratch.path / "new").chmod(0o755)
        assert digest() not in (first, second)
        (scratch.path / "new").unlink()
        assert digest() == first


TEXTS = {
    "crlf": CRLF,
    "lf": LF,
    "mixed": b"one\r\ntwo\n",
    "lone": b"one\r\ntwo\rthree\r\n",
    "binary": b"PK\0\r\n\r\n",
    "control": b"\x01\x02\x03\r\n",
    "end": b"text\r\n" + b"x" * 200 + b"\x1a",
    "empty": b"",
    "ids": b"$Id$ $Id: 1$ $Id:$ $Id: \r\n$ $Id$Id: x$ $Id: y\r\n",
}
ATTRIBUTES = [
    "",
    "text",
    "-text",
    "text=auto",
    "text=auto eol=crlf",
    "eol=crlf",
    "-text eol=lf",
    "crlf",
    "crlf=input",
    "ident",
    "text ident",
    "filter=lfs ident",
]


class TestLineEndings:
    @pytest.mark.parametrize("autocrlf", ["false", "true", "input"])
    @pytest.mark.parametrize("attributes", ATTRIBUTES)
    def test_worktree_gives_what_git_add_would_store(
        self, tmp_path: Path, autocrlf: str, attributes: str
    ) -> None:
        """Git is the judge: each file is new, and is committed in one form and edited to another."""
        scratch = Scratch.create(tmp_path / "repository")
        pairs = [(before, after) for before in ("crlf", "lf", "binary") for after in TEXTS if before != after]
        scratch.commit({f"{before}-{after}": TEXTS[before] for before, after in pairs})
        scratch.git("config", "core.autocrlf", autocrlf)
        scratch.write(".gitattributes", f"* {attributes}\n" if attributes else "")
        for before, after in pairs:
            scratch.write(f"{before}-{after}", TEXTS[after])
        for name, text in TEXTS.items():
            scratch.write(name, text)
        found = read(scratch.path, "WORKTREE")
        scratch.commit()
        assert found == read(scratch.path, "HEAD")

    @pytest.mark.parametrize(
        "value", ["autocrlf", "autocrlf = 2", "autocrlf = INPUT", "autocrlf =", "autocrlf = no"]
    )
    def test_core_autocrlf_is_read_as_git_reads_it(self, scratch: Scratch, value: str) -> None:
        with (scratch.path / ".git" / "config").open("a") as config:
            config.write(f"[core]\n\t{value}\n")
        scratch.write("a.txt", CRLF)
        found = read(scratch.path, "WORKTREE")
        scratch.commit()
        assert found == read(scratch.path, "HEAD")

    @pytest.mark.parametrize("ours", [CRLF, LF])
    def test_a_file_in_conflict_keeps_the_line_endings_of_our_side(
        self, scratch: Scratch, ours: bytes
    ) -> None:
        scratch.git("switch", "-q", "-c", "topic", "HEAD~1")
        scratch.commit({"a.txt": ours})
        scratch.git("merge", "-q", "main", check=False)
        scratch.write("a.txt", b"merged\r\n" + CRLF)
        scratch.write(".gitattributes", "* text=auto\n")
        found = read(scratch.path, "WORKTREE")
        scratch.commit()
        assert found == read(scratch.path, "HEAD")

    @pytest.mark.parametrize("touched", [False, True])
    @pytest.mark.parametrize("how", ["autocrlf", "attribute"])
    def test_an_untouched_checkout_with_crlf_reads_like_its_commit(
        self, tmp_path: Path, how: str, touched: bool
    ) -> None:
        origin = Scratch.create(tmp_path / "origin")
        origin.commit({"a.json": LF, "kept.bat": CRLF, "image": b"\x89PNG\r\n\0", ".gitattributes": ""})
        if how == "attribute":
            origin.commit({".gitattributes": "*.json text eol=crlf\n"})
        config = ["-c", "core.autocrlf=true"] if how == "autocrlf" else []
        origin.git(*config, "clone", "-q", *config, ".", str(tmp_path / "clone"))
        clone = Scratch(tmp_path / "clone")
        assert (clone.path / "a.json").read_bytes() == CRLF
        if touched:
            settle(clone.path)
        with untouched(clone):
            assert read(clone.path, "WORKTREE") == read(clone.path, "HEAD") == read(origin.path, "HEAD")

    @pytest.mark.parametrize("touched", [False, True])
    def test_an_lfs_file_reads_like_its_pointer_until_it_is_edited(
        self, scratch: Scratch, touched: bool
    ) -> None:
        content = b"large\0content"
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n" % (
            hashlib.sha256(content).hexdigest().encode(),
            len(content),
        )
        scratch.commit({"big.bin": pointer, ".gitattributes": "*.bin filter=lfs -text\n"})
        scratch.write("big.bin", content)
        scratch.git("-c", f"filter.lfs.clean=printf %s {shlex.quote(pointer.decode())}", "add", "big.bin")
        if touched:
            settle(scratch.path)
        assert read(scratch.path, "WORKTREE") == read(scratch.path, "HEAD")
        scratch.write("big.bin", b"edited\0content")
        assert read(scratch.path, "WORKTREE")["big.bin"] == b"edited\0content"


class TestNothingIsTouched:
    @pytest.mark.parametrize("stale", [False, True])
    def test_not_a_byte_or_a_time_of_the_repository_or_the_checkout_changes(
        self, scratch: Scratch, tmp_path: Path, stale: bool
    ) -> None:
        scratch.git("branch", "topic", "HEAD~1")
        scratch.git("tag", "-a", "-m", "x", "v1")
        scratch.write("a.txt", "to be stashed")
        scratch.git("stash", "-q")
        scratch.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
        scratch.git("update-index", "--untracked-cache")
        scratch.write("sub/b.txt", "staged")
        scratch.git("add", "sub/b.txt")
        scratch.write("untracked", "untracked")
        if stale:
            settle(scratch.path)
        with untouched(scratch), Repository.discover(scratch.path) as repository:
            for spec in (
                "main",
                "topic",
                "v1",
                "HEAD~1",
                "main...topic",
                "HEAD:sub",
                "stash@{0}",
                "WORKTREE",
            ):
                tree = repository.resolve(spec)
                assert contents(tree)
                assert tree.digest
            for spec in ("nope", "HEAD~99", "HEAD:a.txt", "--all"):
                with pytest.raises(UsageError):
                    repository.resolve(spec)
            repository.default_base()
            repository.is_shallow()
            repository.history("topic", "main")

    def test_no_program_that_the_repository_names_is_run(self, scratch: Scratch, tmp_path: Path) -> None:
        canary = tmp_path / "canary"
        programs = tmp_path / "programs"
        programs.mkdir()
        (programs / "program").write_text(f'#!/bin/sh\necho "${{0##*/}}" >> {shlex.quote(str(canary))}\n')
        (programs / "program").chmod(0o755)

        def run(name: str) -> str:
            (programs / name).symlink_to("program")
            return str(programs / name)

        for hook in ("post-index-change", "reference-transaction", "post-checkout", "fsmonitor-watchman"):
            run(hook)
        scratch.commit({".gitattributes": "*.txt filter=evil diff=evil merge=evil\n", "racy.txt": "racy"})
        programs_of = (
            *(
                "core.fsmonitor",
                "core.pager",
                "core.editor",
                "core.askPass",
                "core.sshCommand",
                "core.gitProxy",
            ),
            *("core.alternateRefsCommand", "credential.helper", "filter.evil.clean", "filter.evil.smudge"),
            *("filter.evil.process", "diff.evil.textconv", "diff.evil.command", "diff.external"),
            *("merge.evil.driver", "gpg.program", "uploadpack.packObjectsHook"),
        )
        settings = {
            **{name: run(name) for name in programs_of},
            "core.hooksPath": str(programs),
            "filter.evil.required": "true",
            "log.showSignature": "true",
            "alias.ls-tree": f"!{run('alias')}",
            "remote.origin.url": f"ext::{run('transport')}",
            "remote.origin.promisor": "true",
            "remote.origin.partialCloneFilter": "blob:none",
            "protocol.allow": "always",
            "protocol.ext.allow": "always",
            "core.repositoryFormatVersion": "1",
            "extensions.partialClone": "origin",
        }
        for name, value in settings.items():
            scratch.git("config", name, value)
        blob = scratch.git("rev-parse", "HEAD~1:sub/b.txt")
        (scratch.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
        settle(scratch.path)
        scratch.write("untracked.txt", "untracked")

        with Repository.discover(scratch.path / "sub") as repository:
            for spec in ("HEAD", "HEAD~1", "main...HEAD", "WORKTREE"):
                tree = repository.resolve(spec)
                for file in tree.files():
                    try:
                        tree.read(file.path)
                    except EnvironmentFailure:
                        assert (spec, file.path) != ("WORKTREE", "sub/b.txt")
            assert repository.resolve("WORKTREE").digest
            repository.default_base()
            with pytest.raises(UsageError):
                repository.resolve("nope")
        assert not canary.exists()

        # The traps were set: git itself, asked the plain way, walks into them.
        scratch.git("status", check=False)
        scratch.git("cat-file", "-p", blob, check=False)
        assert {"core.fsmonitor", "filter.evil.process", "transport"} <= set(canary.read_text().split())


def test_the_trees_are_trees(scratch: Scratch) -> None:
    with Repository.discover(scratch.path) as repository:
        head: Tree = repository.resolve("HEAD")
        worktree: Tree = repository.resolve("WORKTREE")
    assert isinstance(head, GitTree)
    assert isinstance(worktree, WorktreeTree)
