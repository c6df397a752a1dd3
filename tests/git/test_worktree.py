"""The files as they lie, uncommitted edits included."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from refcompare.errors import EnvironmentFailure
from refcompare.git import Repository
from tests.support_git import Scratch, contents, read, settle, untouched

CRLF = b"one\r\ntwo\r\n"
LF = b"one\ntwo\n"


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
