"""The action itself: the steps of ``action.yml``, run as GitHub runs them, against a stand-in for GitHub."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import cmarkgfm
import pytest
import yaml
from cmarkgfm.cmark import Options as CmarkOptions

from refcompare.demo import state_files
from refcompare.demo.guidance import guidance_files
from refcompare.github.inputs import Inputs, input_name
from refcompare.github.runner import NO_COMMIT
from refcompare.report.escape import marker
from refcompare.wordpress.engine import docker_available
from refcompare.wordpress.site import Site
from tests.action_project import ONE, SUITE, Project, edited, head_files, open_project
from tests.action_runner import ACTION, Command, Result, obeyed
from tests.github_server import FORBIDDEN, TOKEN, Account, GitHubServer
from tests.support_git import isolate
from tests.test_github_publish import entries, workflow_run, zipped


@pytest.fixture
def github() -> Iterator[GitHubServer]:
    with GitHubServer().running() as server:
        yield server


@pytest.fixture
def project(github: GitHubServer, monkeypatch: pytest.MonkeyPatch, site: Site) -> Iterator[Project]:
    """A project whose tests can be graded here; ``site`` skips where they cannot."""
    with open_project(github, monkeypatch) as found:
        yield found


@pytest.mark.wordpress
class TestPullRequest:
    def test_what_changed_is_commented_annotated_summed_up_and_fails_the_job(
        self, project: Project, github: GitHubServer
    ) -> None:
        project.open_pull(head_files())
        result = project.run_pull(runtime="auto", options="--mutants=0\n--confirm 1")
        assert result.status == 1, result.log
        assert result.outputs["conclusion"] == "failure"
        assert (result.outputs["regressed"], result.outputs["fixed"]) == ("1", "1")
        assert result.outputs["newly-exploitable"] == "1"
        [comment] = github.comments
        assert result.outputs["comment-url"] == comment["html_url"]
        assert comment["body"].startswith(marker("default"))
        first = comment["body"].split("\n")[2]
        assert "1 regressed, 1 newly exploitable" in first
        assert f"main ({project.base[:7]})" in first and f"&#35;1 merged ({project.merge[:7]})" in first
        assert (
            "[The full report](https://github.example/octo/bench/actions/runs/9001/artifacts/1)"
            in comment["body"]
        )
        assert "**regressed**" in result.summary and marker("default") not in result.summary
        self._check_annotations(result)
        artifact = github.artifacts[0]
        assert artifact["name"] == "refcompare"
        report = Path(result.outputs["report"])
        for name in ("base/records.jsonl", "head/records.jsonl", "comparison.json", "comment.md"):
            assert (report / name).is_file()

    def _check_annotations(self, result: Result) -> None:
        errors = [item for item in result.said("error") if "file" in item.properties]
        assert {item.properties["title"].partition(":")[0] for item in errors} == {
            "regressed",
            "newly exploitable",
        }
        for item in errors:
            lines = head_files()[item.properties["file"]].decode().split("\n")
            test_id = item.properties["title"].rpartition(" ")[2]
            # The line is that of the test itself: its id stands there or just below.
            place = int(item.properties["line"]) - 1
            assert any(test_id in line for line in lines[place : place + 4])

    def test_the_next_push_updates_the_comment_and_reuses_verdicts(
        self, project: Project, github: GitHubServer
    ) -> None:
        project.open_pull(edited("hooks", {"reference_solution": "function nothing() {}"}))
        first = project.run_pull(**ONE, check_run="true")
        [check] = github.check_runs
        assert (check["head_sha"], check["conclusion"]) == (project.head, "failure")
        assert check["all_annotations"][0]["path"] == f"{SUITE}/hooks.json"
        assert first.status == 1 and first.outputs["regressed"] == "1", first.log
        project.open_pull(edited("hooks", {"prompt": "Only the wording differs now."}))
        second = project.run_pull(**ONE)
        assert second.status == 0 and second.outputs["conclusion"] == "success", second.log
        [comment] = github.comments
        assert comment["edits"] == 1 and "1 edited" in comment["body"]
        assert "reused)" in comment["body"]
        assert second.outputs["comment-url"] == first.outputs["comment-url"]
        # The second run graded nothing new, so there was no cache to save again.
        assert "Keep new verdicts" in first.ran and "Keep new verdicts" not in second.ran

    def test_a_suite_that_breaks_every_test_is_still_a_comment(
        self, project: Project, github: GitHubServer
    ) -> None:
        project.open_pull({**state_files("base"), f"{SUITE}/hooks.json": b"{ broken"})
        result = project.run_pull(**ONE)
        assert len(github.comments) == 1
        assert result.outputs["conclusion"] in ("failure", "success")

    def test_a_configuration_that_is_wrong_is_said_in_the_comment_and_is_status_2(
        self, project: Project, github: GitHubServer
    ) -> None:
        project.open_pull({**state_files("base"), "refcompare.yml": b"fail_on: nonsense\n"})
        result = project.run_pull(runtime="auto")
        # The set-up reads it as well, and nothing was compared.
        assert result.status == 2
        assert any("refcompare.yml:1" in item.message for item in result.said("error"))

    def test_an_option_that_is_wrong_ends_in_a_comment_without_a_verdict(
        self, project: Project, github: GitHubServer
    ) -> None:
        github.add_pull(1)
        project.open_pull(head_files())
        github.add_comment(1, f"{marker('default')}\n\nall is well")
        result = project.run_pull(runtime="auto", options="--test-id=no-such-test")
        assert (result.status, result.outputs["conclusion"]) == (2, "error")
        [comment] = github.comments
        assert "**no verdict**" in comment["body"] and "no-such-test" in comment["body"]
        assert "**no verdict**" in result.summary

    def test_a_read_only_token_leaves_the_summary_and_one_warning(
        self, project: Project, github: GitHubServer
    ) -> None:
        github.accounts[TOKEN] = Account(write=frozenset())
        project.open_pull(edited("hooks", {"prompt": "Reworded."}))
        result = project.run_pull(**ONE)
        assert result.status == 0, result.log
        [warning] = result.said("warning")
        assert FORBIDDEN in warning.message and "pull-requests: write" in warning.message
        assert "1 edited" in result.summary and "could not be posted" in result.summary
        assert result.outputs["comment-url"] == ""

    def test_hostile_text_is_obeyed_nowhere(self, project: Project, github: GitHubServer) -> None:
        hostile = (
            "::error file=x::forged\n::add-mask::e\n##[error]forged\n::stop-commands::x\n"
            "@octocat fixes #1 | `x` <img src=x onerror=alert(1)> <!-- refcompare:other --> \u202eevil\u202c"
        )
        name = "hooks\n::warning::forged"
        change = {
            "id": "demo::error::id",
            "category": name,
            "reference_solution": "throw new Exception( " + json.dumps(hostile) + " );",
        }
        project.open_pull(edited("hooks", change))
        result = project.run_pull(**ONE)
        assert not [item for item in result.commands if item.message.startswith("forged")]
        assert {item.name for item in result.commands} <= {"error", "warning", "notice"}
        [comment] = github.comments
        page = rendered(comment["body"])
        assert "<img" not in page and "\u202e" not in page
        assert "\u202e" not in result.log + result.summary
        assert comment["body"].count("<!-- refcompare:") == 1

    def test_each_configuration_has_its_comment_and_its_artifact(
        self, project: Project, github: GitHubServer
    ) -> None:
        project.open_pull(edited("hooks", {"prompt": "Reworded."}))
        project.run_pull(**ONE)
        result = project.run_pull(**ONE, key="php-8.4", comment_mode="recreate")
        assert [item["body"].split("\n")[0] for item in github.comments] == [
            marker("default"),
            marker("php-8.4"),
        ]
        assert github.artifacts[-1]["name"] == "refcompare-php-8.4"
        assert result.status == 0

    def test_a_checkout_in_a_sub_directory_under_a_gate_that_lets_all_pass(
        self, project: Project, github: GitHubServer
    ) -> None:
        project.open_pull(edited("hooks", {"reference_solution": "function nothing() {}"}))
        outer = project.runner.workspace
        project.runner.workspace = outer / "inner"
        project.checkout("refs/pull/1/merge")
        project.runner.workspace = outer
        event = project.pull_event()
        inputs = {**ONE, "working_directory": "inner", "comment": "never", "fail_on": "none"}
        result = project.runner.run("pull_request", event, sha=project.merge, **inputs)
        assert result.status == 0 and not github.comments, result.log


@pytest.mark.wordpress
def test_agent_evals_that_are_asked_for_are_compared_and_commented(
    github: GitHubServer, monkeypatch: pytest.MonkeyPatch, site: Site
) -> None:
    """A stand-in follows the guidance of each ref to the letter, so no model is needed."""
    with open_project(github, monkeypatch, guidance_files("base")) as project:
        project.open_pull(guidance_files("head"))
        options = "--only agent\n--agent scripted\n--repeat 6"
        result = project.run_pull(runtime="native", key="agents", options=options)
        assert (result.status, result.outputs["conclusion"]) == (1, "failure"), result.log
        [comment] = github.comments
        assert comment["body"].startswith(marker("agents"))
        assert "metric regressed" in comment["body"] and "| metric | base | head |" in comment["body"]
        assert "metric regressed" in result.summary
        report = Path(result.outputs["report"])
        assert (report / "head" / "trials.jsonl").read_text().count("\n") == 12


@pytest.mark.docker
@pytest.mark.timeout(600)
def test_by_default_workers_run_in_docker(project: Project, github: GitHubServer) -> None:
    works = docker_available()
    if not works.works and os.environ.get("REFCOMPARE_REQUIRE_DOCKER") == "1":
        pytest.fail(works.message)
    if not works.works:
        pytest.skip(works.message)
    project.open_pull(edited("hooks", {"reference_solution": "function nothing() {}"}))
    result = project.run_pull(audit="false", options="--confirm=1\n--changed")
    assert result.status == 1 and result.outputs["regressed"] == "1", result.log
    assert "| runtime | <code>docker</code> | <code>docker</code> |" in github.comments[0]["body"]


@pytest.mark.timeout(600)
def test_the_installation_is_of_the_actions_own_version(
    github: GitHubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What builds and what it depends on are those of these tests, so that nothing is fetched."""
    isolate(monkeypatch, tmp_path / "home")
    project = Project(tmp_path, github)
    project.runner.installs = True
    project.runner.environment = {
        "PIP_NO_BUILD_ISOLATION": "0",  # which is how pip spells it
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PYTHONPATH": str(Path(yaml.__file__).parent.parent),
    }
    project.open_pull(head_files())
    project.checkout("refs/pull/1/merge")
    result = project.runner.run("pull_request", project.pull_event(action="closed"), sha=project.merge)
    assert (result.status, result.outputs["conclusion"]) == (0, "skipped"), result.log
    installed = project.runner.temporary / "refcompare" / "venv"
    assert list(installed.glob("lib/python3*/site-packages/refcompare/_php/worker.php"))


