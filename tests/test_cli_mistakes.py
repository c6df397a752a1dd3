"""What goes wrong around a run: words that name nothing, streams that fail, a bug. Real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from refcompare import cli, commands


def test_a_word_that_is_missing_and_one_that_is_empty_are_not_the_same(repository: Path) -> None:
    for arguments in (("",), ("main", ""), ("run", ""), ("audit", ""), ("check", "")):
        done = refcompare(repository, *arguments)
        assert done.returncode == 2, done.stdout
        assert "is empty; name a ref" in done.stderr


def test_an_empty_output_does_not_stand_for_the_current_directory(repository: Path) -> None:
    done = refcompare(repository, "main", "--output", "")
    assert done.returncode == 2
    assert "it is empty; name a directory" in done.stderr
    assert sorted(path.name for path in repository.iterdir()) == [".git", "datasets"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--timeout", "1e9"),
        ("--timeout", "inf"),
        ("--timeout", "0"),
        ("--jobs", "257"),
        ("--confirm", "21"),
        ("--mutants", "1001"),
        ("--seed", "-1"),
    ],
)
def test_the_command_line_has_the_bounds_of_the_configuration(
    repository: Path, option: str, value: str
) -> None:
    done = refcompare(repository, "main", f"{option}={value}")
    assert done.returncode == 2
    assert option in done.stderr
    assert "Traceback" not in done.stderr


def test_an_audit_cannot_be_asked_not_to_audit(repository: Path) -> None:
    assert refcompare(repository, "audit", "--no-audit").returncode == 2
    assert "--no-audit" in refcompare(repository, "compare", "--help").stdout


def test_no_words_at_all_are_a_comparison(tmp_path: Path) -> None:
    done = refcompare(tmp_path)
    assert done.returncode == 2
    assert "is not in a git repository" in done.stderr


def test_the_kinds_of_change_are_listed_where_one_is_asked_for(tmp_path: Path) -> None:
    told = " ".join(refcompare(tmp_path, "compare", "--help").stdout.split())
    for kind in ("regressed", "newly-exploitable", "exposure-changed", "edited"):
        assert kind in told
    assert "unchanged" not in told.partition("Kinds of change")[2]


def test_output_that_cannot_be_written_is_a_sentence_and_no_verdict(repository: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full here")
    with full.open("w") as out:
        done = refcompare(repository, "check", stdout=out)
    assert done.returncode == 3
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_output_that_is_closed_costs_the_output_only(repository: Path) -> None:
    command = f"{sys.executable} -m refcompare check >&-"
    done = subprocess.run(["sh", "-c", command], cwd=repository, capture_output=True, text=True, env=ENV)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_character_that_the_terminal_does_not_know_is_shown_by_its_code(repository: Path) -> None:
    (repository / "datasets/suites/s/execution/größe.json").write_text("{")
    done = refcompare(repository, "check", PYTHONIOENCODING="ascii")
    assert done.returncode == 1
    assert "gr\\xf6\\xdfe.json:1: error" in done.stdout
    assert done.stderr == ""


def test_a_bug_is_not_taken_for_a_change_that_fails_the_gate(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> int:
        raise RuntimeError("what nobody expected")

    monkeypatch.setattr(commands, "check_ref", broken)
    monkeypatch.setattr(sys, "argv", ["refcompare", "check"])
    monkeypatch.chdir(repository)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 3
    said = capsys.readouterr().err
    assert "what nobody expected" in said
    assert said.endswith("this is a bug in refcompare, so there is no verdict.\n")


ENV = {**os.environ, "NO_COLOR": "1"}


def refcompare(
    directory: Path, *arguments: str, stdout: Any = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "refcompare", *arguments],
        cwd=directory,
        env={**ENV, **environment},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "repository"
    suites = place / "datasets/suites/s/execution"
    suites.mkdir(parents=True)
    test = {
        "id": "s-001",
        "prompt": "Give three.",
        "reference_solution": "function rct_three() { return 3; }",
        "runtime_checks": {
            "assertions": [{"type": "returns_value", "target": "return rct_three();", "expected": 3}]
        },
    }
    (suites / "simple.json").write_text(json.dumps({"tests": [test]}, indent=1))
    for arguments in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        ("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "base"),
    ):
        subprocess.run(["git", *arguments], cwd=place, check=True, capture_output=True)
    return place
