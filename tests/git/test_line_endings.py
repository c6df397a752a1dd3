"""Line endings and Git LFS: the files as they lie read as git would store them."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

import pytest

from tests.support_git import Scratch, read, settle, untouched

CRLF = b"one\r\ntwo\r\n"
LF = b"one\ntwo\n"
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
