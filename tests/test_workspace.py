"""A tree on the disk: what is written, what is refused, and that it goes away again."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.git import Repository
from refcompare.tree import TreeFile
from refcompare.workspace import materialise, remove, workspace
from tests.support_git import Scratch, isolate


@dataclass(frozen=True)
class GivenTree:
    """A tree that says whatever a test wants, as a hostile repository would."""

    given: Mapping[str, bytes]
    executable: frozenset[str] = frozenset()

    @property
    def digest(self) -> str:
        return "0"

    def files(self) -> Iterator[TreeFile]:
        return (TreeFile(path, len(data), path in self.executable) for path, data in self.given.items())

    def read(self, path: str) -> bytes:
        return self.given[path]


TREE = GivenTree(
    {"a.txt": b"a", "php/worker.php": b"<?php", "php/src/run": b"#!/bin/sh", "phpunit.xml": b"x"},
    frozenset({"php/src/run"}),
)


def written(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if not p.is_dir()}


class TestMaterialise:
    def test_every_file_is_written_and_counted(self, tmp_path: Path) -> None:
        assert materialise(TREE, tmp_path / "new" / "place") == 4
        assert written(tmp_path / "new" / "place") == dict(TREE.given)

    @pytest.mark.parametrize("prefix", ["php", "php/", "/php/"])
    def test_a_prefix_is_a_folder_and_is_stripped(self, tmp_path: Path, prefix: str) -> None:
        assert materialise(TREE, tmp_path, prefix=prefix) == 2
        assert written(tmp_path) == {"src/run": b"#!/bin/sh", "worker.php": b"<?php"}

    def test_match_chooses_by_the_path_in_the_tree(self, tmp_path: Path) -> None:
        assert materialise(TREE, tmp_path, prefix="php", match=lambda path: path == "php/worker.php") == 1
        assert written(tmp_path) == {"worker.php": b"<?php"}

    def test_a_tree_without_such_files_gives_an_empty_directory(self, tmp_path: Path) -> None:
        assert materialise(TREE, tmp_path / "x", prefix="nowhere") == 0
        assert list((tmp_path / "x").iterdir()) == []

    def test_modes_are_the_same_under_any_umask(self, tmp_path: Path) -> None:
        before = os.umask(0o077)
        try:
            (tmp_path / "x").mkdir()
            materialise(TREE, tmp_path / "x")
        finally:
            os.umask(before)
        modes = {
            str(p.relative_to(tmp_path)): stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "x").rglob("*")
        }
        assert modes == {
            "x/a.txt": 0o644,
            "x/php": 0o755,
            "x/php/src": 0o755,
            "x/php/src/run": 0o755,
            "x/php/worker.php": 0o644,
            "x/phpunit.xml": 0o644,
        }

    @pytest.mark.parametrize(
        "path",
        [
            "../out",
            "a/../../out",
            "/etc/cron.d/x",
            "a//b",
            "./a",
            "a/.",
            "..",
            "a\0b",
            ".git/config",
            "a/.git/hooks/post-checkout",
            ".git",
            ".GIT/config",
            ".g\u200cit/config",
            "\ufeff.Git/config",
            "git~1/config",
            "GIT~1",
            ".git./config",
            ".git /config",
            ".git . ./config",
            ".git::$INDEX_ALLOCATION/config",
            "a\\.git\\config",
        ],
    )
    def test_a_path_that_leads_out_or_into_git_is_refused_in_one_sentence(
        self, tmp_path: Path, path: str
    ) -> None:
        with pytest.raises(UsageError, match="it is refused") as caught:
            materialise(GivenTree({path: b"x"}), tmp_path / "x")
        assert str(caught.value).isprintable()
        assert written(tmp_path) == {}

    @pytest.mark.parametrize(
        "path",
        [".gitignore", ".gitattributes", ".github/x", "git", "a.git/x", "..x", "...", "a\\b", "-rf", " "],
    )
    def test_a_path_that_only_looks_odd_is_written(self, tmp_path: Path, path: str) -> None:
        materialise(GivenTree({path: b"x"}), tmp_path)
        assert written(tmp_path) == {path: b"x"}

    def test_a_refused_path_elsewhere_does_not_matter(self, tmp_path: Path) -> None:
        tree = GivenTree({"../out": b"x", "php/a": b"a"})
        assert materialise(tree, tmp_path, prefix="php") == 1

    def test_a_name_that_is_not_utf_8_is_written_as_it_is(self, tmp_path: Path) -> None:
        materialise(GivenTree({"caf\udce9": b"x"}), tmp_path)
        assert [os.fsencode(place.name) for place in tmp_path.iterdir()] == [b"caf\xe9"]

    @pytest.mark.parametrize("paths", [("a", "a/b"), ("a/b", "a")])
    def test_a_file_that_is_also_a_folder_is_refused(self, tmp_path: Path, paths: tuple[str, ...]) -> None:
        with pytest.raises(UsageError, match="The tree has a"):
            materialise(GivenTree(dict.fromkeys(paths, b"x")), tmp_path)

    def test_only_a_fresh_directory_is_written_to(self, tmp_path: Path) -> None:
        (tmp_path / "used").mkdir()
        (tmp_path / "used" / "mine").write_text("mine")
        (tmp_path / "file").write_text("mine")
        (tmp_path / "link").symlink_to(tmp_path / "empty")
        (tmp_path / "empty").mkdir()
        for name in ("used", "file", "link"):
            with pytest.raises(UsageError):
                materialise(TREE, tmp_path / name)
        assert written(tmp_path / "used") == {"mine": b"mine"}

    def test_what_the_disk_refuses_is_a_failure_of_the_environment(self, tmp_path: Path) -> None:
        with pytest.raises(EnvironmentFailure, match=r"cannot be written to .*: File name too long"):
            materialise(GivenTree({"x" * 300: b"x"}), tmp_path / "x")
        (tmp_path / "file").write_text("")
        with pytest.raises(EnvironmentFailure, match=r"cannot be made: .*"):
            materialise(TREE, tmp_path / "file" / "below")

    def test_a_real_tree_leaves_symlinks_and_submodules_behind(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        isolate(monkeypatch, tmp_path)
        scratch = Scratch.create(tmp_path / "repository")
        (scratch.path / "link").symlink_to("/etc/passwd")
        (scratch.path / "folder").symlink_to("/etc")
        scratch.write("bin/run", "#!/bin/sh\n", executable=True)
        scratch.commit({"a.txt": "a"})
        with Repository.discover(scratch.path) as repository:
            for spec in ("HEAD", "WORKTREE"):
                assert materialise(repository.resolve(spec), tmp_path / spec) == 2
                assert written(tmp_path / spec) == {"a.txt": b"a", "bin/run": b"#!/bin/sh\n"}
                assert os.access(tmp_path / spec / "bin" / "run", os.X_OK)

    def test_a_forged_tree_in_a_real_repository_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        isolate(monkeypatch, tmp_path)
        scratch = Scratch.create(tmp_path / "repository")
        blob = scratch.git("hash-object", "-w", "--stdin", stdin=b"x")
        for name in (b"..", b".git", b"../../out"):
            raw = b"100644 %s\0%s" % (name, bytes.fromhex(blob))
            tree = scratch.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=raw)
            with (
                Repository.discover(scratch.path) as repository,
                pytest.raises((UsageError, EnvironmentFailure)),
            ):
                materialise(repository.resolve(tree), tmp_path / "a" / "b")
        assert not (tmp_path / "out").exists()
        assert written(tmp_path / "a") == {}


class TestWorkspace:
    def test_it_holds_the_tree_and_is_gone_afterwards(self, tmp_path: Path) -> None:
        with workspace(TREE, prefix="php", parent=tmp_path) as root:
            assert root.parent == tmp_path
            assert set(written(root)) == {"src/run", "worker.php"}
        assert list(tmp_path.iterdir()) == []

    def test_another_user_can_read_it_and_cannot_write(self, tmp_path: Path) -> None:
        with workspace(TREE, parent=tmp_path) as root:
            assert stat.S_IMODE(root.stat().st_mode) == 0o755
            assert all(p.stat().st_mode & stat.S_IROTH for p in root.rglob("*"))
            assert not any(p.stat().st_mode & stat.S_IWOTH for p in root.rglob("*"))

    def test_it_goes_away_when_the_body_fails_and_when_the_tree_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ZeroDivisionError), workspace(TREE, parent=tmp_path):
            raise ZeroDivisionError
        with pytest.raises(UsageError), workspace(GivenTree({"a": b"", "../b": b""}), parent=tmp_path):
            pytest.fail("a refused tree has no workspace")
        assert list(tmp_path.iterdir()) == []

    def test_no_place_for_it_is_a_failure_of_the_environment(self, tmp_path: Path) -> None:
        with (
            pytest.raises(EnvironmentFailure, match="No temporary directory"),
            workspace(TREE, parent=tmp_path / "x"),
        ):
            pytest.fail("there is no such parent")

    def test_a_body_that_removed_it_already_is_fine(self, tmp_path: Path) -> None:
        with workspace(TREE, parent=tmp_path) as root:
            remove(root)

    def test_one_that_cannot_be_removed_is_named_and_the_result_stands(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(path: object, **_: object) -> None:
            raise PermissionError(1, "Operation not permitted", path)

        with workspace(TREE, parent=tmp_path) as root:
            monkeypatch.setattr(os, "unlink", refuse)
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert (
            caplog.messages[0] == f"{root} could not be removed (Operation not permitted): remove it by hand."
        )


def deep(root: Path) -> None:
    here = os.open(root, os.O_RDONLY)
    name = "deep" * 10
    for _ in range(1100):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def read_only(root: Path) -> None:
    (root / "a" / "b" / "c").mkdir(parents=True)
    (root / "a" / "b" / "file").write_text("x")
    for place in (root / "a" / "b" / "c", root / "a" / "b", root / "a", root):
        place.chmod(0)


def wide(root: Path) -> None:
    for folder in range(20):
        (root / f"{folder}").mkdir()
        for file in range(100):
            (root / f"{folder}" / f"{file}").touch()


def odd(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / ".refcompare-removed-0" / "x" / "y").mkdir(parents=True)
    (root / ".refcompare-removed-1").touch()
    (root / "\udcff\n").mkdir()
    (root / "loop").symlink_to(".")
    (root / "nowhere").symlink_to("nowhere")


@pytest.fixture
def place() -> Iterator[Path]:
    """Give a directory that any user can reach, and that goes away even where Python's remover overflows."""
    place = Path(tempfile.mkdtemp(prefix="refcompare-test-"))
    yield place
    subprocess.run(["rm", "-rf", "--", place], check=True)


