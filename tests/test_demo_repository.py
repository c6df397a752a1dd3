"""The repository that the demo compares, and that its suite does what the demo says."""

import subprocess
from pathlib import Path

import pytest

from refcompare.demo import STATES, build_repository, state_files
from refcompare.errors import UsageError
from refcompare.execution.definition import edited_fields
from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.results import REFERENCE, Record, Verdict
from refcompare.rules import check_suites
from refcompare.suites import load_suites
from refcompare.wordpress.graders import installed_grader
from refcompare.wordpress.native import NativeRuntime
from refcompare.wordpress.php import Php
from refcompare.wordpress.site import Site
from tests.conftest import skipped_without_wordpress
from tests.suite_files import MemoryTree

LIMITS = Limits(seconds=30)


def git(directory: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(directory), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def suite_of(state: str) -> dict[str, ExecutionTest]:
    return {test.id: test for test in load_suites(MemoryTree(state_files(state))).tests}


BASE, HEAD = suite_of("base"), suite_of("head")


# The repository


def test_the_two_commits_hold_the_two_states(tmp_path):
    base, head = build_repository(tmp_path / "demo")
    assert (git(tmp_path / "demo", "rev-parse", "base"), git(tmp_path / "demo", "rev-parse", "head")) == (
        base,
        head,
    )
    assert git(tmp_path / "demo", "rev-parse", "head~1") == base
    for state in STATES:
        for path, contents in state_files(state).items():
            assert git(tmp_path / "demo", "show", f"{state}:{path}") == contents.decode().strip()


def test_the_branch_is_checked_out_clean_at_head(tmp_path):
    _, head = build_repository(tmp_path)
    assert git(tmp_path, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert git(tmp_path, "rev-parse", "HEAD") == head
    assert git(tmp_path, "status", "--porcelain") == ""
    for path, contents in state_files("head").items():
        assert (tmp_path / path).read_bytes() == contents


def test_the_commits_are_the_same_wherever_and_whenever_they_are_made(tmp_path, monkeypatch):
    commits = build_repository(tmp_path / "demo")
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    monkeypatch.setenv("LC_ALL", "tr_TR.UTF-8")
    assert build_repository(tmp_path / "deep" / "er") == commits
    assert git(tmp_path / "demo", "log", "-1", "--format=%ad", "base") == "Thu Jan 1 09:00:00 2026 +0000"


def test_nothing_of_the_users_git_takes_part(tmp_path, monkeypatch):
    commits = build_repository(tmp_path / "before")
    home, template = tmp_path / "home", tmp_path / "template"
    (home / "git").mkdir(parents=True)
    (home / "git" / "ignore").write_text("*.json\n")
    (home / "git" / "attributes").write_text("*.json text eol=crlf filter=spoil\n")
    (template / "hooks").mkdir(parents=True)
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        (template / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (template / "hooks" / hook).chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[init]\n\ttemplateDir = {template}\n\tdefaultBranch = other\n\tdefaultObjectFormat = sha256\n"
        f"[core]\n\thooksPath = {template}/hooks\n\tautocrlf = true\n"
        '[commit]\n\tgpgSign = true\n[filter "spoil"]\n\tsmudge = rev\n\tclean = rev\n'
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody Else")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2001-01-01T00:00:00Z")
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(template))
    assert build_repository(tmp_path / "demo") == commits
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "elsewhere").exists()
    for path, contents in state_files("head").items():
        assert (tmp_path / "demo" / path).read_bytes() == contents


def test_a_directory_inside_another_repository_gets_its_own(tmp_path):
    git(tmp_path, "init", "--quiet")
    build_repository(tmp_path / "demo")
    assert git(tmp_path / "demo", "rev-parse", "--show-toplevel") == str((tmp_path / "demo").resolve())


