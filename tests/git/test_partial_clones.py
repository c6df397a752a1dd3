"""Objects that a partial clone lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from refcompare.errors import EnvironmentFailure
from refcompare.git import Repository
from tests.support_git import Scratch, command_in, contents, read, untouched


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
