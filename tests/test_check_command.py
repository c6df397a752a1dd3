"""``refcompare check`` as a command: what its words name, what it prints, what it edits, how it ends."""

from __future__ import annotations

import copy
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from refcompare.commands.checking import check_ref
from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.paths import CACHE_VARIABLE
from refcompare.wordpress.site import Site
from tests.rule_files import GOOD

SUITES = "datasets/suites/shop/execution"
NOTHING: dict[str, Any] = {
    "words": (), "ref": None, "fix": False, "run": False, "rule": (), "ignore": (), "strict": False,
    "suites": (), "config": None, "wordpress": None, "runtime": None, "jobs": None, "form": "text",
    "quiet": True,
}  # fmt: skip


def a_test(test_id: str, **changed: Any) -> dict[str, Any]:
    prompt = f"{test_id} asks for a title that has the number of all open orders behind it."
    return copy.deepcopy(GOOD) | {"id": test_id, "prompt": " ".join(reversed(prompt.split())), **changed}


LATE = {**GOOD["runtime_checks"], "setup": "update_option( 'acme_orders', time() );"}
NAMED = {"required_patterns": [{"pattern": "acme_title"}]}


def write(root: Path, name: str, *tests: dict[str, Any]) -> Path:
    place = root / SUITES / f"{name}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps({"tests": list(tests)}, indent=2) + "\n", encoding="utf-8")
    return place


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose commit has a warning in hooks.json, and whose mail.json is good."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    root = tmp_path / "repository"
    write(root, "hooks", a_test("hooks-001", runtime_checks=LATE))
    write(root, "mail", GOOD | {"id": "mail-001", "category": "mail"})
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "base")
    return root


def check(root: Path, *words: str, **options: Any) -> tuple[int, str]:
    out = io.StringIO()
    status = check_ref(root, {**NOTHING, "words": words, **options}, out)
    return status, out.getvalue()


def found(root: Path, *words: str, **options: Any) -> list[tuple[str, str]]:
    _, text = check(root, *words, **options, form="json")
    return [(item["path"].rpartition("/")[2], item["rule"]) for item in json.loads(text)["findings"]]


# ---------------------------------------------------------------------------- the words


def test_a_word_that_is_there_is_a_path_and_any_other_is_a_ref(repository: Path):
    write(repository, "hooks", a_test("hooks-001", static_checks=NAMED))
    assert found(repository) == [("hooks.json", "gateway-in-patterns")]
    assert found(repository, "main") == [("hooks.json", "clock")]
    assert found(repository, f"{SUITES}/mail.json") == []
    assert found(repository, f"{SUITES}/hooks.json", "main") == [("hooks.json", "clock")]
    assert found(repository, "datasets") == [("hooks.json", "gateway-in-patterns")]
    assert found(repository, ".") == [("hooks.json", "gateway-in-patterns")]
    assert found(repository / SUITES, "hooks.json") == [("hooks.json", "gateway-in-patterns")]
    assert "1 warning in 1 test," in check(repository, f"{SUITES}/hooks.json")[1]
    assert found(repository / SUITES, "..") == [("hooks.json", "gateway-in-patterns")]


def test_a_ref_that_is_named_like_a_folder_has_an_option(repository: Path):
    git(repository, "branch", "datasets")
    write(repository, "hooks", a_test("hooks-001"))
    assert found(repository, "datasets") == []
    assert found(repository, ref="datasets") == [("hooks.json", "clock")]
    assert found(repository, f"{SUITES}/mail.json", ref="datasets") == []


def test_a_file_that_is_named_is_checked_wherever_it_lies(repository: Path):
    elsewhere = write(repository, "hooks", a_test("hooks-001", runtime_checks=LATE)).rename(
        repository / "x.json"
    )
    assert [rule for _, rule in found(repository, "x.json")] == ["category-of-file", "clock"]
    (repository / "eval.yaml").write_text("id: e\nprompt: x\nchecks: [{ reed: a }]\n")
    assert found(repository, "eval.yaml") == [("eval.yaml", "agent-eval")]
    assert elsewhere.is_file()


def test_what_one_file_is_held_against_is_the_whole_suite(repository: Path):
    write(repository, "mail", a_test("hooks-001", category="mail"))
    assert found(repository, f"{SUITES}/mail.json") == [
        ("mail.json", "duplicate-id"),
        ("mail.json", "near-duplicate-prompt"),
    ]
    assert found(repository, f"{SUITES}/hooks.json") == [("hooks.json", "clock")]


@pytest.mark.parametrize(
    ("words", "options", "said"),
    [
        (("",), {}, "PATH is empty"),
        (("main", "HEAD"), {}, "one ref can be checked at a time"),
        (("..",), {}, "is outside of the repository"),
        (("nowhere",), {}, "nowhere"),
        ((), {"rule": ("clok",)}, "did you mean 'clock'"),
        ((), {"ignore": ("schema",)}, "cannot be ignored"),
        ((), {"rule": ("leftover-state",)}, "give --run"),
        (("main",), {"fix": True}, "--fix edits the files as they lie, not 'main'"),
    ],
)
def test_what_makes_no_sense_is_said(repository: Path, words: Any, options: Any, said: str):
    with pytest.raises(UsageError, match=said):
        check(repository, *words, **options)


def test_a_rule_that_reads_wordpress_is_not_passed_over_where_it_was_asked_for(repository: Path):
    with pytest.raises(EnvironmentFailure, match="refcompare wordpress fetch"):
        check(repository, rule=("newer-api",))


