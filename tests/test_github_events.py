"""The action on every event that starts it, from its first step to its last, in a shallow checkout."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refcompare.github.runner import NO_COMMIT
from refcompare.report.escape import marker
from refcompare.wordpress import releases
from refcompare.wordpress.releases import DEFAULT_VERSION, Release
from refcompare.wordpress.site import Site
from tests.action_project import ONE, Project, edited, open_project
from tests.action_runner import Result
from tests.github_server import TOKEN, Account, GitHubServer
from tests.http_answers import serving

BROKEN = edited("hooks", {"reference_solution": "function nothing() {}"})
REWORDED = edited("hooks", {"prompt": "Only the wording differs now."})
MAIN = "refs/heads/main"

pytestmark = pytest.mark.wordpress


@pytest.fixture
def github() -> Iterator[GitHubServer]:
    with GitHubServer().running() as server:
        yield server


@pytest.fixture
def project(github: GitHubServer, monkeypatch: pytest.MonkeyPatch, site: Site) -> Iterator[Project]:
    """A project whose tests can be graded here; ``site`` skips where they cannot."""
    with open_project(github, monkeypatch) as found:
        yield found


def compared(result: Result) -> tuple[str, str]:
    """Give what the first line of the summary says was compared."""
    line = result.summary.split("\n")[0]
    base, head = line.split("(<code>")[1].split("</code> → <code>")
    return base, head.partition("</code>)")[0]


class TestPullRequest:
    def test_only_its_own_changes_count_where_the_base_has_moved_on(
        self, project: Project, github: GitHubServer
    ) -> None:
        """The merge result is compared, so what main broke meanwhile is on both sides."""
        fork_point = project.base
        project.base = project.push(edited("options", {"reference_solution": "function nothing() {}"}))
        project.remote.git("checkout", "-q", "-b", "old", fork_point)
        base, project.base = project.base, fork_point
        project.open_pull(REWORDED)
        head = project.head
        project.remote.git("checkout", "-q", "--detach", base)
        project.remote.git("merge", "-q", "--no-ff", "-m", "Merge", head)
        project.merge = project.remote.git("rev-parse", "HEAD")
        project.remote.git("update-ref", "refs/pull/1/merge", project.merge)
        # What GitHub's event says of the base may be older than what it merged into.
        result = project.run_pull(**ONE)
        assert result.status == 0, result.log
        assert compared(result) == (f"main ({base[:7]})", f"&#35;1 merged ({project.merge[:7]})")
        assert "1 edited" in github.comments[0]["body"] and "regressed" not in github.comments[0]["body"]

    def test_a_base_branch_that_was_deleted_is_still_what_was_merged_into(
        self, project: Project, github: GitHubServer
    ) -> None:
        project.remote.git("checkout", "-q", "-b", "release")
        project.open_pull(BROKEN)
        project.remote.git("checkout", "-q", "--detach", project.base)
        project.remote.git("branch", "-q", "-D", "release", "topic-1")
        result = project.run_pull(**ONE)
        assert (result.status, result.outputs["regressed"]) == (1, "1"), result.log

    def test_one_that_conflicts_has_no_merge_result_and_says_so_when_it_is_asked_for(
        self, project: Project
    ) -> None:
        """GitHub starts no run for it; somebody may do so by hand."""
        project.checkout("main")
        result = project.run_event(
            "workflow_dispatch", project.base, MAIN, {}, head="refs/pull/7/merge", **ONE
        )
        assert result.status == 2
        assert "refs/pull/7/merge" in result.said("error")[0].message
        assert "conflicts" in result.said("error")[0].message

    def test_a_forks_is_commented_by_a_second_workflow_that_runs_none_of_it(
        self, project: Project, github: GitHubServer
    ) -> None:
        project.open_pull(BROKEN, fork="mallory/bench")
        github.unlisted_commits.add(project.head)
        github.accounts[TOKEN] = Account(write=frozenset())
        first = project.run_pull(**ONE, comment="never")
        assert (first.status, first.outputs["regressed"]) == (1, "1"), first.log
        assert not github.comments and not first.said("warning")
        run = {
            "id": project.runner.run_id,
            "event": "pull_request",
            "conclusion": "failure",
            "head_sha": project.head,
            "head_branch": "topic-1",
            "head_repository": {"full_name": "mallory/bench"},
            "html_url": "https://github.example/octo/bench/actions/runs/1",
            "pull_requests": [],
        }
        github.accounts[TOKEN] = Account(write=frozenset({"pull-requests"}))
        shutil.rmtree(project.runner.workspace)
        second = project.run_event("workflow_run", project.base, MAIN, {"workflow_run": run}, mode="publish")
        assert second.status == 0, second.log
        assert second.ran == ["Find Python", "Install refcompare", "Publish"]
        [comment] = github.comments_of(1)
        assert second.outputs["comment-url"] == comment["html_url"]
        assert comment["body"].startswith(marker("default")) and "**1 regressed" in comment["body"]


class TestPush:
    def test_it_is_compared_with_the_commit_before(self, project: Project, github: GitHubServer) -> None:
        after = project.push(REWORDED)
        project.checkout("main")
        result = project.run_event("push", after, MAIN, {"before": project.base, "after": after}, **ONE)
        assert result.status == 0, result.log
        assert "1 edited" in result.summary and compared(result)[0].startswith("main before the push")
        assert not github.comments and result.outputs["comment-url"] == ""

    @pytest.mark.parametrize(
        ("before", "said"), [(NO_COMMIT, "main"), ("d" * 40, "topic before the push")], ids=["new", "forced"]
    )
    def test_a_new_branch_or_one_that_was_forced_is_compared_with_where_it_left_main(
        self, project: Project, before: str, said: str
    ) -> None:
        project.remote.git("checkout", "-q", "-b", "topic")
        project.push(REWORDED)
        after = project.push(BROKEN)
        project.remote.git("checkout", "-q", "main")
        project.push({"README.md": b"main has moved on"})
        project.checkout("topic")
        event = {"before": before, "after": after, "forced": before != NO_COMMIT}
        result = project.run_event("push", after, "refs/heads/topic", event, **ONE)
        assert (result.status, result.outputs["regressed"]) == (1, "1"), result.log
        assert compared(result)[0] == f"{said} ({project.base[:7]})"


def test_on_a_schedule_a_branch_is_compared_with_itself_a_week_ago(project: Project) -> None:
    a_week_ago = project.push(REWORDED, days_ago=9)
    project.push(edited("options", {"prompt": "Reworded."}), days_ago=3)
    now = project.push(BROKEN)
    project.checkout("main")
    result = project.run_event("schedule", now, MAIN, {}, **ONE)
    assert (result.status, result.outputs["regressed"]) == (1, "1"), result.log
    assert compared(result) == (f"main a week ago ({a_week_ago[:7]})", f"main ({now[:7]})")


class TestByHand:
    def test_a_branch_is_compared_with_where_it_left_the_default_one(self, project: Project) -> None:
        project.remote.git("checkout", "-q", "-b", "topic")
        head = project.push(REWORDED)
        project.checkout("topic")
        result = project.run_event("workflow_dispatch", head, "refs/heads/topic", {}, **ONE)
        assert result.status == 0 and "1 edited" in result.summary, result.log
        assert compared(result) == (f"main ({project.base[:7]})", f"topic ({head[:7]})")

    def test_refs_of_ones_own_are_fetched(self, project: Project) -> None:
        project.remote.git("tag", "v1")
        after = project.push(REWORDED)
        project.checkout("main")
        result = project.run_event("workflow_dispatch", after, MAIN, {}, base="v1", **ONE)
        assert result.status == 0 and "1 edited" in result.summary, result.log

    def test_a_forks_pull_request_gets_its_comment(self, project: Project, github: GitHubServer) -> None:
        project.open_pull(BROKEN, fork="mallory/bench")
        project.checkout("main")
        inputs = {**ONE, "head": "refs/pull/1/merge", "check_run": "true"}
        result = project.run_event("workflow_dispatch", project.base, MAIN, {}, **inputs)
        assert (result.status, result.outputs["regressed"]) == (1, "1"), result.log
        [comment] = github.comments_of(1)
        assert f"main ({project.base[:7]})" in comment["body"]
        assert not github.check_runs and "no commit to report a check run for" in result.log


def test_a_merge_group_is_compared_with_the_branch_it_is_queued_for(project: Project) -> None:
    project.open_pull(BROKEN)
    queue = "refs/heads/gh-readonly-queue/main/pr-1-abc"
    project.remote.git("update-ref", queue, project.merge)
    project.checkout(queue)
    group = {
        "action": "checks_requested",
        "merge_group": {
            "base_sha": project.base,
            "base_ref": MAIN,
            "head_sha": project.merge,
            "head_ref": queue,
        },
    }
    result = project.run_event("merge_group", project.merge, queue, group, **ONE)
    assert (result.status, result.outputs["regressed"]) == (1, "1"), result.log
    assert compared(result) == (f"main ({project.base[:7]})", f"merge queue ({project.merge[:7]})")


class TestDrift:
    """One issue says what a week, or the newest WordPress, has changed."""

    def look(self, project: Project, sha: str, newest: str, status: int = 0) -> Result:
        offers = json.dumps({"offers": [{"version": newest}]}).encode()
        project.checkout("main")
        with serving(offers) as url:
            project.runner.environment = {"REFCOMPARE_WORDPRESS_RELEASES_URL": url}
            result = project.run_event("schedule", sha, MAIN, {}, mode="drift", **ONE)
        assert result.status == status, result.log
        return result

    def test_a_week_that_broke_a_test_opens_an_issue_that_a_good_one_closes(
        self, project: Project, github: GitHubServer
    ) -> None:
        bad = project.push(BROKEN)
        first = self.look(project, bad, DEFAULT_VERSION)
        assert first.outputs["conclusion"] == "failure" and "Keep new verdicts" in first.ran
        [issue] = github.issues.values()
        assert issue["state"] == "open" and "main a week ago" in issue["body"]
        worse = project.push({**BROKEN, **_only("options", edited("options", {"reference_solution": "x"}))})
        self.look(project, worse, DEFAULT_VERSION)
        assert (issue["state"], "2 regressed" in issue["body"]) == ("open", True)
        good = project.push(REWORDED)
        result = self.look(project, good, DEFAULT_VERSION)
        assert len(github.issues) == 1
        assert (issue["state"], result.outputs["conclusion"]) == ("closed", "success")
        assert "1 edited" in issue["body"] and "1 edited" in result.summary
        assert f"WordPress {DEFAULT_VERSION}, which is the newest" in issue["body"]

    def test_an_issue_that_may_not_be_kept_is_said_and_fails_the_job(
        self, project: Project, github: GitHubServer
    ) -> None:
        github.accounts[TOKEN] = Account(write=frozenset())
        bad = project.push(BROKEN)
        result = self.look(project, bad, DEFAULT_VERSION, status=3)
        [error] = result.said("error")
        assert "issues: write" in error.message and "1 regressed" in result.summary
        assert not github.issues

    def test_the_same_tree_is_graded_on_the_newest_release_and_on_the_pinned_one(
        self, project: Project, github: GitHubServer, release: Release, site: Site
    ) -> None:
        """A release that shows no shortcode stands for the next WordPress."""
        cache = project.runner.directory / "shared"
        for kind, known in (("releases", release.core.parent), ("sites", site.root.parent)):
            (cache / kind).mkdir(parents=True)
            (cache / kind / known.name).symlink_to(known)
        _without_shortcodes(release, cache / "releases" / "9.9")
        project.runner.shared_cache = cache
        inputs = {"runtime": "native", "audit": "false", "options": "--confirm=1"}
        head = project.push({"README.md": b"reworded"})
        project.checkout("main")
        with serving(json.dumps({"offers": [{"version": "9.9"}]}).encode()) as url:
            project.runner.environment = {"REFCOMPARE_WORDPRESS_RELEASES_URL": url}
            result = project.run_event("schedule", head, MAIN, {}, mode="drift", **inputs)
        assert (result.status, result.outputs["conclusion"]) == (0, "failure"), result.log
        [issue] = github.issues.values()
        assert f"## WordPress {DEFAULT_VERSION} → 9.9" in issue["body"]
        assert "2 regressed" in issue["body"] and "differs: WordPress 7.1.1 → 9.9" in issue["body"]


def _only(category: str, files: dict[str, bytes]) -> dict[str, bytes]:
    return {path: data for path, data in files.items() if path.endswith(f"/{category}.json")}


def _without_shortcodes(release: Release, into: Path) -> None:
    shutil.copytree(release.core.parent, into)
    (into / "release.json").unlink()
    version = into / "core" / "wp-includes" / "version.php"
    version.write_text(version.read_text().replace(f"'{release.version}'", "'9.9'"))
    shortcodes = into / "core" / "wp-includes" / "shortcodes.php"
    text: Any = shortcodes.read_text()
    shortcodes.write_text(
        text.replace("\tglobal $shortcode_tags;", "\treturn '';\n\tglobal $shortcode_tags;")
    )
    releases._finish(into, "test", "9.9")
