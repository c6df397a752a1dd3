"""The dataset as it is exported: always the same bytes, every test, nothing that gives a cheat away."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from refcompare.suites import load_suites
from tests.suite_files import MemoryTree, a_test
from tests.support_git import Scratch, isolate

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "datasets/export_dataset.py"
CHEAT = "function acme_hello() { return 'a cheat that nobody may read'; }"
WEAKNESS = "a stub that returns early would do"

pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="only a checkout has the datasets")

TESTS = {
    "datasets/suites/acme/execution/hooks.json": [
        a_test(
            "acme-010",
            exploit_solutions=[CHEAT],
            requirements=["Be kind.", "Be brief."],
            notes=WEAKNESS,
            runtime_checks={
                "assertions": [
                    {
                        "type": "returns_value",
                        "target": "return 1;",
                        "expected": {"b": 1, "a": [1.0, None, "é"]},
                        "notes": WEAKNESS,
                    }
                ]
            },
            metadata={"source_refs": ["wp-includes/plugin.php"], "release_focus": "7.1", "notes": WEAKNESS},
        ),
        a_test("acme-002", metadata={"source_refs": "none", "release_focus": 7}),
    ],
    "datasets/suites/abc/execution/zoo.json": [
        a_test(
            "abc-001",
            category="zoo",
            artifact_kind="wp_plugin_files",
            reference_solution=...,
            reference_files={"z.php": "<?php\n/* Plugin Name: Z */\n", "a/b.php": "<?php\n"},
        )
    ],
}


def export(
    repository: Path, output: Path, *options: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--output", str(output), *options],
        cwd=repository,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def exported(repository: Path, output: Path, *options: str, **environment: str) -> dict[str, bytes]:
    done = export(repository, output, *options, **environment)
    assert done.returncode == 0, done.stderr
    assert "3 tests" in done.stdout
    return {path.name: path.read_bytes() for path in output.iterdir()}


def write_tests(scratch: Scratch, tests: Mapping[str, list[dict[str, Any]]]) -> None:
    for path, found in tests.items():
        (scratch.path / path).parent.mkdir(parents=True, exist_ok=True)
        (scratch.path / path).write_text(json.dumps({"tests": found}))


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scratch]:
    isolate(monkeypatch, tmp_path)
    made = Scratch.create(tmp_path / "repository")
    write_tests(made, TESTS)
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "Tests")
    yield made


def rows_of(files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    lines = files["execution_tests.jsonl"].decode().split("\n")
    assert lines.pop() == ""
    return [dict(json.loads(line)) for line in lines]


def cells(data: bytes) -> list[dict[str, Any]]:
    return list(pyarrow.parquet.read_table(pyarrow.BufferReader(data)).to_pylist())


def test_two_processes_write_the_same_bytes_whatever_their_surroundings(scratch: Scratch, tmp_path: Path):
    first = exported(scratch.path, tmp_path / "one", PYTHONHASHSEED="1", TZ="UTC", LC_ALL="C")
    second = exported(
        scratch.path / "datasets", tmp_path / "a/second/one", PYTHONHASHSEED="2", TZ="Asia/Tokyo"
    )
    assert sorted(first) == ["execution_tests.jsonl", "execution_tests.parquet"]
    assert first == second
    assert exported(scratch.path, tmp_path / "one", PYTHONHASHSEED="3") == first, "over what is there"


def test_both_files_hold_the_same_rows_in_one_order(scratch: Scratch, tmp_path: Path):
    files = exported(scratch.path, tmp_path / "out")
    rows = rows_of(files)
    assert cells(files["execution_tests.parquet"]) == rows
    assert [(row["suite"], row["id"]) for row in rows] == [
        ("abc", "abc-001"),
        ("acme", "acme-002"),
        ("acme", "acme-010"),
    ]


def test_a_row_comes_back_as_the_test_that_it_was(scratch: Scratch, tmp_path: Path):
    plugin, plain, full = rows_of(exported(scratch.path, tmp_path / "out"))
    authored = TESTS["datasets/suites/acme/execution/hooks.json"][0]
    for name in ("id", "category", "prompt", "requirements", "reference_solution"):
        assert full[name] == authored[name]
    (assertion,) = json.loads(full["runtime_checks"])["assertions"]
    assert list(assertion["expected"].items()) == [("b", 1), ("a", [1.0, None, "é"])]
    assert (full["source_refs"], full["release_focus"]) == (["wp-includes/plugin.php"], "7.1")
    assert (plain["source_refs"], plain["release_focus"]) == ([], None), "what is no text is not taken over"
    assert json.loads(plugin["reference_files"])["a/b.php"] == "<?php\n"
    assert plugin["reference_solution"] is None
    assert full["path"] == "datasets/suites/acme/execution/hooks.json"
    assert {row["commit"] for row in (plugin, plain, full)} == {scratch.git("rev-parse", "HEAD")}


def test_nothing_that_gives_a_cheat_away_is_in_it(scratch: Scratch, tmp_path: Path):
    files = exported(scratch.path, tmp_path / "out")
    everything = json.dumps(cells(files["execution_tests.parquet"]), ensure_ascii=False)
    for text in (CHEAT, "nobody may read", WEAKNESS, "exploit", "notes"):
        assert text not in everything
        for data in files.values():
            assert text.encode() not in data


def test_no_shipped_exploit_is_in_what_the_shipped_suites_come_to(scratch: Scratch, tmp_path: Path):
    for suite in (ROOT / "datasets/suites").glob("*/execution"):
        shutil.copytree(suite, scratch.path / suite.relative_to(ROOT))
    done = export(
        scratch.path, tmp_path / "out", "--ref", "WORKTREE", "--suites", "datasets/suites/wp-core/**/*.json"
    )
    assert done.returncode == 0, done.stderr
    rows = cells((tmp_path / "out/execution_tests.parquet").read_bytes())
    tree = MemoryTree(
        {
            path.relative_to(ROOT).as_posix(): path.read_bytes()
            for path in (ROOT / "datasets/suites/wp-core").glob("execution/*.json")
        }
    )
    tests = load_suites(tree).tests
    assert {row["id"] for row in rows} == {test.id for test in tests}
    texts = [str(value) for row in rows for value in row.values()]
    # A short one may well be a part of honest code; the long ones are nobody else's.
    exploits = [code for test in tests for code in test.exploit_solutions if len(code) > 60]
    assert len(exploits) > 100
    for code in exploits:
        assert not [text for text in texts if code in text or json.dumps(code)[1:-1] in text], code


def test_uncommitted_edits_are_exported_from_the_worktree_alone(scratch: Scratch, tmp_path: Path):
    before = exported(scratch.path, tmp_path / "a")
    (scratch.path / "datasets/suites/abc/execution/zoo.json").unlink()
    assert exported(scratch.path, tmp_path / "b") == before
    done = export(scratch.path, tmp_path / "c", "--ref", "WORKTREE")
    assert done.stdout.startswith("2 tests")
    row = json.loads((tmp_path / "c/execution_tests.jsonl").read_text().splitlines()[0])
    assert row["commit"] is None


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    return line


def test_a_test_that_cannot_be_graded_is_named_and_nothing_is_written(scratch: Scratch, tmp_path: Path):
    write_tests(
        scratch, {"datasets/suites/abc/execution/zoo.json": [a_test("abc-001", reference_solution=...)]}
    )
    said = complaint(export(scratch.path, tmp_path / "out", "--ref", "WORKTREE"))
    assert said.startswith(
        "export_dataset: datasets/suites/abc/execution/zoo.json:1: 'abc-001' cannot be graded"
    )
    assert "mend it" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ref", "no-such-branch"], "no-such-branch"),
        (["--suites", "elsewhere/*.json"], "has no execution test in elsewhere/*.json: give another --ref"),
    ],
)
def test_what_cannot_be_exported_is_said_in_one_sentence(
    scratch: Scratch, tmp_path: Path, options: list[str], said: str
):
    assert said in complaint(export(scratch.path, tmp_path / "out", *options))


def test_a_place_that_cannot_be_written_to_is_said_in_one_sentence(scratch: Scratch, tmp_path: Path):
    (tmp_path / "out").write_text("a file")
    said = complaint(export(scratch.path, tmp_path / "out"))
    assert said.endswith("cannot be written to (File exists): give another --output.")


def test_without_pyarrow_it_says_what_to_install(scratch: Scratch, tmp_path: Path):
    (tmp_path / "shadow").mkdir()
    (tmp_path / "shadow/pyarrow.py").write_text("raise ImportError('not here')\n")
    done = export(scratch.path, tmp_path / "out", PYTHONPATH=f"{tmp_path / 'shadow'}:{ROOT}")
    assert done.returncode == 3
    assert done.stderr.strip().endswith("`pip install '.[dataset]'` in refcompare's clone.")
