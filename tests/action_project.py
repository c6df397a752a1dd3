"""A benchmark on a stand-in for GitHub, with pull requests, and a runner with the usual shallow checkout."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from refcompare.demo import state_files
from refcompare.paths import cache_directory
from tests.action_runner import ActionRunner, Result
from tests.github_server import GitHubServer
from tests.support_git import Scratch, isolate

SUITE = "datasets/suites/demo/execution"
ONE: dict[str, Any] = {"runtime": "auto", "audit": "false", "options": "--confirm=1\n--changed"}
"""Inputs for tests in which the grading itself is not the point."""
DAY = 24 * 60 * 60


class Project:
    """A benchmark with a pull request on GitHub, and a runner with the usual shallow checkout."""

    def __init__(
        self, directory: Path, github: GitHubServer, files: Mapping[str, bytes] | None = None
    ) -> None:
        self.github = github
        self.files = state_files("base") if files is None else files
        self.remote = Scratch.create(directory / "remote")
        self.remote.git("config", "uploadpack.allowAnySHA1InWant", "true")
        self.base = self.remote.commit({**self.files, "README.md": "a bench"})
        self.runner = ActionRunner(github, directory / "runner", cache=cache_directory())

    def open_pull(self, files: dict[str, bytes], number: int = 1, *, fork: str = "octo/bench") -> None:
        """Push a branch with these files, and let GitHub merge it for the pull request's checks."""
        self.remote.git("checkout", "-q", "-B", f"topic-{number}", self.base)
        for path in self.files:
            if path not in files and files:
                self.remote.git("rm", "-q", "--cached", path)
                (self.remote.path / path).unlink()
        self.head = self.remote.commit(dict(files), "the pull request")
        self.remote.git("checkout", "-q", "--detach", self.base)
        self.remote.git("merge", "-q", "--no-ff", "-m", "Merge", self.head)
        self.merge = self.remote.git("rev-parse", "HEAD")
        self.remote.git("update-ref", f"refs/pull/{number}/merge", self.merge)
        self.remote.git("checkout", "-q", "main")
        self.github.add_pull(number, head=self.head, base=self.base, fork=fork, branch=f"topic-{number}")

    def checkout(self, ref: str) -> None:
        """What actions/checkout leaves: one commit, detached."""
        if self.runner.workspace.exists():
            shutil.rmtree(self.runner.workspace)
        scratch = Scratch.create(self.runner.workspace)
        scratch.git("remote", "add", "origin", f"file://{self.remote.path}")
        scratch.git("fetch", "-q", "--no-tags", "--depth=1", "origin", ref)
        scratch.git("checkout", "-q", "--detach", "FETCH_HEAD")

    def pull_event(self, number: int = 1, action: str = "synchronize") -> dict[str, Any]:
        pull = self.github.pulls[number]
        return {"action": action, "repository": {"default_branch": "main"}, "pull_request": pull}

    def run_pull(self, number: int = 1, **inputs: Any) -> Result:
        self.checkout(f"refs/pull/{number}/merge")
        event = self.pull_event(number)
        return self.runner.run(
            "pull_request", event, sha=self.merge, ref=f"refs/pull/{number}/merge", **inputs
        )

    def push(self, files: dict[str, bytes], *, days_ago: float = 0) -> str:
        """Commit to the branch that is checked out at the remote, at a time of one's own."""
        self.remote.commit(dict(files))
        date = f"{int(time.time() - days_ago * DAY)} +0000"
        self.remote.git("commit", "-q", "--amend", "--no-edit", GIT_COMMITTER_DATE=date)
        return self.remote.git("rev-parse", "HEAD")

    def run_event(self, name: str, sha: str, ref: str, event: dict[str, Any], **inputs: Any) -> Result:
        """Run on an event that is about no pull request."""
        payload = {"repository": {"default_branch": "main"}, **event}
        return self.runner.run(name, payload, sha=sha, ref=ref, **inputs)


@contextmanager
def open_project(
    github: GitHubServer, monkeypatch: pytest.MonkeyPatch, files: Mapping[str, bytes] | None = None
) -> Iterator[Project]:
    """Make a project in a directory that graders may enter, which may run as another user."""
    with tempfile.TemporaryDirectory(prefix="refcompare-action-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        isolate(monkeypatch, directory / "home")
        yield Project(directory, github, files)


def head_files() -> dict[str, bytes]:
    return state_files("head")


def edited(category: str, change: dict[str, Any]) -> dict[str, bytes]:
    """The base suite with the first test of a category changed."""
    files = state_files("base")
    path = f"{SUITE}/{category}.json"
    suite = json.loads(files[path])
    tests = suite["tests"] if isinstance(suite, dict) else suite
    tests[0].update(change)
    return {**files, path: json.dumps(suite, indent=2).encode()}
