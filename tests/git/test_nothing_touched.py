"""Reading leaves the repository as it was, and runs nothing of it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.git import Repository
from tests.support_git import Scratch, contents, settle, untouched


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
