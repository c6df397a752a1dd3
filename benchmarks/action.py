"""What the GitHub Action costs: seconds from its first step to the comment on a pull request."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.grading import tests_of
from benchmarks.place import Place
from refcompare.execution.model import ExecutionTest
from refcompare.paths import cache_directory
from refcompare.wordpress.engine import docker_available
from tests.action_runner import ActionRunner, Result
from tests.github_server import GitHubServer

EDITED = 5
RUNS = 3
PULL = "refs/pull/1/merge"
OWN_STEPS = ("Find the two refs", "Set up what grades", "Compare", "Comment on the pull request")
"""Refcompare's own: what downloads Python and installs packages is the runner's and pip's."""


def five_edits(place: Place) -> Iterator[str]:
    """Seconds of the action for a pull request that edits five tests, caches warm and the image present."""
    tests = tests_of(place.repository, place.head)
    runtime = "docker" if docker_available().works else "native"
    with (
        tempfile.TemporaryDirectory(prefix="refcompare-bench-action-") as scratch,
        GitHubServer().running() as github,
    ):
        Path(scratch).chmod(0o755)  # graders run as another user where this runs as root
        job = _Job(Path(scratch), place, github, runtime)
        chosen = _spread(tests)
        cold = _own(job.run({"README-of-the-benchmark.md": b"touched"}))
        # Other edits each time, so that none is known from the time before.
        runs = [_own(job.run(_edits(job.remote, chosen, number))) for number in range(RUNS)]
    runs.sort(key=lambda seconds: sum(seconds.values()))
    totals, middle = [sum(seconds.values()) for seconds in runs], runs[RUNS // 2]
    parts = ", ".join(f"{name.partition(' ')[0].lower()} {seconds:.1f}" for name, seconds in middle.items())
    compared = f"{len(chosen)} of {len(tests)} tests edited, {runtime}"
    spread = f"median of {RUNS}, {totals[0]:.1f} to {totals[-1]:.1f}"
    yield f"action to comment   {sum(middle.values()):8.1f} s      {compared} (at most 30); {spread}"
    yield f"its steps           {parts}"
    yield f"no verdict known    {sum(cold.values()):8.1f} s      all {len(tests)} tests on both refs"


def _own(result: Result) -> dict[str, float]:
    return {name: result.seconds[name] for name in OWN_STEPS}


class _Job:
    """A benchmark with one pull request, which is given other commits for each run of the action."""

    def __init__(self, directory: Path, place: Place, github: GitHubServer, runtime: str) -> None:
        self.remote = directory / "remote"
        _git(directory, "clone", "-q", "--no-tags", str(place.repository), str(self.remote))
        _git(self.remote, "fetch", "-q", str(place.repository), place.head)
        _git(self.remote, "checkout", "-q", "--detach", "FETCH_HEAD")
        self.base = _git(self.remote, "rev-parse", "HEAD")
        self._github = github
        self._runtime = runtime
        self._runner = ActionRunner(github, directory / "runner", cache=cache_directory())
        self._runner.step_seconds = 3600

    def run(self, files: Mapping[str, bytes]) -> Result:
        """Push these files to the pull request and run the action on it."""
        for path, data in files.items():
            (self.remote / path).write_bytes(data)
        _git(self.remote, "add", "--", *files)
        _git(self.remote, "commit", "-q", "-m", "the pull request")
        head = _git(self.remote, "rev-parse", "HEAD")
        _git(self.remote, "checkout", "-q", "--detach", self.base)
        _git(self.remote, "merge", "-q", "--no-ff", "-m", "the merge", head)
        merge = _git(self.remote, "rev-parse", "HEAD")
        _git(self.remote, "update-ref", PULL, merge)
        _git(self.remote, "checkout", "-q", "--detach", self.base)
        self._github.add_pull(1, head=head, base=self.base)
        self._checkout()
        event: dict[str, Any] = {"action": "synchronize", "pull_request": self._github.pulls[1]}
        result = self._runner.run("pull_request", event, sha=merge, ref=PULL, runtime=self._runtime)
        if result.outputs["conclusion"] != "success" or not self._github.comments:
            raise SystemExit(f"the action did not do what was measured:\n{result.log}")
        return result

    def _checkout(self) -> None:
        """Leave what actions/checkout leaves: one commit, detached."""
        workspace = self._runner.workspace
        shutil.rmtree(workspace, ignore_errors=True)
        workspace.mkdir(parents=True)
        _git(workspace, "init", "-q")
        _git(workspace, "remote", "add", "origin", f"file://{self.remote}")
        _git(workspace, "fetch", "-q", "--no-tags", "--depth=1", "origin", PULL)
        _git(workspace, "checkout", "-q", "--detach", "FETCH_HEAD")


def _spread(tests: tuple[ExecutionTest, ...]) -> tuple[ExecutionTest, ...]:
    """Choose tests that a person might edit, from all over the suites."""
    snippets = [test for test in tests if test.reference_solution]
    step = max(1, len(snippets) // EDITED)
    return tuple(snippets[::step][:EDITED])


def _edits(repository: Path, tests: tuple[ExecutionTest, ...], number: int) -> dict[str, bytes]:
    """Give the files of these tests with a line more in each reference, as a person would have it."""
    found: dict[str, Any] = {}
    for test in tests:
        document = found.setdefault(test.path, json.loads((repository / test.path).read_bytes()))
        for item in document["tests"] if isinstance(document, dict) else document:
            if item["id"] == test.id:
                item["reference_solution"] += f"\n// Edited {number}."
    return {path: json.dumps(document, indent=2).encode() for path, document in found.items()}


def _git(directory: Path, *words: str) -> str:
    who = ("-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "commit.gpgsign=false")
    allowed = ("-c", "uploadpack.allowAnySHA1InWant=true")
    command = ["git", *who, *allowed, *words]
    return subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout.strip()
