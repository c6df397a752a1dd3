"""Where ``refcompare show`` looks: the cache, or where the newest run was told to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from refcompare.newest import newest_results, note_output, obstacle


def test_the_cache_has_the_newest_results_unless_a_run_was_told_to_write_elsewhere(tmp_path: Path) -> None:
    kept = tmp_path / "cache/results/one"
    assert newest_results(kept) == kept
    note_output(kept, tmp_path / "out")
    assert newest_results(kept) == tmp_path / "out"
    note_output(kept, None)
    assert newest_results(kept) == kept


def test_a_relative_output_is_found_from_any_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    note_output(tmp_path / "kept", Path("out"))
    monkeypatch.chdir("/")
    assert newest_results(tmp_path / "kept") == tmp_path / "out"


def test_a_path_that_is_not_utf_8_survives(tmp_path: Path) -> None:
    odd = tmp_path / "na\udcefve\n"
    note_output(tmp_path / "kept", odd)
    assert newest_results(tmp_path / "kept") == odd


def test_a_note_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("in the way")
    note_output(tmp_path / "kept", tmp_path / "out")
    assert newest_results(tmp_path / "kept") == tmp_path / "kept"


def test_a_directory_that_takes_nothing_says_why(tmp_path: Path) -> None:
    assert obstacle(tmp_path / "made/where/missing") is None
    assert list((tmp_path / "made/where/missing").iterdir()) == []
    (tmp_path / "file").write_text("")
    assert obstacle(tmp_path / "file") == "File exists"
