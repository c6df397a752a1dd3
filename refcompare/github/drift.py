"""The weekly look: what changed while nobody looked, and what the next WordPress will change.

One GitHub issue says it: opened when something that fails the gate has changed, brought up to date
while that stays so, closed when all is well.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from github.Issue import Issue

from refcompare.arms import Choice, open_workbench
from refcompare.cache import VerdictCache
from refcompare.changes import ChangeKind
from refcompare.config import Config
from refcompare.errors import EnvironmentFailure
from refcompare.execution.bench import Memory
from refcompare.github import page
from refcompare.github.api import Client
from refcompare.github.page import Answer, Names
from refcompare.pipeline import Plan, run_arms
from refcompare.progress import Reporter
from refcompare.report.escape import marker
from refcompare.report.interface import Options
from refcompare.report.markdown import render
from refcompare.results import RunResult
from refcompare.wordpress.releases import DEFAULT_VERSION
from refcompare.wordpress.sources.download import download
from refcompare.wordpress.sources.interface import SourceFailure

PERMISSION = "issues: write"
TITLE = "refcompare: drift"
RELEASES_VARIABLE = "REFCOMPARE_WORDPRESS_RELEASES_URL"
RELEASES_URL = "https://api.wordpress.org/core/version-check/1.7/"

_ISSUE_CHARACTERS = 65_536
_VERSION = re.compile(r"\d{1,3}\.\d{1,3}(\.\d{1,3})?")
_MOST_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Part:
    """One of the comparisons of a drift report: what was compared, and the answer.

    ``answer`` is None where there was nothing to compare, and ``note`` then says why.
    """

    title: str
    answer: Answer | None = None
    note: str = ""

    @property
    def drifted(self) -> bool:
        """Whether something changed that fails the gate, or could not be graded at all."""
        return self.answer is not None and self.answer.gate.conclusion != "success"


def newest_release(url: str | None = None) -> str:
    """Give the version of the newest release of WordPress, as its project publishes it.

    Raises EnvironmentFailure where that can't be had.
    """
    address = url or os.environ.get(RELEASES_VARIABLE) or RELEASES_URL
    with tempfile.TemporaryDirectory() as scratch:
        answer = Path(scratch) / "releases.json"
        try:
            download(address, answer, maximum_bytes=_MOST_BYTES)
            version = json.loads(answer.read_bytes())["offers"][0]["version"]
        except SourceFailure as failure:
            raise EnvironmentFailure(f"The newest WordPress could not be asked for: {failure}") from failure
        except (ValueError, LookupError, TypeError) as error:
            raise EnvironmentFailure(f"{address} names no release of WordPress.") from error
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise EnvironmentFailure(f"{address} names no release of WordPress.")
    return version


def compare_releases(
    repository: Path, ref: str, choice: Choice, newest: str, *, fresh: bool = False
) -> tuple[RunResult, RunResult]:
    """Grade the same tree on the release that ``choice`` (or the configuration) pins, and on the newest.

    Raises EnvironmentFailure where one of the releases can't be had or graded on.
    """
    with (
        open_workbench(repository, choice) as one,
        open_workbench(repository, replace(choice, wordpress=newest)) as other,
        Reporter() as reporter,
        VerdictCache() as cache,
    ):
        arms = [
            *one.inputs((replace(one.single(ref), name="base"),), reporter.say),
            *other.inputs((other.single(ref),), reporter.say),
        ]
        runs = run_arms(arms, _plan(one.config, fresh), Memory(cache, fresh=fresh), reporter)
    return runs[0], runs[1]


def pinned_release(repository: Path, choice: Choice) -> str:
    """Give the release that comparisons are made on by default."""
    with open_workbench(repository, choice) as workbench:
        return choice.wordpress or workbench.config.wordpress or DEFAULT_VERSION


def release_answer(runs: tuple[RunResult, RunResult], fail_on: frozenset[ChangeKind], name: str) -> Answer:
    """Compare the two releases under names that tell them apart."""
    versions = [run.arm.environment.wordpress if run.arm.environment else "?" for run in runs]
    names = Names(f"{name} on WordPress {versions[0]}", f"{name} on WordPress {versions[1]}")
    return page.make_answer(runs[0], runs[1], fail_on, names)


def _plan(config: Config, fresh: bool) -> Plan:
    return Plan(
        limits=config.limits,
        jobs=config.jobs or os.cpu_count() or 1,
        confirm=config.confirm,
        audit=config.audit.enabled,
        exhaustive=config.audit.exhaustive,
        mutants=config.audit.mutants,
        seed=config.audit.seed,
        fresh=fresh,
    )


# ---------------------------------------------------------------------------------- issue


def issue_body(parts: Sequence[Part], key: str, run_url: str) -> str:
    """Give the issue's text: its hidden marker, then each comparison under its title."""
    lines = [_marker(key), ""]
    room = (_ISSUE_CHARACTERS - 2_000) // max(1, len(parts))
    for part in parts:
        lines += [f"## {part.title}", "", part.note or _rendered(part.answer, room - len(part.title)), ""]
    lines.append(f"[The run that found this]({run_url})")
    return "\n".join(lines) + "\n"


def _rendered(answer: Answer | None, room: int) -> str:
    if answer is None:
        return ""
    return page.without_marker(render(answer.comparison, answer.gate, Options(limit=room)))


def _marker(key: str) -> str:
    return marker(f"drift-{key}")


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of the issue. ``url`` is empty where there is none."""

    how: Literal["opened", "updated", "closed", "not needed"]
    url: str = ""


def settle_issue(client: Client, repository: str, key: str, body: str, *, drifted: bool) -> Settled:
    """Make the one issue say what is so now. Raises Denied or GitHubFailure."""
    identity = client.identity()
    return client.call(
        "keep the issue on drift",
        lambda: _settle(client, repository, key, body, drifted, identity),
        PERMISSION,
    )


def _settle(
    client: Client, repository: str, key: str, body: str, drifted: bool, identity: str | None
) -> Settled:
    own = _own(client, repository, key, identity)
    if not drifted:
        for issue in own:
            issue.edit(body=body, state="closed", state_reason="completed")
        return Settled("closed", own[0].html_url) if own else Settled("not needed")
    if not own:
        return Settled("opened", client.repository(repository).create_issue(TITLE, body=body).html_url)
    first, *others = own
    if first.body != body:
        first.edit(body=body)
    for issue in others:  # two runs at once may have opened one each
        issue.edit(state="closed", state_reason="not_planned")
    return Settled("updated", first.html_url)


def _own(client: Client, repository: str, key: str, identity: str | None) -> list[Issue]:
    """Give the open issues with the marker that this token's account wrote, the oldest first."""
    if identity is None:
        return []
    listed = client.issues_by(repository, identity)
    own = [
        issue
        for issue in listed
        if issue.user is not None
        and issue.user.login.casefold() == identity.casefold()
        and (issue.body or "").startswith(_marker(key))
        and issue.pull_request is None
    ]
    return sorted(own, key=lambda issue: issue.number)