# --------------------------------------------------------------------- the configuration


def test_a_repository_may_ignore_a_rule(repository: Path):
    (repository / "refcompare.yml").write_text("check: { ignore: [clock] }\n")
    assert found(repository) == []


# ------------------------------------------------------------------------------- output


def test_the_text_says_where_what_which_rule_and_what_was_not_asked(repository: Path):
    status, text = check(repository)
    line = 1 + (repository / SUITES / "hooks.json").read_text().split('"setup"')[0].count("\n")
    assert status == 0
    assert text == (
        f"{SUITES}/hooks.json:{line}: warning: hooks-001: setup depends on the moment: 'time()' [clock]\n"
        "    give a fixed moment, as in strtotime( '2024-03-01 12:00:00 UTC' )\n"
        "0 errors, 1 warning in 2 tests, 0 agent evals.\n"
        "Not checked: source-ref, newer-api (WordPress is not in the cache: run "
        "`refcompare wordpress fetch`).\n"
        "Not checked: leftover-state (it runs the tests: give --run).\n"
    )


def test_the_exit_status_is_1_for_an_error_and_for_a_warning_only_if_strict(repository: Path):
    assert check(repository)[0] == 0
    assert check(repository, strict=True)[0] == 1
    assert check(repository, f"{SUITES}/mail.json", strict=True)[0] == 0
    write(repository, "mail", GOOD | {"id": ""})
    assert check(repository)[0] == 1


def test_the_json_has_everything_that_the_text_has(repository: Path):
    _, text = check(repository, form="json")
    value = json.loads(text)
    (finding,) = value["findings"]
    assert finding.keys() == {"path", "line", "rule", "severity", "test", "message", "mend", "fixable"}
    assert (value["tests"], value["evals"], value["mended"]) == (2, 0, 0)
    assert {item["rule"]: item["needs"] for item in value["not_checked"]} == {
        "source-ref": "release", "newer-api": "release", "leftover-state": "run",
    }  # fmt: skip


def test_an_annotation_stands_at_its_line_and_no_text_of_a_test_becomes_a_command(repository: Path):
    write(repository, "hooks", a_test("hooks-001", category="a\n::error::b", runtime_checks=LATE))
    write(repository, "mail", a_test("%0A::error::x", runtime_checks=LATE))
    _, text = check(repository, form="github")
    commands = [line for line in text.splitlines() if line.startswith("::")]
    assert [line.split(" ")[0] for line in commands if "title=check" not in line] == ["::error"] + [
        "::warning"
    ] * 3
    assert all(
        line.startswith((f"::error file={SUITES}", f"::warning file={SUITES}", "::notice"))
        for line in commands
    )
    assert text.splitlines()[-1].startswith("1 error, 3 warnings")


# ---------------------------------------------------------------------------------- fix


def test_fix_edits_the_file_and_tells_what_is_left(repository: Path):
    place = write(repository, "hooks", a_test("hooks-001", runtime_checks=LATE, static_checks=NAMED))
    before = place.read_text()
    status, text = check(repository, fix=True)
    assert status == 0
    assert "1 finding mended.\n0 errors, 1 warning" in text
    assert json.loads(place.read_text())["tests"][0]["static_checks"] == {"required_patterns": []}
    assert [line for line in place.read_text().splitlines() if line not in before.splitlines()] == [
        '        "required_patterns": []'
    ]
    kept = place.read_bytes()
    assert "mended" not in check(repository, fix=True)[1]
    assert place.read_bytes() == kept


def test_fix_edits_only_what_was_named_and_asked_for(repository: Path):
    place = write(repository, "hooks", a_test("hooks-001", static_checks=NAMED))
    kept = place.read_bytes()
    check(repository, f"{SUITES}/mail.json", fix=True)
    check(repository, fix=True, rule=("clock",))
    assert place.read_bytes() == kept


def test_fix_leaves_a_file_alone_whose_line_ends_git_converts(
    repository: Path, capsys: pytest.CaptureFixture[str]
):
    place = write(repository, "hooks", a_test("hooks-001", static_checks=NAMED))
    (repository / ".gitattributes").write_text("*.json text eol=crlf\n")
    place.write_bytes(place.read_bytes().replace(b"\n", b"\r\n"))
    kept = place.read_bytes()
    assert found(repository, fix=True, quiet=False) == [("hooks.json", "gateway-in-patterns")]
    assert place.read_bytes() == kept
    assert "is left as it is" in capsys.readouterr().err


# ---------------------------------------------------------------------------------- run


@pytest.mark.wordpress
def test_run_tells_what_a_test_leaves_and_which_reference_does_not_pass(site: Site, tmp_path: Path):
    root = tmp_path / "repository"
    untidy = {**GOOD["runtime_checks"], "teardown": ""}
    write(
        root,
        "hooks",
        a_test("hooks-001", runtime_checks=untidy),
        GOOD | {"id": "hooks-002"},
        a_test("hooks-003", reference_solution="function acme_title() {}", prompt="Another one."),
    )
    git(root, "init", "-q", "-b", "main")
    status, text = check(root, run=True, jobs=1, rule=("leftover-state",))
    assert status == 0
    assert text.startswith(f"{SUITES}/hooks.json:")
    assert "hooks-001: after the teardown the site is not as it was: the option 'acme_orders' is left" in text
    assert "0 errors, 2 warnings in 3 tests" in text
    assert "Not checked" not in text
    assert "hooks-003: its reference does not pass, so what it leaves on the site was not compared" in text
