"""What a commit's tree gives."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from refcompare.git import GitTree, Repository, WorktreeTree
from refcompare.tree import Tree
from tests.support_git import Scratch, read, refusal

CRLF = b"one\r\ntwo\r\n"


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


def test_the_trees_are_trees(scratch: Scratch) -> None:
    with Repository.discover(scratch.path) as repository:
        head: Tree = repository.resolve("HEAD")
        worktree: Tree = repository.resolve("WORKTREE")
    assert isinstance(head, GitTree)
    assert isinstance(worktree, WorktreeTree)
