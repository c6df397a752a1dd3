"""Scratch repositories, made by the real git under a configuration that is nobody's."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from refcompare.errors import UsageError
from refcompare.git import Repository, ResolvedRef
from refcompare.tree import Tree

LONG_AGO = 1_600_000_000
ENVIRONMENT = {
    "GIT_AUTHOR_NAME": "A Person",
    "GIT_AUTHOR_EMAIL": "person@example.org",
    "GIT_COMMITTER_NAME": "A Person",
    "GIT_COMMITTER_EMAIL": "person@example.org",
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
    # A collection in the background would change the repository while a test watches it.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "gc.auto",
    "GIT_CONFIG_VALUE_0": "0",
}


def isolate(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Keep the host's git configuration, and any git that runs these tests, out of them."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha1")


@dataclass(frozen=True)
class Scratch:
    """A repository to make and change."""

    path: Path

    @classmethod
    def create(cls, path: Path, *options: str) -> Scratch:
        path.mkdir(parents=True, exist_ok=True)
        scratch = cls(path)
        scratch.git("init", "-q", "-b", "main", *options)
        return scratch

    def git(self, *words: str, stdin: bytes = b"", check: bool = True, **environment: str) -> str:
        """Run git as a user would, and give its output without the last newline."""
        done = subprocess.run(
            ["git", *words],
            cwd=self.path,
            input=stdin,
            capture_output=True,
            env={**os.environ, **ENVIRONMENT, **environment},
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"git {' '.join(words)}: {os.fsdecode(done.stderr)}")
        return os.fsdecode(done.stdout).removesuffix("\n")

    def write(self, path: str, data: bytes | str, *, executable: bool = False) -> Path:
        """Write a file, as old as one that was checked out long before the index was written."""
        place = self.path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data.encode() if isinstance(data, str) else data)
        place.chmod(0o755 if executable else 0o644)
        os.utime(place, (LONG_AGO, LONG_AGO))
        return place

    def commit(self, files: dict[str, bytes | str] | None = None, message: str = "a change") -> str:
        """Write files, commit all there is, and give the SHA."""
        for path, data in (files or {}).items():
            self.write(path, data)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")


def settle(path: Path) -> None:
    """Touch every file of a checkout, so that the index knows none of them any more."""
    for place in path.rglob("*"):
        if place.is_file() and not place.is_symlink() and ".git" not in place.relative_to(path).parts:
            os.utime(place)


def fingerprint(path: Path, object_times: bool = True) -> dict[str, tuple[int, int, str]]:
    """Give the mode, the time of the last change and the content's hash of all there is below a directory."""
    found = {}
    for place in sorted(path.rglob("*")):
        state = place.lstat()
        if place.is_symlink():
            content = str(place.readlink())
        elif place.is_file():
            content = hashlib.sha256(place.read_bytes()).hexdigest()
        else:
            content = ""
        timed = object_times or ".git/objects/" not in str(place)
        found[str(place)] = (state.st_mode, state.st_mtime_ns if timed else 0, content)
    return found


def reports(scratch: Scratch) -> list[str]:
    """Give what git says of everything that a user could lose. It is asked of a copy, since status writes."""
    commands = (
        ["status", "--porcelain", "--branch"],
        ["stash", "list"],
        ["worktree", "list"],
        ["config", "--list"],
        ["for-each-ref"],
    )
    copy = Scratch(scratch.path.with_name("copy-to-ask"))
    shutil.copytree(scratch.path, copy.path, symlinks=True)
    said = [copy.git(*command) for command in commands]
    shutil.rmtree(copy.path)
    return said


@contextmanager
def untouched(scratch: Scratch, object_times: bool = True) -> Iterator[None]:
    """Assert that not a byte and not a time changes, in the repository or in the working tree."""
    said = reports(scratch)
    before = fingerprint(scratch.path, object_times)
    yield
    after = fingerprint(scratch.path, object_times)
    assert {place for place in before | after if before.get(place) != after.get(place)} == set()
    assert reports(scratch) == said


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
