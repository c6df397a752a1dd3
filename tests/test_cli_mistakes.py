"""What goes wrong around a run: words that name nothing, streams that fail, a bug. Real processes."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from refcompare import cli
from refcompare.commands import checking
from refcompare.commands.printing import render_options
from refcompare.schemas import violation


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


def test_changed_where_nothing_differs_is_a_result_and_needs_no_wordpress(
    repository: Path, tmp_path: Path
) -> None:
    cache = {"REFCOMPARE_CACHE_DIR": str(tmp_path / "cache"), "PATH": _only("git", tmp_path)}
    done = refcompare(repository, "main", "--changed", "--format", "json", "--quiet", **cache)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert violation("comparison", document) is None
    assert (document["headline"], document["changes"]) == ("no tests to compare", [])
    assert "no test has a definition that differs" in document["notes"][0]
    assert not (tmp_path / "cache/sites").exists()
    out = tmp_path / "out"
    assert refcompare(repository, "main", "--changed", "--output", str(out), **cache).returncode == 0
    assert {path.name for path in out.iterdir()} == {"base", "head", "comparison.json", "comment.md"}


def test_changed_in_a_repository_without_a_test_is_a_mistake(repository: Path) -> None:
    done = refcompare(repository, "main", "--changed", "--suites", "nowhere/*.json")
    assert done.returncode == 2
    assert done.stderr.count("No file matches 'nowhere/*.json'.") == 1, "said once for both arms"


def test_where_no_file_matches_it_is_said_how_suites_and_evals_are_named(repository: Path) -> None:
    done = refcompare(repository, "main", "--suites", "nowhere/*.json")
    assert "give --suites GLOB, or `suites:` in refcompare.yml." in done.stderr
    assert "--only agent" not in done.stderr
    agent = repository / "datasets/suites/s/agent"
    agent.mkdir()
    (agent / "notes.yaml").write_text("id: notes\nprompt: Note it.\nchecks: [{changed: NOTES.md}]\n")
    done = refcompare(repository, "main", "--suites", "nowhere/*.json")
    assert "`refcompare compare BASE HEAD --only agent` runs them" in done.stderr


def test_a_misspelt_command_is_taken_for_a_ref_and_the_command_is_named(repository: Path) -> None:
    done = refcompare(repository, "chekc", "--quiet")
    assert done.returncode == 2
    assert done.stderr.rstrip().endswith("As a command, did you mean 'check'?")
    for words in (("main", "chekc"), ("compare", "chekc"), ("nowhere",)):
        assert "As a command" not in refcompare(repository, *words).stderr


def test_a_word_that_is_neither_ref_nor_path_is_told_so_by_a_check(repository: Path) -> None:
    done = refcompare(repository, "check", "nowhere/")
    assert done.returncode == 2
    assert done.stderr.rstrip().endswith("No file or folder has that name either.")
    assert "No file or folder" not in refcompare(repository, "check", "--ref", "nowhere").stderr


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
    command = f"{sys.executable} -m refcompare check --ignore constant-answer >&-"
    done = subprocess.run(["sh", "-c", command], cwd=repository, capture_output=True, text=True, env=ENV)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_character_that_the_terminal_does_not_know_is_shown_by_its_code(repository: Path) -> None:
    (repository / "datasets/suites/s/execution/größe.json").write_text("{")
    done = refcompare(repository, "check", PYTHONIOENCODING="ascii")
    assert done.returncode == 1
    assert "gr\\xf6\\xdfe.json:1: error" in done.stdout
    assert done.stderr == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "colour"),
    [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"TERM": "xterm", "NO_COLOR": "1"}, False)],
)
def test_a_terminal_gets_colours_unless_it_has_none_or_the_user_wants_none(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], colour: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert render_options(Terminal()).colour is colour
    assert render_options(io.StringIO()).colour is False


def test_a_bug_is_not_taken_for_a_change_that_fails_the_gate(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> int:
        raise RuntimeError("what nobody expected")

    monkeypatch.setattr(checking, "check_ref", broken)
    monkeypatch.setattr(sys, "argv", ["refcompare", "check"])
    monkeypatch.chdir(repository)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 3
    said = capsys.readouterr().err
    assert "what nobody expected" in said
    assert said.endswith("this is a bug in refcompare, so there is no verdict.\n")


ENV = {**os.environ, "NO_COLOR": "1"}


def _only(program: str, directory: Path) -> str:
    """Give a PATH with nothing but one program."""
    found = shutil.which(program)
    assert found is not None
    place = directory / "bin"
    place.mkdir()
    (place / program).symlink_to(found)
    return str(place)


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
