"""Directories for agents: whose they are, where on the disk they lie, and that nothing is left of them."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path

import pytest

from refcompare.agents.sandbox.boundary import workspace_owner
from refcompare.agents.workspace import places
from refcompare.agents.workspace.places import Places, copy_tree, give_away, own_place
from refcompare.errors import EnvironmentFailure
from refcompare.workspace import remove


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o711)  # as root, copies are made as another uid
    return tmp_path


def test_a_place_belongs_to_whom_agents_run_as_and_is_removed_whatever_was_done_to_it(parent: Path):
    with own_place(parent) as place:
        assert place.stat().st_uid == workspace_owner()[0]
        assert place.stat().st_mode & 0o777 == 0o700
        (place / "a" / "b").mkdir(parents=True)
        (place / "a").chmod(0)
        (place / "out").symlink_to("/")
    assert list(parent.iterdir()) == []


def test_a_place_that_cannot_be_made_or_removed_is_told(
    parent: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    with (
        pytest.raises(EnvironmentFailure, match=r"No directory can be made in .*none: No such file"),
        own_place(parent / "none"),
    ):
        pass

    def stuck(path: Path) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(places, "remove", stuck)
    with caplog.at_level(logging.WARNING), own_place(parent) as place:
        pass
    assert f"{place} could not be removed (Device or resource busy): remove it by hand." in caplog.text


def test_places_are_removed_meanwhile_and_all_are_gone_at_the_end(
    parent: Path, monkeypatch: pytest.MonkeyPatch
):
    begun, may_remove = threading.Event(), threading.Event()
    really = remove

    def slowly(path: Path) -> None:
        begun.set()
        may_remove.wait(10)
        really(path)

    monkeypatch.setattr(places, "remove", slowly)
    with Places(parent) as several:
        with several.place() as one:
            (one / "a").write_text("x")
        assert begun.wait(10)
        with several.place() as other:
            assert one.exists() and other != one, "nobody waited for it"
        may_remove.set()
    assert list(parent.iterdir()) == []


def test_a_place_that_is_left_late_is_removed_all_the_same(parent: Path):
    with Places(parent) as several:
        late = several.place()
        place = late.__enter__()
    assert place.exists()
    late.__exit__(None, None, None)
    assert list(parent.iterdir()) == []


def test_there_is_an_end_to_the_places_that_wait_to_be_removed(parent: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(places, "_MOST_WAITING", 2)
    really = remove
    most = [0]

    def counting(path: Path) -> None:
        most.append(len(list(parent.iterdir())))
        time.sleep(0.02)
        really(path)

    monkeypatch.setattr(places, "remove", counting)
    with Places(parent) as several:
        for _ in range(8):
            with several.place():
                pass
    assert 0 < max(most) <= 3
    assert list(parent.iterdir()) == []


def test_a_copy_has_the_bytes_modes_times_and_links_and_shares_no_inode(parent: Path):
    with own_place(parent, mode=0o711) as home, own_place(home) as place:
        original = place / "original"
        (original / "src").mkdir(parents=True)
        (original / "src" / "run.sh").write_text("#!/bin/sh\n")
        (original / "src" / "run.sh").chmod(0o755)
        os.utime(original / "src" / "run.sh", (1_000_000, 1_000_000))
        (original / "link").symlink_to("src/run.sh")
        os.link(original / "src" / "run.sh", original / "same")
        give_away(original)
        copy_tree(original, place / "copy")
        made = place / "copy" / "src" / "run.sh"
        assert made.read_text() == "#!/bin/sh\n"
        assert (made.stat().st_mode & 0o777, made.stat().st_mtime) == (0o755, 1_000_000)
        assert made.stat().st_uid == workspace_owner()[0]
        assert os.readlink(place / "copy" / "link") == "src/run.sh"  # noqa: PTH115
        assert made.stat().st_nlink == 2, "names of one file stay names of one file"
        assert made.stat().st_ino != (original / "src" / "run.sh").stat().st_ino
        with pytest.raises(EnvironmentFailure, match=r"cannot be copied: cp: .*No such file"):
            copy_tree(place / "none", place / "other")


def test_a_place_is_made_where_files_are_made_quickly(parent: Path, monkeypatch: pytest.MonkeyPatch):
    seconds = iter([0.004, 0.002, 0.003, 0.00002])
    monkeypatch.setattr(places, "_spread", lambda folder: True)
    monkeypatch.setattr(places, "_seconds_to_make_a_file", lambda place: next(seconds))
    with own_place(parent) as place:
        assert list(parent.iterdir()) == [place], "nothing is left of the attempts"
    assert next(seconds, None) is None, "it was tried until there was one"


def test_where_files_are_made_slowly_everywhere_the_quickest_place_is_taken(
    parent: Path, monkeypatch: pytest.MonkeyPatch
):
    tried: dict[Path, float] = {}

    def measured(place: Path) -> float:
        tried[place] = 0.002 + abs(len(tried) - 5) / 1000
        return tried[place]

    monkeypatch.setattr(places, "_spread", lambda folder: True)
    monkeypatch.setattr(places, "_seconds_to_make_a_file", measured)
    with own_place(parent) as place:
        assert list(parent.iterdir()) == [place]
        assert tried[place] == 0.002
        assert 5 < len(tried) < 50


def test_trying_a_place_leaves_no_file_in_it(parent: Path):
    assert 0 < places._seconds_to_make_a_file(parent) < 60
    assert list(parent.iterdir()) == []


def test_ext4_is_asked_to_spread_what_is_made_in_a_place(parent: Path):
    with own_place(parent) as home:
        if not places._spread(home):
            pytest.skip("this file system has no regions")
        found = set()
        for _ in range(8):
            with own_place(home) as place:
                found.add(place.stat().st_ino >> 17)  # sixteen groups of 8,192 inodes
        assert len(found) > 1