class TestNothingToCompare:
    """Steps that end before anything is graded, so that no WordPress is needed."""

    @pytest.fixture
    def project(self, github: GitHubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
        isolate(monkeypatch, tmp_path / "home")
        return Project(tmp_path, github)

    def test_a_closed_pull_request_is_skipped(self, project: Project) -> None:
        project.open_pull(head_files())
        project.checkout("refs/pull/1/merge")
        result = project.runner.run("pull_request", project.pull_event(action="closed"), sha=project.merge)
        assert (result.status, result.outputs["conclusion"]) == (0, "skipped")
        assert result.ran == ["Find Python", "Install refcompare", "Find the two refs"]
        assert "closed" in result.summary

    def test_the_first_commit_is_skipped(self, project: Project) -> None:
        project.checkout("main")
        event = {"before": NO_COMMIT, "repository": {"default_branch": "main"}}
        result = project.runner.run("push", event, sha=project.base, ref="refs/heads/main")
        assert (result.status, result.outputs["conclusion"]) == (0, "skipped")

    def test_without_a_checkout_the_error_says_so(self, project: Project) -> None:
        project.open_pull(head_files())
        result = project.runner.run("pull_request", project.pull_event(), sha=project.merge)
        assert result.status == 2
        assert "actions/checkout" in result.said("error")[0].message

    def test_pull_request_target_is_refused(self, project: Project) -> None:
        project.open_pull(head_files())
        project.checkout("main")
        result = project.runner.run("pull_request_target", project.pull_event(), sha=project.base)
        assert result.status == 2 and "secrets" in result.said("error")[0].message

    @pytest.mark.parametrize(
        ("damage", "account", "status", "said"),
        [
            ({}, Account(write=frozenset()), 3, "pull-requests: write"),
            ({"head/run.json": b"{"}, Account(), 2, "run.json"),
        ],
        ids=["refused", "unreadable"],
    )
    def test_what_cannot_be_published_is_said_in_the_summary_and_fails_the_job(
        self,
        project: Project,
        github: GitHubServer,
        damage: dict[str, bytes],
        account: Account,
        status: int,
        said: str,
    ) -> None:
        github.accounts[TOKEN] = account
        github.add_pull(1, head="a" * 40, fork="mallory/bench")
        github.unlisted_commits.add("a" * 40)
        github.add_artifact(7, "refcompare", zipped({**entries(), **damage}))
        event = {"workflow_run": workflow_run(head_repository={"full_name": "mallory/bench"})}
        result = project.run_event("workflow_run", project.base, "refs/heads/main", event, mode="publish")
        assert result.status == status, result.log
        [error] = result.said("error")
        assert said in error.message and said in html.unescape(result.summary)

    @pytest.mark.parametrize(
        ("name", "value", "said"),
        [
            ("comment", "allways", "did you mean 'always'"),
            ("comment_mode", "replace", "update or recreate"),
            ("audit", "yes", "true or false"),
            ("key", "a b", "letters"),
            ("fail_on", "nonsense", "no kind of change"),
            ("options", "main", "one a line"),
            ("options", "--output=/etc", "sets it itself"),
            ("working_directory", "../..", "leads out"),
            ("mode", "x", "compare, publish or drift"),
        ],
    )
    def test_an_input_that_is_wrong_is_named(
        self, project: Project, name: str, value: str, said: str
    ) -> None:
        project.open_pull(head_files())
        wrong: dict[str, Any] = {name: value}
        result = project.run_pull(**wrong)
        assert result.status == 2, result.log
        [error] = result.said("error")
        assert said in error.message


# ------------------------------------------------------------------------ the file itself


def definition() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    return found


def test_every_input_is_read_and_every_field_is_an_input() -> None:
    inputs = definition()["inputs"]
    assert set(inputs) == {input_name(item.name) for item in fields(Inputs)} | {"github-token"}
    steps = {step["name"]: step for step in definition()["runs"]["steps"]}
    for name in set(inputs) - {"github-token"}:
        variable = f"INPUT_{name.upper().replace('-', '_')}"
        assert steps["Find the two refs"]["env"][variable] == f"${{{{ inputs.{name} }}}}"
    defaults = Inputs()
    for item in fields(Inputs):
        stated, meant = inputs[input_name(item.name)]["default"], getattr(defaults, item.name)
        assert Inputs.from_environment({f"INPUT_{item.name.upper()}": stated}) == defaults, (stated, meant)


def test_no_expression_reaches_a_shell_and_no_grading_step_has_the_token() -> None:
    for step in definition()["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        if step["name"] in ("Set up what grades", "Compare", "Conclude"):
            assert "GITHUB_TOKEN" not in step["env"]


def test_other_peoples_actions_are_pinned_to_commits() -> None:
    for match in re.finditer(r"uses: (\S+)( .*)?", ACTION.read_text(encoding="utf-8")):
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", match[1]) and re.fullmatch(
            r" # v\d+\.\d+\.\d+", match[2] or ""
        )


def test_every_run_step_but_the_installation_is_one_command_of_refcompare() -> None:
    for step in definition()["runs"]["steps"]:
        if "run" in step and step["name"] != "Install refcompare":
            assert re.fullmatch(r'"\$RUNNER_TEMP/refcompare/venv/bin/refcompare" action [a-z-]+', step["run"])


def rendered(markdown: str) -> str:
    html: str = cmarkgfm.github_flavored_markdown_to_html(markdown, CmarkOptions.CMARK_OPT_UNSAFE)
    return html


def test_the_runner_of_these_tests_obeys_what_github_obeys() -> None:
    lines = [
        "::error file=a,line=3,title=x%3A y::one%0Atwo",
        "text ##[warning]old",
        "::stop-commands::t",
        "::error::no",
        "::t::",
    ]
    assert obeyed("\n".join(lines)) == [
        Command("error", {"file": "a", "line": "3", "title": "x: y"}, "one\ntwo"),
        Command("warning", {}, "old"),
    ]