class TestRemoval:
    @pytest.mark.parametrize("fill", [deep, read_only, wide, odd])
    def test_whatever_was_left_in_it_is_removed(self, place: Path, fill: Callable[[Path], None]) -> None:
        root = place / "root"
        root.mkdir()
        fill(root)
        remove(root)
        assert list(place.iterdir()) == []

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
    @pytest.mark.parametrize("fill", [deep, read_only])
    def test_its_owner_needs_no_privilege_for_that(self, place: Path, fill: Callable[[Path], None]) -> None:
        """In a process of an ordinary user, whom permissions bind."""
        code = (
            "import os, pathlib, sys\n"
            "from refcompare.workspace import remove\n"
            "from tests import test_workspace\n"
            "os.setgid(65534); os.setuid(65534)\n"
            "root = pathlib.Path(sys.argv[1]); root.mkdir()\n"
            "getattr(test_workspace, sys.argv[2])(root)\n"
            "remove(root)\n"
        )
        os.chown(place, 65534, 65534)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
        words = [sys.executable, "-c", code, str(place / "root"), fill.__name__]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert list(place.iterdir()) == []

    def test_a_symlink_is_removed_and_what_it_points_to_is_not(self, tmp_path: Path) -> None:
        (tmp_path / "kept").mkdir()
        (tmp_path / "kept" / "file").write_text("kept")
        (tmp_path / "root" / "a").mkdir(parents=True)
        (tmp_path / "root" / "link").symlink_to(tmp_path / "kept")
        (tmp_path / "root" / "a" / "link").symlink_to(tmp_path / "kept")
        remove(tmp_path / "root")
        (tmp_path / "link").symlink_to(tmp_path / "kept")
        remove(tmp_path / "link")
        assert written(tmp_path) == {"kept/file": b"kept"}

    def test_what_is_not_there_is_removed_already(self, tmp_path: Path) -> None:
        remove(tmp_path / "absent")
