"""Which two refs an event means, and getting them into a shallow checkout."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from refcompare.errors import UsageError
from refcompare.github.event import (
    ByRef,
    DaysBefore,
    FirstParent,
    MergeBase,
    Nothing,
    PullRequestBase,
    Request,
    request,
)
from refcompare.github.fetch import Checkout, Resolved, resolve
from refcompare.github.runner import NO_COMMIT, Event, Runner
from tests.support_git import Scratch, isolate

A, B, C = "a" * 40, "b" * 40, "c" * 40


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path / "home")


def runner(name: str, payload: dict[str, Any] | None = None, *, sha: str = A, ref: str = "") -> Runner:
    payload = {"repository": {"default_branch": "main"}, **(payload or {})}
    return Runner(Event(name, payload, sha, ref), "octo/bench", Path(), Path())


def pull_request(action: str = "synchronize", *, head: str = B, base: str = C) -> dict[str, Any]:
    return {
        "action": action,
        "pull_request": {
            "number": 12,
            "head": {"sha": head, "ref": "feature"},
            "base": {"sha": base, "ref": "main"},
        },
    }


def wanted(found: Request | Nothing) -> Request:
    assert isinstance(found, Request)
    return found


class TestEvents:
    def test_a_pull_request_compares_its_merge_result_with_what_it_is_merged_into(self) -> None:
        found = wanted(request(runner("pull_request", pull_request(), ref="refs/pull/12/merge")))
        assert (found.head, found.bases) == (A, (PullRequestBase(C, B),))
        assert (found.base_name, found.head_name) == ("main", "#12 merged")
        assert (found.pull, found.reported) == (12, B)

    def test_a_closed_pull_request_has_nothing_to_compare(self) -> None:
        assert request(runner("pull_request", pull_request("closed"))) == Nothing(
            "Pull request #12 is closed, so nothing is compared."
        )

    def test_pull_request_target_is_refused(self) -> None:
        with pytest.raises(UsageError, match="secrets"):
            request(runner("pull_request_target", pull_request()))
        with pytest.raises(UsageError, match="secrets"):
            request(runner("pull_request_target", pull_request()), "main", B)

    def test_a_push_compares_with_what_was_there_before(self) -> None:
        found = wanted(request(runner("push", {"before": B, "after": A}, ref="refs/heads/main")))
        assert (found.head, found.bases) == (A, (ByRef(B), FirstParent()))
        assert (found.base_name, found.head_name, found.pull) == ("main before the push", "main", None)

    def test_a_push_that_replaced_history_has_other_ways_to_a_base(self) -> None:
        found = wanted(request(runner("push", {"before": B, "forced": True}, ref="refs/heads/topic")))
        assert found.bases == (ByRef(B), MergeBase("main"), FirstParent())

    @pytest.mark.parametrize("ref", ["refs/heads/topic", "refs/tags/v1"])
    def test_a_new_branch_or_tag_is_compared_with_where_it_left_the_default_branch(self, ref: str) -> None:
        found = wanted(request(runner("push", {"before": NO_COMMIT, "created": True}, ref=ref)))
        assert found.bases == (MergeBase("main"), FirstParent())

    def test_the_first_push_to_the_default_branch_is_compared_with_its_parent(self) -> None:
        found = wanted(request(runner("push", {"before": NO_COMMIT}, ref="refs/heads/main")))
        assert found.bases == (FirstParent(),)

    def test_a_deleted_branch_has_nothing_to_compare(self) -> None:
        found = request(runner("push", {"before": B, "deleted": True}, sha=NO_COMMIT, ref="refs/heads/x"))
        assert isinstance(found, Nothing)

    def test_a_schedule_compares_with_a_week_ago(self) -> None:
        found = wanted(request(runner("schedule", ref="refs/heads/main")))
        assert (found.head, found.bases, found.base_name) == (A, (DaysBefore(7),), "main a week ago")

    def test_looking_for_drift_compares_with_a_week_ago_whatever_started_it(self) -> None:
        found = wanted(request(runner("workflow_dispatch", ref="refs/heads/main"), weekly=True))
        assert found.bases == (DaysBefore(7),)

    def test_a_merge_group_compares_with_the_branch_it_is_queued_for(self) -> None:
        group = {"merge_group": {"base_sha": C, "head_sha": A, "base_ref": "refs/heads/main"}}
        found = wanted(request(runner("merge_group", group, ref="refs/heads/gh-readonly-queue/main/pr-12")))
        assert (found.head, found.bases, found.base_name) == (A, (ByRef(C),), "main")

    @pytest.mark.parametrize("name", ["workflow_dispatch", "repository_dispatch", "release", "anything"])
    def test_any_other_event_compares_its_branch_with_the_default_one(self, name: str) -> None:
        assert wanted(request(runner(name, ref="refs/heads/topic"))).bases == (
            MergeBase("main"),
            FirstParent(),
        )
        assert wanted(request(runner(name, ref="refs/heads/main"))).bases == (FirstParent(),)

    def test_a_workflow_run_is_for_publishing(self) -> None:
        with pytest.raises(UsageError, match="mode: publish"):
            request(runner("workflow_run"))

    def test_what_the_workflow_asks_for_wins(self) -> None:
        event = runner("pull_request", pull_request())
        assert wanted(request(event, "v1", "HEAD~1")) == Request(
            "HEAD~1", (ByRef("v1"),), "HEAD~1", "v1", 12, B
        )
        assert wanted(request(event, base="v1")).bases == (ByRef("v1"),)
        head = wanted(request(event, head="topic"))
        assert (head.head, head.bases) == ("topic", (MergeBase(C),))

    def test_a_head_of_ones_own_is_compared_with_where_it_left_the_default_branch(self) -> None:
        found = wanted(request(runner("workflow_dispatch", ref="refs/heads/main"), head="topic"))
        assert (found.head, found.bases) == ("topic", (MergeBase("main"), FirstParent()))
        assert (found.base_name, found.head_name, found.pull) == ("main", "topic", None)

    @pytest.mark.parametrize("base", ["", "v1"])
    def test_a_pull_request_that_is_compared_by_hand_gets_the_comment(self, base: str) -> None:
        event = runner("workflow_dispatch", ref="refs/heads/main")
        found = wanted(request(event, base, "refs/pull/12/merge"))
        assert (found.pull, found.head_name) == (12, "#12")
        # The commit of the event is the default branch's, so no check run is reported for it.
        assert found.reported is None
        for ref in ("refs/pull/0/merge", "refs/pull/12/other", "refs/heads/refs/pull/12/merge"):
            assert wanted(request(event, base, ref)).pull is None

    def test_asking_for_a_base_makes_up_for_an_event_that_has_none(self) -> None:
        event = runner("push", {"deleted": True}, ref="refs/heads/x")
        assert wanted(request(event, base="v1")).bases == (ByRef("v1"),)

    @pytest.mark.parametrize("name", ["pull_request", "merge_group"])
    def test_an_event_without_its_commits_is_a_clear_error(self, name: str) -> None:
        with pytest.raises(UsageError, match=name):
            request(runner(name, {name: {"number": 1, "head": {"sha": "main; rm -rf /"}}}))


class TestSurroundings:
    def test_outside_of_a_workflow_the_command_says_so(self) -> None:
        with pytest.raises(UsageError, match="outside of a workflow"):
            Runner.from_environment({})

    def test_the_environment_is_read(self, tmp_path: Path) -> None:
        (tmp_path / "event.json").write_text('{"pull_request": {"number": 3, "draft": true}}')
        found = Runner.from_environment(
            {
                "GITHUB_REPOSITORY": "octo/bench",
                "GITHUB_EVENT_NAME": "pull_request",
                "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
                "GITHUB_API_URL": "https://github.corp/api/v3/",
                "GITHUB_TOKEN": "ghs_secret",
                "RUNNER_TEMP": str(tmp_path),
            }
        )
        assert found.event.number("pull_request", "number") == 3
        assert found.event.flag("pull_request", "draft")
        assert found.event.text("pull_request", "number", "x") == ""
        assert (found.api_url, found.temporary) == ("https://github.corp/api/v3", tmp_path)
        assert "ghs_secret" not in repr(found)

    @pytest.mark.parametrize("text", ["[]", "{", "\xff", "[" * 100_000])
    def test_an_event_that_is_none_is_a_clear_error(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "event.json").write_text(text, encoding="latin-1")
        with pytest.raises(UsageError, match="GITHUB_EVENT_PATH"):
            Runner.from_environment(
                {"GITHUB_REPOSITORY": "a/b", "GITHUB_EVENT_PATH": str(tmp_path / "event.json")}
            )

    @pytest.mark.parametrize("name", ["", "a", "a/b/c", "a/b\n", "../x y"])
    def test_a_repository_with_an_odd_name_is_refused(self, name: str) -> None:
        with pytest.raises(UsageError):
            Runner.from_environment({"GITHUB_REPOSITORY": name})


# --------------------------------------------------------------------------------- history


@dataclass
class Project:
    """A remote with a main branch, a pull request's branch, and GitHub's merge of the two."""

    remote: Scratch
    main: list[str] = field(default_factory=list)
    topic: list[str] = field(default_factory=list)
    merge: str = ""

    def shallow(self, place: Path, *refspec: str) -> Scratch:
        """Check out as actions/checkout does: one commit, detached, no branch."""
        checkout = Scratch.create(place)
        checkout.git("remote", "add", "origin", f"file://{self.remote.path}")
        checkout.git("fetch", "-q", "--no-tags", "--depth=1", "origin", *refspec)
        checkout.git("checkout", "-q", "--detach", "FETCH_HEAD")
        return checkout


def commit(scratch: Scratch, name: str, when: int) -> str:
    date = f"{when} +0000"
    words = ("commit", "-q", "--allow-empty", "-m", name)
    scratch.git(*words, GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date)
    return scratch.git("rev-parse", "HEAD")


DAY = 24 * 60 * 60
NOW = 1_700_000_000


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate(monkeypatch, tmp_path_factory.mktemp("home"))
        remote = Scratch.create(tmp_path_factory.mktemp("remote"))
        remote.git("config", "uploadpack.allowAnySHA1InWant", "true")
        found = Project(remote)
        for number in range(30):  # one a day, the last one now
            found.main.append(commit(remote, f"main {number}", NOW - (29 - number) * DAY))
        remote.git("tag", "v1", found.main[3])
        remote.git("tag", "-a", "-m", "signed", "v2", found.main[5])
        remote.git("checkout", "-q", "-b", "topic", found.main[10])
        for number in range(3):
            found.topic.append(commit(remote, f"topic {number}", NOW))
        remote.git("checkout", "-q", "--detach", found.main[-1])
        remote.git("merge", "-q", "--no-ff", "-s", "ours", "-m", "merge", "topic")
        found.merge = remote.git("rev-parse", "HEAD")
        remote.git("update-ref", "refs/pull/12/merge", found.merge)
        remote.git("checkout", "-q", "main")
        yield found


def checkout(scratch: Scratch, depths: tuple[int, ...] = (4, 16, 64), **fields: Any) -> Checkout:
    return Checkout(scratch.path, depths=depths, **fields)


def resolved(found: Request | Nothing, place: Checkout, now: float = NOW) -> Resolved | None:
    return resolve(wanted(found), place, now)


class TestFetching:
    def test_a_merge_result_is_compared_with_its_first_parent(self, project: Project, tmp_path: Path) -> None:
        scratch = project.shallow(tmp_path / "work", "refs/pull/12/merge")
        event = pull_request(head=project.topic[-1], base=project.main[20])
        found = resolved(request(runner("pull_request", event, sha=project.merge)), checkout(scratch))
        assert found == Resolved(project.main[-1], project.merge)
        assert scratch.git("cat-file", "-t", project.main[-1]) == "commit"
        # One commit was fetched, not the history before it.
        assert len(scratch.git("rev-list", "--all", "HEAD", project.main[-1]).split()) == 2

    def test_a_checkout_of_the_pull_requests_own_commit_is_compared_with_the_merge_base(
        self, project: Project, tmp_path: Path
    ) -> None:
        scratch = project.shallow(tmp_path / "work", "topic")
        event = pull_request(head=project.topic[-1], base=project.main[-1])
        found = resolved(request(runner("pull_request", event, sha=project.merge)), checkout(scratch))
        assert found == Resolved(project.main[10], project.topic[-1])

    def test_a_push_is_compared_with_the_commit_before(self, project: Project, tmp_path: Path) -> None:
        scratch = project.shallow(tmp_path / "work", "main")
        event = runner("push", {"before": project.main[2]}, sha=project.main[-1], ref="refs/heads/main")
        assert resolved(request(event), checkout(scratch)) == Resolved(project.main[2], project.main[-1])

    def test_what_a_forced_push_replaced_may_be_gone(self, project: Project, tmp_path: Path) -> None:
        scratch = project.shallow(tmp_path / "work", "topic")
        event = runner("push", {"before": "d" * 40}, sha=project.topic[-1], ref="refs/heads/topic")
        said: list[str] = []
        found = resolved(request(event), checkout(scratch, say=said.append))
        assert found == Resolved(project.main[10], project.topic[-1])
        assert any("dddd" in line for line in said)

    def test_a_new_branch_that_is_where_main_is_falls_back_to_its_parent(
        self, project: Project, tmp_path: Path
    ) -> None:
        scratch = project.shallow(tmp_path / "work", "main")
        event = runner("push", {"before": NO_COMMIT}, sha=project.main[-1], ref="refs/tags/v9")
        assert resolved(request(event), checkout(scratch)) == Resolved(project.main[-2], project.main[-1])

    def test_a_week_ago_is_found_in_growing_steps(self, project: Project, tmp_path: Path) -> None:
        scratch = project.shallow(tmp_path / "work", "main")
        event = runner("schedule", sha=project.main[-1], ref="refs/heads/main")
        found = resolved(request(event), checkout(scratch))
        assert found == Resolved(project.main[-8], project.main[-1])
        assert len(scratch.git("rev-list", "HEAD").split()) == 16

    def test_a_young_repository_is_compared_with_its_first_commit(
        self, project: Project, tmp_path: Path
    ) -> None:
        scratch = project.shallow(tmp_path / "work", "main")
        event = runner("schedule", sha=project.main[-1], ref="refs/heads/main")
        found = resolved(request(event), checkout(scratch), NOW - 25 * DAY)
        assert found == Resolved(project.main[0], project.main[-1])

    def test_history_that_is_too_long_is_not_fetched_for_ever(self, project: Project, tmp_path: Path) -> None:
        scratch = project.shallow(tmp_path / "work", "main")
        event = runner("schedule", sha=project.main[-1], ref="refs/heads/main")
        with pytest.raises(UsageError, match="fetch-depth: 0"):
            resolved(request(event), checkout(scratch, depths=(2, 3)))

    def test_the_first_commit_has_nothing_before_it(self, tmp_path: Path) -> None:
        scratch = Scratch.create(tmp_path / "work")
        sha = scratch.commit({"a": "1"})
        event = runner("push", {"before": NO_COMMIT}, sha=sha, ref="refs/heads/main")
        assert resolved(request(event), checkout(scratch)) is None

    @pytest.mark.parametrize(
        ("ref", "expected"),
        [
            ("v1", 3),
            ("refs/tags/v2", 5),
            ("main", 29),
            ("refs/heads/main", 29),
            ("origin/main", 29),
            ("main~12", 17),
            ("v2^^", 3),
            ("main...topic", 10),
            ("main...", 29),
        ],
    )
    def test_refs_that_the_checkout_lacks_are_fetched(
        self, project: Project, tmp_path: Path, ref: str, expected: int
    ) -> None:
        scratch = project.shallow(tmp_path / "work", "refs/pull/12/merge")
        event = runner("workflow_dispatch", sha=project.merge, ref="refs/heads/main")
        found = resolved(request(event, base=ref), checkout(scratch))
        assert found == Resolved(project.main[expected], project.merge)

    def test_a_forks_pull_request_can_be_compared_by_hand(self, project: Project, tmp_path: Path) -> None:
        scratch = project.shallow(tmp_path / "work", "main")
        event = runner("workflow_dispatch", sha=project.main[-1], ref="refs/heads/main")
        found = resolved(request(event, head="refs/pull/12/merge"), checkout(scratch))
        assert found == Resolved(project.main[-1], project.merge)

    def test_a_merge_group_is_compared_with_its_base(self, project: Project, tmp_path: Path) -> None:
        scratch = project.shallow(tmp_path / "work", project.merge)
        group = {"merge_group": {"base_sha": project.main[-1], "head_sha": project.merge}}
        found = resolved(request(runner("merge_group", group, sha=project.merge)), checkout(scratch))
        assert found == Resolved(project.main[-1], project.merge)

    def test_uncommitted_files_can_be_the_head(self, project: Project, tmp_path: Path) -> None:
        scratch = project.shallow(tmp_path / "work", "main")
        event = runner("workflow_dispatch", sha=project.main[-1], ref="refs/heads/main")
        found = resolved(request(event, head="WORKTREE"), checkout(scratch))
        assert found == Resolved(project.main[-2], "WORKTREE")

    def test_a_full_clone_stays_one_and_is_asked_for_nothing(self, project: Project, tmp_path: Path) -> None:
        scratch = Scratch.create(tmp_path / "work")
        scratch.git("fetch", "-q", f"file://{project.remote.path}", "+refs/*:refs/remotes/origin/*")
        scratch.git("checkout", "-q", "--detach", project.merge)
        scratch.git("remote", "add", "origin", "file:///nowhere")
        event = runner("schedule", sha=project.main[-1], ref="refs/heads/main")
        assert resolved(request(event), checkout(scratch)) == Resolved(project.main[-8], project.main[-1])
        assert scratch.git("rev-parse", "--is-shallow-repository") == "false"

    def test_branches_tags_and_files_stay_as_they_are(self, project: Project, tmp_path: Path) -> None:
        scratch = project.shallow(tmp_path / "work", "topic")
        scratch.git("checkout", "-q", "-b", "mine")
        before = scratch.git("for-each-ref"), scratch.git("status", "--porcelain")
        event = pull_request(head=project.topic[-1], base=project.main[-1])
        resolved(request(runner("pull_request", event, sha=project.merge)), checkout(scratch))
        assert (scratch.git("for-each-ref"), scratch.git("status", "--porcelain")) == before

    def test_without_a_checkout_the_error_says_what_to_add(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="actions/checkout"):
            Checkout(tmp_path)

    @pytest.mark.parametrize("ref", ["--upload-pack=touch x", "^main", "", "a..b", "x\0y"])
    def test_what_git_would_take_for_an_option_is_refused(
        self, project: Project, tmp_path: Path, ref: str
    ) -> None:
        scratch = project.shallow(tmp_path / "work", "main")
        with pytest.raises(UsageError):
            checkout(scratch).commit(ref)

    def test_a_ref_that_nobody_has_is_named(self, project: Project, tmp_path: Path) -> None:
        scratch = project.shallow(tmp_path / "work", "main")
        event = runner("workflow_dispatch", sha=project.main[-1], ref="refs/heads/main")
        with pytest.raises(UsageError, match="'no-such-branch'"):
            resolved(request(event, base="no-such-branch"), checkout(scratch))

    def test_unrelated_histories_are_told_apart_from_missing_ones(self, tmp_path: Path) -> None:
        scratch = Scratch.create(tmp_path / "work")
        scratch.commit({"a": "1"})
        scratch.git("checkout", "-q", "--orphan", "other")
        sha = scratch.commit({"b": "2"})
        event = runner("workflow_dispatch", sha=sha, ref="refs/heads/other")
        with pytest.raises(UsageError, match="no common history"):
            resolved(request(event, base="main...other"), checkout(scratch))


class _PrivateServer(BaseHTTPRequestHandler):
    """Serves a repository by git's own program to whoever brings the right credentials."""

    root: Path
    wanted: str
    seen: list[list[str]]

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.serve()

    def do_POST(self) -> None:
        self.serve()

    def serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        given = self.headers.get_all("Authorization") or []
        self.seen.append(given)
        if given != [self.wanted]:
            self.send_response(401 if len(given) < 2 else 400)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        environment = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path.removeprefix("/octo"),
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        done = subprocess.run(
            ["git", "http-backend"], input=body, env=environment, capture_output=True, check=True
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        self.send_response(200)
        for line in head.decode().split("\r\n"):
            name, _, value = line.partition(": ")
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


TOKEN = "ghs_0123456789abcdefghij"


@pytest.fixture
def private(project: Project) -> Iterator[tuple[str, type[_PrivateServer]]]:
    class Handler(_PrivateServer):
        root = project.remote.path.parent
        wanted = "basic " + base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
        seen: list[list[str]] = []  # noqa: RUF012  # one list for this test's server

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", Handler
    server.shutdown()
    server.server_close()
    thread.join()


class TestCredentials:
    def private_checkout(self, project: Project, tmp_path: Path, url: str) -> Scratch:
        scratch = project.shallow(tmp_path / "work", "main")
        scratch.git("remote", "set-url", "origin", f"{url}/octo/{project.remote.path.name}/.git")
        return scratch

    def test_the_token_opens_a_private_repository(
        self, project: Project, tmp_path: Path, private: tuple[str, type[_PrivateServer]]
    ) -> None:
        url, _ = private
        scratch = self.private_checkout(project, tmp_path, url)
        said: list[str] = []
        place = checkout(scratch, token=TOKEN, server_url=url, say=said.append)
        assert place.commit(project.main[4]) == project.main[4]
        encoded = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
        assert not any(TOKEN in line or encoded in line for line in said)
        kept = (scratch.path / ".git" / "config").read_text()
        assert TOKEN not in kept and encoded not in kept

    def test_credentials_that_the_checkout_kept_are_replaced_and_not_doubled(
        self, project: Project, tmp_path: Path, private: tuple[str, type[_PrivateServer]]
    ) -> None:
        url, handler = private
        scratch = self.private_checkout(project, tmp_path, url)
        scratch.git("config", f"http.{url}/.extraheader", "AUTHORIZATION: basic b2xkOm9sZA==")
        assert checkout(scratch, token=TOKEN, server_url=url).commit(project.main[4])
        assert max(len(given) for given in handler.seen) == 1

    def test_the_token_goes_to_no_other_server(
        self, project: Project, tmp_path: Path, private: tuple[str, type[_PrivateServer]]
    ) -> None:
        url, handler = private
        scratch = self.private_checkout(project, tmp_path, url)
        with pytest.raises(UsageError):
            checkout(scratch, token=TOKEN, server_url="https://github.example").commit(project.main[4])
        assert all(not given for given in handler.seen)

    def test_a_password_in_the_address_is_not_shown(self, project: Project, tmp_path: Path) -> None:
        scratch = project.shallow(tmp_path / "work", "main")
        scratch.git("remote", "set-url", "origin", f"http://user:{TOKEN}@127.0.0.1:9/octo/x.git")
        said: list[str] = []
        with pytest.raises(UsageError) as caught:
            checkout(scratch, say=said.append).commit("somewhere")
        assert said and TOKEN not in f"{said} {caught.value}"
