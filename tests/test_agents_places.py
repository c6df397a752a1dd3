"""Directories for agents: whose they are, where on the disk they lie, and that nothing is left of them."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import pytest

from refcompare.agents import places
from refcompare.agents.boundary import workspace_owner
from refcompare.agents.places import copy_tree, give_away, own_place
from refcompare.errors import EnvironmentFailure


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(places, "_spent", {})
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


def test_a_place_is_made_away_from_where_one_was_removed_lately(
    parent: Path, monkeypatch: pytest.MonkeyPatch
):
    """Simulated, since not every file system has regions: of three, the first two are spent."""
    regions = iter([1, 1, 2, 2, 1, 3, 3])
    monkeypatch.setattr(places, "_spread", lambda folder: True)
    monkeypatch.setattr(places, "_region", lambda place: (0, next(regions)))
    now = time.monotonic()
    places._spent.update({(0, 1): now, (0, 2): now, (0, 3): now - 1000})
    tried: list[Path] = []
    make = places._new_place

    def noted(folder: Path | None) -> Path:
        tried.append(make(folder))
        return tried[-1]

    monkeypatch.setattr(places, "_new_place", noted)
    with own_place(parent) as place:
        assert place == tried[-1]
        assert list(parent.iterdir()) == [place], "nothing is left of the attempts"
        assert len(tried) == 6
    assert places._spent[0, 3] >= now


def test_where_every_region_is_spent_a_place_is_made_all_the_same(
    parent: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(places, "_spread", lambda folder: True)
    monkeypatch.setattr(places, "_region", lambda place: (0, 1))
    places._spent[0, 1] = time.monotonic()
    with own_place(parent) as place:
        assert list(parent.iterdir()) == [place]


def test_ext4_is_asked_to_spread_what_is_made_in_a_place(parent: Path):
    with own_place(parent) as home:
        if not places._spread(home):
            pytest.skip("this file system has no regions")
        found = set()
        for _ in range(8):
            with own_place(home) as place:
                found.add(places._region(place))
        assert len(found) > 1
