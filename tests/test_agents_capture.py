"""What an agent changed is told correctly, in bounded time, and with nothing of the agent's executed."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refcompare.agents.programs.trajectory import Trajectory
from refcompare.agents.workspace.capture import (
    BOUNDS,
    Bounds,
    FileChange,
    Listing,
    WorkspaceChange,
    capture,
    listing,
    read_file,
)
from refcompare.agents.workspace.patch import Effort, file_patch
from refcompare.errors import EnvironmentFailure
from refcompare.trials import Trial, TrialCaps, compact

FILES = {"README.md": "one\ntwo\nthree\n", "src/a.php": "<?php\n", "src/deep/b.txt": "b\n"}


class Place:
    """A workspace, and the same tree out of the agent's reach."""

    def __init__(self, parent: Path, files: dict[str, str | bytes] | None = None) -> None:
        self.root, self.original, self.parent = parent / "workspace", parent / "original", parent
        for path, text in (FILES if files is None else files).items():
            place = self.original / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text.encode() if isinstance(text, str) else text)
        self.original.mkdir(exist_ok=True)
        shutil.copytree(self.original, self.root, symlinks=True)
        self.before = listing(self.root)

    def change(self, bounds: Bounds | None = None) -> WorkspaceChange:
        return capture(self.root, self.before, self.original, *([bounds] if bounds else []))

    def path(self, name: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def kinds(change: WorkspaceChange) -> dict[str, str]:
    return {item.path: item.kind for item in change.files}


def only(change: WorkspaceChange) -> FileChange:
    (item,) = change.files
    return item


# ------------------------------------------------------------------------------- the diff


def test_a_workspace_that_nobody_touched_has_not_changed(place):
    assert place.change() == WorkspaceChange()


def test_added_modified_and_deleted_files_are_told_in_the_order_of_their_paths(place):
    place.path("new.txt").write_text("new\n")
    place.path("README.md").write_text("one\n2\nthree\n")
    place.path("src/a.php").unlink()
    change = place.change()
    assert kinds(change) == {"README.md": "modified", "new.txt": "added", "src/a.php": "deleted"}
    assert "-two\n+2\n" in change.diff
    assert "+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n" in change.diff


def test_a_file_that_is_rewritten_with_the_same_bytes_has_not_changed(place):
    text = place.path("README.md").read_bytes()
    place.path("README.md").unlink()
    place.path("README.md").write_bytes(text)
    assert place.change().files == ()


def test_times_set_back_hide_nothing(place):
    readme = place.path("README.md")
    times = readme.stat()
    readme.write_text("one\nTWO\nthree\n")
    os.utime(readme, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert kinds(place.change()) == {"README.md": "modified"}


def test_a_file_that_became_executable_is_a_change_of_mode(place):
    place.path("src/a.php").chmod(0o755)
    item = only(place.change())
    assert item.diff == "diff --git a/src/a.php b/src/a.php\nold mode 100644\nnew mode 100755\n"


def test_binary_content_is_said_not_shown(place):
    place.path("image.bin").write_bytes(b"\x89PNG\0\1\2")
    assert only(place.change()).note == "it is not text"


def test_empty_folders_are_no_change(place):
    place.path("empty/inside").mkdir()
    assert place.change().files == ()


CONTENT = st.lists(
    st.sampled_from([b"a", b"b", b"c", b"\r", b"\x0c d", b"\xff", b"", b"\xe2\x80\xa8"]), max_size=30
).flatmap(lambda lines: st.sampled_from([b"\n".join(lines), b"\n".join([*lines, b""])]))


@settings(deadline=None, derandomize=True, max_examples=60, suppress_health_check=list(HealthCheck))
@given(CONTENT, CONTENT)
def test_git_applies_every_patch_to_what_was_there_and_gets_what_is_there_now(tmp_path_factory, old, new):
    place = tmp_path_factory.mktemp("patch")
    subprocess.run(["git", "init", "-q", place], check=True)
    (place / "a b.txt").write_bytes(old)
    patch = file_patch("a b.txt", old, new, "100644", "100644")
    assert patch is not None
    if old == new:
        assert patch.count("\n") == 1
        return
    subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"],
        cwd=place,
        input=patch.encode("utf-8", "surrogateescape"),
        check=True,
    )
    assert (place / "a b.txt").read_bytes() == new


def test_git_reads_names_that_it_has_to_quote(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    names = ['new\nline "and" \\ tab\t.txt', "a space.txt", "caf\u00e9.txt", os.fsdecode(b"\xff.txt")]
    patch = "".join(file_patch(name, None, b"x\n", None, "100644") or "" for name in names)
    subprocess.run(
        ["git", "apply", "-"], cwd=tmp_path, input=patch.encode("utf-8", "surrogateescape"), check=True
    )
    assert {place.name for place in tmp_path.iterdir()} == {".git", *names}


def test_hostile_files_that_would_take_long_to_match_are_replaced_as_a_whole():
    old = b"".join(b"%d\n" % (number % 7) for number in range(5_000))
    new = b"".join(b"%d\n" % (number % 5) for number in range(5_000))
    started = time.monotonic()
    patch = file_patch("x", old, new, "100644", "100644", Effort())
    assert time.monotonic() - started < 2
    assert patch is not None and patch.count("\n-") > 4_000


def test_matching_lines_ends_for_all_files_together():
    effort = Effort(each=100, together=150)
    assert effort.allows(10, 10)
    assert not effort.allows(10, 10)
    assert effort.allows(5, 10)


# ------------------------------------------------------------------------------ the traps


def tripwire(place: Place, name: str = "tripped") -> tuple[Path, Path]:
    """Give a program that leaves a mark when anything runs it, and the mark."""
    mark, program = place.parent / name, place.parent / "trap.sh"
    program.write_text(f"#!/bin/sh\ntouch '{mark}'\ncat\n")
    program.chmod(0o755)
    return program, mark


def git(folder: Path, *words: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def fsmonitor(place: Place, program: Path) -> None:
    git(place.root, "init", "-q")
    git(place.root, "config", "core.fsmonitor", str(program))


def hooks(place: Place, program: Path) -> None:
    git(place.root, "init", "-q")
    for hook in ("post-index-change", "pre-commit", "post-checkout", "fsmonitor-watchman"):
        shutil.copy(program, place.path(f".git/hooks/{hook}"))
    git(place.root, "config", "core.hooksPath", ".git/hooks")


def filters(place: Place, program: Path) -> None:
    git(place.root, "init", "-q")
    git(place.root, "config", "filter.trap.clean", str(program))
    git(place.root, "config", "filter.trap.process", str(program))
    git(place.root, "config", "filter.trap.required", "true")
    place.path(".gitattributes").write_text("* filter=trap\n")


def textconv(place: Place, program: Path) -> None:
    git(place.root, "init", "-q")
    git(place.root, "config", "diff.trap.textconv", str(program))
    place.path(".gitattributes").write_text("* diff=trap\n")


def external_diff(place: Place, program: Path) -> None:
    git(place.root, "init", "-q")
    git(place.root, "config", "diff.external", str(program))
    git(place.root, "config", "diff.trap.command", str(program))
    place.path(".gitattributes").write_text("* diff=trap\n")


def attributes(place: Place, program: Path) -> None:
    git(place.root, "init", "-q")
    place.path(".git/info").mkdir(exist_ok=True)
    place.path(".git/info/attributes").write_text(
        "* -diff binary export-ignore working-tree-encoding=UTF-16\n"
    )
    place.path(".gitattributes").write_text("* -diff binary ident eol=crlf\n")
    place.path(".gitignore").write_text("*\n")


def nested_repository(place: Place, program: Path) -> None:
    git(place.root / "inner", "init", "-q")
    git(place.root / "inner", "config", "core.fsmonitor", str(program))
    place.path("inner/file.txt").write_text("inside\n")
    git(place.root / "inner", "add", "file.txt")
    git(place.root / "inner", "commit", "-q", "-m", "inner")


def submodule(place: Place, program: Path) -> None:
    nested_repository(place, program)
    git(place.root, "init", "-q")
    place.path(".gitmodules").write_text(
        f'[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n\tupdate = !{program}\n'
    )
    place.path(".git/modules").mkdir(exist_ok=True)


def symlinked_git(place: Place, program: Path) -> None:
    elsewhere = place.parent / "elsewhere"
    git(elsewhere, "init", "-q")
    git(elsewhere, "config", "core.fsmonitor", str(program))
    place.path(".git").symlink_to(elsewhere / ".git")


def git_file(place: Place, program: Path) -> None:
    elsewhere = place.parent / "elsewhere"
    git(elsewhere, "init", "-q")
    git(elsewhere, "config", "core.fsmonitor", str(program))
    place.path(".git").write_text(f"gitdir: {elsewhere / '.git'}\n")


@pytest.mark.parametrize(
    "trap",
    [
        fsmonitor,
        hooks,
        filters,
        textconv,
        external_diff,
        attributes,
        nested_repository,
        submodule,
        symlinked_git,
        git_file,
    ],
)
def test_nothing_that_git_would_obey_is_run_or_hides_a_change(
    place: Place, trap: Callable[[Place, Path], None]
):
    program, mark = tripwire(place)
    trap(place, program)
    mark.unlink(missing_ok=True)  # making a repository may have set it off
    place.path("README.md").write_text("one\ntwo\nthree\nfour\n")
    change = place.change()
    assert not mark.exists()
    assert kinds(change)["README.md"] == "modified"
    assert "+four\n" in change.diff
    assert not any(item.path.startswith(".git/") for item in change.files)


def test_files_of_a_nested_repository_are_part_of_the_change_but_not_its_git(place):
    nested_repository(place, tripwire(place)[0])
    change = place.change()
    assert kinds(change) == {"inner/file.txt": "added"}
    assert change.notes == ("inner is a repository of its own; its .git was not looked at",)


def test_a_link_is_told_by_its_target_and_never_followed(place, tmp_path):
    (tmp_path / "secret").write_text("the canary\n")
    place.path("out").symlink_to(tmp_path / "secret")
    place.path("README.md").unlink()
    place.path("README.md").symlink_to("/etc/passwd")
    shutil.rmtree(place.root / "src")
    place.path("src").symlink_to(tmp_path)
    change = place.change()
    assert kinds(change) == {
        "README.md": "modified",
        "out": "added",
        "src": "added",
        "src/a.php": "deleted",
        "src/deep/b.txt": "deleted",
    }
    assert "canary" not in change.diff and "root:" not in change.diff
    assert "+/etc/passwd\n\\ No newline at end of file\n" in change.diff


def test_a_pipe_that_took_a_files_place_is_not_waited_for(place):
    place.path("README.md").unlink()
    os.mkfifo(place.root / "README.md")
    os.mkfifo(place.root / "pipe")
    change = place.change()
    assert [(item.path, item.kind, item.after, item.note) for item in change.files] == [
        ("README.md", "modified", "fifo", "it is a fifo"),
        ("pipe", "added", "fifo", "it is a fifo"),
    ]


def test_a_socket_is_not_connected_to(place, monkeypatch):
    monkeypatch.chdir(place.root)  # the whole path may be longer than a socket's can be
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("sock")
        listening.listen()
        listening.setblocking(False)
        assert only(place.change()).note == "it is a socket"
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_ten_sparse_gigabytes_are_not_read(place):
    with place.path("huge").open("wb") as file:
        file.truncate(10 * 1024**3)
    with place.path("src/a.php").open("r+b") as file:
        file.truncate(10 * 1024**3)
    started = time.monotonic()
    change = place.change()
    assert time.monotonic() - started < 1
    assert kinds(change) == {"huge": "added", "src/a.php": "modified"}
    assert change.files[0].note == "it has 10,737,418,240 bytes, too many to compare"


def test_a_large_file_that_nobody_touched_has_not_changed(tmp_path):
    bounds = Bounds(file=1_000)
    place = Place(tmp_path, {"large.txt": "x" * 5_000})
    assert place.change(bounds).files == ()


def test_the_diff_of_many_large_files_is_cut_and_the_files_are_still_told(place):
    for number in range(20):
        place.path(f"file-{number:02}").write_text("line\n" * 200)
    change = place.change(Bounds(diff=5_000))
    assert len(change.files) == 20
    assert len(change.diff) <= 5_000
    assert change.files[-1].note == "its diff was left out"
    assert change.notes == ("the diff was cut: it holds 5,000 bytes at most",)


def test_a_folder_that_cannot_be_listed_is_listed_or_said(place, monkeypatch):
    hidden = place.path("hidden/new.txt")
    hidden.write_text("new\n")
    hidden.chmod(0)
    hidden.parent.chmod(0)
    change = place.change()
    assert kinds(change) == {"hidden/new.txt": "added"}
    assert "+new\n" in change.diff


def test_a_folder_that_was_locked_is_opened_where_only_its_owner_may(place):
    """The same as somebody who is not root, for whom the rights count."""
    if os.geteuid():
        pytest.skip("only root can become somebody else")
    hidden = place.path("hidden/new.txt")
    hidden.write_text("new\n")
    hidden.chmod(0)
    hidden.parent.chmod(0)
    for path in (place.root, *place.root.rglob("*")):
        os.chown(path, 61987, 61987, follow_symlinks=False)
    for folder in (place.parent, *place.parent.parents[:2]):
        folder.chmod(0o755)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(61987)
            os.setuid(61987)
            status = 0 if kinds(place.change()) == {"hidden/new.txt": "added"} else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_very_many_small_files_are_listed_and_counted_up_to_a_bound(place):
    many = place.path("many/x").parent
    for number in range(3_000):
        (many / f"{number:05}").write_text("x\n")
    change = place.change(Bounds(changes=1_000, diff=20_000))
    assert len(change.files) == 1_000
    assert change.omitted == 2_000
    assert len(change.diff) <= 20_000
    assert "2,000 more changed files are not listed" in change.notes


def test_a_hundred_thousand_small_files_end_in_a_bounded_change(place):
    (place.path("many/README.md")).write_text("x\n")
    for folder in range(100):
        here = place.root / "many" / f"{folder:02}"
        here.mkdir()
        (here / "0000").write_text("x\n")
        for number in range(1, 1_000):
            os.link(here / "0000", here / f"{number:04}")  # a name each, and quicker to make than a file
    started = time.monotonic()
    change = place.change()
    assert time.monotonic() - started < 60
    assert len(change.files) == 100_001
    assert {item.kind for item in change.files} == {"added"}
    assert len(change.diff.encode()) <= BOUNDS.diff
    assert change.files[0].path == "many/00/0000" and change.files[0].diff.endswith("+x\n")
    assert change.files[-1].note == "its diff was left out"
    kept = compact(Trial("e", "e", "s", 1, Trajectory("test"), change=change), TrialCaps())
    assert len(kept.change.files) == TrialCaps().files
    assert kept.change.omitted == 100_001 - TrialCaps().files


def test_where_the_listing_had_to_end_what_was_there_before_is_still_compared(place):
    for number in range(500):
        place.path(f"aaa/{number:05}").write_text("x\n")
    place.path("src/deep/b.txt").write_text("changed\n")
    place.path("src/a.php").unlink()
    change = place.change(Bounds(entries=100))
    found = kinds(change)
    assert found["src/deep/b.txt"] == "modified"
    assert found["src/a.php"] == "deleted"
    assert "README.md" not in found
    assert "more than 100 entries; the rest was not looked at" in change.notes


def test_folders_nested_thousands_deep_end_somewhere(place):
    here = os.open(place.root, os.O_RDONLY)
    for _ in range(3_000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    change = place.change()
    assert change.files == ()
    assert change.notes == ("folders are nested deeper than 100; the rest was not looked at",)
    subprocess.run(["rm", "-rf", place.root], check=True)


@pytest.mark.parametrize("name", ["new\nline.txt", 'quote".txt', "\x1b[31m.txt", os.fsdecode(b"\xff\xfe")])
def test_a_strange_name_is_told_exactly_and_stays_on_one_line_of_the_diff(place, name):
    place.path(name).write_text("x\n")
    change = place.change()
    assert only(change).path == name
    assert change.diff.startswith('diff --git "a/')
    assert change.diff.count("\n") == 6
    assert "\x1b" not in change.diff


def test_a_workspace_that_is_gone_is_an_error_of_the_environment(place):
    shutil.rmtree(place.root)
    with pytest.raises(EnvironmentFailure, match="cannot be listed"):
        place.change()


# --------------------------------------------------------------------------- reading a file


def test_a_file_is_read_only_where_no_link_is_on_the_way(place, tmp_path):
    (tmp_path / "outside").write_text("canary")
    place.path("link").symlink_to(tmp_path / "outside")
    place.path("folder").symlink_to(tmp_path)
    os.mkfifo(place.root / "pipe")
    assert read_file(place.root, "src/a.php", 100) == b"<?php\n"
    assert read_file(place.root, "src/a.php", 2) == b"<?p"
    for path in ("link", "folder/outside", "pipe", "src", "../outside", "src/../../outside", "no\0", ""):
        assert read_file(place.root, path, 100) is None


def test_a_listing_knows_what_each_entry_is(place):
    place.path("link").symlink_to("nowhere")
    found: Listing = listing(place.root)
    assert found.entries["link"].mode == "120000"
    assert found.entries["README.md"].mode == "100644"
    assert stat.S_ISDIR((place.root / "src").stat().st_mode) and "src" not in found.entries