def test_what_is_there_already_is_never_touched(tmp_path):
    (tmp_path / "mine").write_text("keep")
    with pytest.raises(UsageError, match="is not empty"):
        build_repository(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_file_in_the_way_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be built"):
        build_repository(tmp_path / "file")


# The suite


@pytest.mark.parametrize("state", STATES)
def test_each_state_passes_the_check_without_a_finding(state):
    found = check_suites(MemoryTree(state_files(state))).findings
    # The head lets itself be cheated on purpose, which the rules see without running anything.
    assert {finding.rule for finding in found} == ({"constant-answer"} if state == "head" else set())


def test_head_differs_from_base_as_the_demo_says():
    assert HEAD.keys() - BASE.keys() == {"demo-shortcodes-003", "demo-hooks-002", "demo-options-003"}
    assert not BASE.keys() - HEAD.keys()
    edits = {test_id: edited_fields(BASE[test_id], HEAD[test_id]) for test_id in BASE}
    assert {test_id: fields for test_id, fields in edits.items() if fields} == {
        "demo-hooks-001": ("reference_solution",),
        "demo-options-002": ("requirements", "exploit_solutions", "runtime_checks.assertions", "metadata"),
        "demo-rest-api-002": ("reference_solution",),
        "demo-shortcodes-002": ("prompt", "requirements", "runtime_checks.assertions"),
    }
    assert HEAD["demo-hooks-002"].artifact_kind == "wp_plugin_files"


def test_what_can_be_cheated_is_marked_as_meant_so():
    marked = {test_id for test_id, test in HEAD.items() if "on purpose" in test.metadata.get("notes", "")}
    assert marked == {"demo-options-002", "demo-options-003"}


def test_ids_follow_their_category_and_names_their_prefix():
    for test_id, test in HEAD.items():
        assert test_id.startswith(f"demo-{test.category}-")
        assert test.gateway is None or test.gateway.startswith("rcdemo_")
        assert test.gateway is None or test.gateway not in test.prompt


# In a real WordPress


@pytest.fixture(scope="module")
def grader(site: Site, php: Php):
    with skipped_without_wordpress():
        thread = GradingThread(NativeRuntime(site, php, installed_grader()))
        thread.prepare()
    yield thread
    thread.close()


def grade(grader: GradingThread, test: ExecutionTest, candidate: Candidate) -> Record:
    return grader.grade(test, candidate, LIMITS)


def reference(grader: GradingThread, test: ExecutionTest) -> Record:
    files = test.reference_files if test.artifact_kind == "wp_plugin_files" else None
    return grade(grader, test, Candidate(REFERENCE, code=test.reference_solution or "", files=files))


def stub(test: ExecutionTest, value: str) -> Candidate:
    return Candidate(f"exploit:return-{value}", code=f"function {test.gateway}() {{ return {value}; }}")


@pytest.mark.wordpress
@pytest.mark.parametrize(
    ("test", "verdict"),
    [(test, Verdict.FAIL if test.id == "demo-rest-api-002" else Verdict.PASS) for test in BASE.values()]
    + [(test, Verdict.FAIL if test.id == "demo-hooks-001" else Verdict.PASS) for test in HEAD.values()],
    ids=[f"base-{test_id}" for test_id in BASE] + [f"head-{test_id}" for test_id in HEAD],
)
def test_every_reference_gets_the_verdict_that_the_demo_shows(grader, test, verdict):
    record = reference(grader, test)
    assert record.verdict is verdict, record


@pytest.mark.wordpress
def test_a_broken_reference_fails_for_a_reason_worth_reading(grader):
    regressed = reference(grader, HEAD["demo-hooks-001"]).first_failure
    assert regressed is not None
    assert "Too few arguments to function rcdemo_mark_sponsored()" in (regressed.message or "")
    unfixed = reference(grader, BASE["demo-rest-api-002"]).first_failure
    assert unfixed is not None
    assert "permission_callback" in (unfixed.message or "")


@pytest.mark.wordpress
def test_return_true_passes_the_two_weak_tests_of_head_and_nothing_else(grader):
    passing = {
        (state, test.id)
        for state, tests in (("base", BASE), ("head", HEAD))
        for test in tests.values()
        if test.gateway and grade(grader, test, stub(test, "true")).verdict is Verdict.PASS
    }
    assert passing == {("head", "demo-options-002"), ("head", "demo-options-003")}


@pytest.mark.wordpress
def test_no_authored_exploit_passes(grader):
    for test in (*BASE.values(), *HEAD.values()):
        for index, code in enumerate(test.exploit_solutions):
            record = grade(grader, test, Candidate(f"exploit:authored-{index}", code=code))
            assert record.verdict is Verdict.FAIL, (test.id, index, record)


@pytest.mark.wordpress
def test_an_empty_candidate_passes_nothing(grader):
    for test in (*BASE.values(), *HEAD.values()):
        assert grade(grader, test, Candidate("exploit:empty-stub")).verdict is Verdict.FAIL
