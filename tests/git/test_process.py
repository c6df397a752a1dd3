"""Git as a process that can stall, die, talk too much or not start at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from refcompare.errors import EnvironmentFailure
from refcompare.git import Repository, objects, process, trees
from tests.support_git import Scratch


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    scratch = Scratch.create(tmp_path / "repository")
    scratch.commit({"a.txt": "a\n", "b.txt": "b\n"})
    return scratch


def children() -> list[int]:
    listed = [place.read_text() for place in Path("/proc/self/task").glob("*/children")]
    return [int(child) for child in " ".join(listed).split()]


def test_a_git_that_talks_all_the_time_stops_no_reading(scratch: Scratch) -> None:
    """Its standard error is a pipe: once nobody empties it, git waits for ever."""
    scratch.commit({f"{number}": f"{number}" for number in range(1500)})
    scratch.git("gc", "-q")
    code = (
        "import pathlib, sys\n"
        "from refcompare.git import Repository\n"
        "with Repository.discover(pathlib.Path(sys.argv[1])) as repository:\n"
        "    tree = repository.resolve('HEAD')\n"
        "    print(sum(len(tree.read(file.path)) > 0 for file in tree.files()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, scratch.path],
        env={**os.environ, "GIT_TRACE_PACK_ACCESS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("1502\n", 0)


def test_a_git_that_was_killed_is_replaced(scratch: Scratch) -> None:
    before = set(children())
    with Repository.discover(scratch.path) as repository:
        tree = repository.resolve("HEAD")
        assert tree.read("a.txt") == b"a\n"
        (reader,) = set(children()) - before
        os.kill(reader, signal.SIGKILL)
        assert tree.read("b.txt") == b"b\n"


def test_a_repository_that_nobody_closed_leaves_no_process(scratch: Scratch) -> None:
    before = children()
    tree = Repository.discover(scratch.path).resolve("HEAD")
    tree.read("a.txt")
    assert children() != before
    del tree
    assert children() == before


def test_a_temporary_directory_that_is_not_there_is_a_failure_of_the_environment(
    scratch: Scratch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with Repository.discover(scratch.path) as repository:
        assert repository.resolve("HEAD").read("a.txt") == b"a\n"
        with pytest.raises(EnvironmentFailure, match=r"No temporary directory can be made .*set TMPDIR"):
            repository.resolve("WORKTREE")


def test_a_git_that_vanishes_between_two_commands_is_a_failure_of_the_environment(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    from git import Git

    with Repository.discover(scratch.path) as repository:
        tree = repository.resolve("HEAD")
        assert list(tree.files())
        monkeypatch.setattr(Git, "GIT_PYTHON_GIT_EXECUTABLE", "/nonexistent/git")
        with pytest.raises(EnvironmentFailure, match=r"git was not found on PATH: install it"):
            tree.read("a.txt")


def test_git_never_answers_for_another_directory_than_the_one_that_was_asked_about(
    scratch: Scratch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GitPython runs git where Python stands when it may not enter the directory."""
    monkeypatch.chdir(scratch.path)
    asked = process.GitCommands(tmp_path / "gone").run("rev-parse", "--absolute-git-dir")
    assert asked.status
    assert asked.stdout == b""


def test_a_git_that_waits_for_ever_is_ended(scratch: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git opens whatever is called .gitattributes, a pipe too."""
    monkeypatch.setattr(process, "LONGEST_SECONDS", 1)
    os.mkfifo(scratch.path / ".gitattributes")
    scratch.write("a.txt", "edited\n")
    before = children()
    start = time.monotonic()
    with (
        Repository.discover(scratch.path) as repository,
        pytest.raises(EnvironmentFailure, match=r"`git check-attr` did not end within 1 second"),
    ):
        repository.resolve("WORKTREE")
    assert time.monotonic() - start < 20
    assert children() == before


def test_a_partial_clone_whose_remote_has_no_address_still_says_what_is_wrong(scratch: Scratch) -> None:
    blob = scratch.git("rev-parse", "HEAD:a.txt")
    with (scratch.path / ".git" / "config").open("a") as config:
        config.write('[remote "elsewhere"]\n\tpromisor = true\n\turl\n')
    (scratch.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with Repository.discover(scratch.path) as repository:
        tree = repository.resolve(scratch.git("rev-parse", "HEAD"))
        with pytest.raises(EnvironmentFailure, match=r"fetch --refetch --no-filter elsewhere`"):
            tree.read("a.txt")


def test_a_tree_with_more_files_than_any_honest_one_is_refused(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few kilobytes of trees that name each other ten times over make a listing of any length."""
    entry = f"100644 blob {scratch.git('rev-parse', 'HEAD:a.txt')}"
    for _ in range(12):
        listing = "".join(f"{entry}\t{name}\n" for name in "0123456789")
        entry = f"040000 tree {scratch.git('mktree', stdin=listing.encode())}"
    monkeypatch.setattr(trees, "LONGEST_LISTING", 1 << 20)
    before = children()
    with Repository.discover(scratch.path) as repository:
        bomb = repository.resolve(entry.split()[-1])
        with pytest.raises(EnvironmentFailure, match=r"more than 1 MiB of file names"):
            list(bomb.files())
        assert children() == before
        assert repository.resolve("HEAD").read("a.txt") == b"a\n"


def test_what_git_complains_of_is_kept_up_to_a_limit(scratch: Scratch) -> None:
    git = process.GitCommands(scratch.path)
    with pytest.raises(EnvironmentFailure, match=r"`git ls-tree` failed: Not a valid object name nowhere"):
        git.read_at_most(1000, "ls-tree", "nowhere")
    assert git.read_at_most(12, "ls-tree", "--name-only", "HEAD") == b"a.txt\nb.txt\n"
    assert git.read_at_most(11, "ls-tree", "--name-only", "HEAD") is None
    assert objects.sizes_of(git, []) == {}
