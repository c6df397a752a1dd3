"""Comments on a pull request with what its own, unprivileged run found.

Runs on ``workflow_run``, with a token that may comment. The event is GitHub's and is believed; the
artifact was made by a run in which a stranger's code had a part, so it is data of which the shape is
checked. It names neither the pull request nor the words of the comment: both are found here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from github import GithubException
from github.PullRequest import PullRequest
from github.Repository import Repository

from refcompare.changes import ChangeKind
from refcompare.config import CONFIG_NAME, load_config
from refcompare.errors import UsageError
from refcompare.gate import DEFAULT_FAIL_ON, parse_fail_on
from refcompare.github import artifact, page
from refcompare.github.api import Client
from refcompare.github.comment import Posted, Thread, is_wanted
from refcompare.github.inputs import Inputs
from refcompare.github.job import read_outcome
from refcompare.github.page import Names
from refcompare.github.runner import Event, Runner
from refcompare.report.escape import marker
from refcompare.store import Caps, ResultsError, read_run

CAPS = Caps(records=artifact.LIMITS.file)

UNREADABLE = "The results of the run can't be read, so nothing of them is shown."

_FOOTER = (
    "<sub>Graded by [the pull request's own run]({url}), without secrets; "
    "what it reports is shown as it came.</sub>"
)


@dataclass(frozen=True, slots=True)
class Source:
    """The run whose results are published, as GitHub's event has it."""

    run: int
    head_sha: str
    head_repository: str
    head_branch: str
    url: str
    pulls: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """What came of it: the comment, or in ``reason`` why there is none.

    ``problem`` says what was wrong with the results; the comment then says only that there is no verdict.
    """

    reason: str = ""
    posted: Posted | None = None
    problem: str = ""


def source(event: Event) -> Source | str:
    """Read the event; gives a sentence where there is nothing to publish."""
    if event.name != "workflow_run":
        return (
            f"Publishing runs on workflow_run, and this is {event.name or 'no event'}: nothing is published."
        )
    if event.text("workflow_run", "event") != "pull_request":
        return "The run was not for a pull request, so there is nothing to comment on."
    if event.text("workflow_run", "conclusion") in ("cancelled", "skipped"):
        return "The run was cancelled or skipped, so it has no results."
    run, sha = event.number("workflow_run", "id"), event.commit("workflow_run", "head_sha")
    if run is None or sha is None:
        return "The event tells no run and commit, so nothing is published."
    listed = event.payload["workflow_run"].get("pull_requests")
    numbers = (
        [item.get("number") for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    )
    return Source(
        run=run,
        head_sha=sha,
        head_repository=event.text("workflow_run", "head_repository", "full_name"),
        head_branch=event.text("workflow_run", "head_branch"),
        url=event.text("workflow_run", "html_url"),
        pulls=tuple(number for number in numbers if isinstance(number, int)),
    )


def publish(runner: Runner, inputs: Inputs, client: Client, directory: Path) -> Published:
    """Find the pull request and the results, and comment.

    Raises Denied or GitHubFailure where GitHub can't be asked.
    """
    if inputs.comment == "never":
        return Published("The input comment is never, so nothing is published.")
    found = source(runner.event)
    if isinstance(found, str):
        return Published(found)
    pulls = client.call(
        "look for the pull request of a commit",
        lambda: find_pulls(client.repository(runner.repository), runner.repository, found),
        "pull-requests: read",
    )
    if not pulls:
        return Published(
            f"No open pull request ends in {found.head_sha[:12]}: closed, or it has newer commits."
        )
    problem = ""
    try:
        if not artifact.fetch_results(client, runner.repository, found.run, inputs.artifact_name, directory):
            return Published(f"Run {found.run} left no artifact {inputs.artifact_name}.")
    except ResultsError as error:
        problem = str(error)
    pull = _one(pulls, found, directory)
    if pull is None:
        numbers = ", ".join(f"#{item.number}" for item in pulls)
        return Published(f"{numbers} all end in {found.head_sha[:12]}, and nothing tells which was compared.")
    body, needed = "", True
    names, footer = Names(pull.base.ref, f"#{pull.number} merged"), _FOOTER.format(url=found.url)
    fail_on = client.call(
        "read the configuration of the base",
        lambda: _fail_on(client.repository(runner.repository), pull.base.sha, inputs),
        "contents: read",
    )
    try:
        if not problem:
            body, needed = _body(inputs, directory, names, fail_on, found.url, footer)
    except ResultsError as error:
        problem = str(error)
    if problem:
        body = page.without_verdict(UNREADABLE, inputs.key, names, found.url, footer)
    thread = Thread(client, runner.repository, pull.number, marker(inputs.key))
    posted = thread.post(body, inputs.comment_mode, needed=needed)
    return Published(posted=posted, problem=problem)


def find_pulls(repository: Repository, name: str, found: Source) -> list[PullRequest]:
    """Give the open pull requests of this repository whose last commit is the run's.

    GitHub lists a fork's commit under no pull request, so those are looked for by their branch.
    """
    candidates = {pull.number: pull for pull in _pulls_of_commit(repository, found.head_sha)}
    owner = found.head_repository.partition("/")[0]
    if owner and found.head_branch:
        listed = repository.get_pulls(state="open", head=f"{owner}:{found.head_branch}")
        candidates |= {pull.number: pull for pull in listed}
    return [
        pull
        for _, pull in sorted(candidates.items())
        if pull.state == "open"
        and pull.head.sha == found.head_sha
        and pull.base.repo.full_name.casefold() == name.casefold()
        and (pull.head.repo is None or pull.head.repo.full_name == found.head_repository)
    ]


def _pulls_of_commit(repository: Repository, sha: str) -> list[PullRequest]:
    try:
        return list(repository.get_commit(sha).get_pulls())
    except GithubException as error:
        if error.status in (404, 422):  # a commit that only the fork has
            return []
        raise


def _one(pulls: list[PullRequest], found: Source, directory: Path) -> PullRequest | None:
    """Choose among several: by what the event names, then by which base was graded."""
    if len(pulls) > 1:
        pulls = [pull for pull in pulls if pull.number in found.pulls] or pulls
    if len(pulls) > 1:
        graded = _base_commit(directory)
        pulls = [pull for pull in pulls if pull.base.sha == graded]
    return pulls[0] if len(pulls) == 1 else None


def _base_commit(directory: Path) -> str | None:
    try:
        return read_run(directory, "base", CAPS).arm.commit
    except ResultsError:
        return None


def _fail_on(repository: Repository, base: str, inputs: Inputs) -> frozenset[ChangeKind]:
    """Give the kinds that fail the build: the input's, else those that the base's configuration names."""
    if inputs.fail_on:
        return parse_fail_on(inputs.fail_on)
    name = inputs.config or CONFIG_NAME
    try:
        found = repository.get_contents(name, ref=base)
        text = None if isinstance(found, list) or found.encoding != "base64" else found.decoded_content
        return DEFAULT_FAIL_ON if text is None else load_config(text, name).fail_on
    except GithubException as error:
        if error.status == 404:  # it has none
            return DEFAULT_FAIL_ON
        raise
    except UsageError:  # which the comparison itself has told
        return DEFAULT_FAIL_ON


def _body(
    inputs: Inputs, directory: Path, names: Names, fail_on: frozenset[ChangeKind], url: str, footer: str
) -> tuple[str, bool]:
    """Render the comment here, from results that were read by their schema; say whether a new one is due."""
    if not (directory / "base").is_dir() and not (directory / "head").is_dir():
        outcome = read_outcome(directory)
        sentence = outcome.sentence if outcome else "The run left no results, and no word on why."
        return page.without_verdict(sentence, inputs.key, names, url, footer), True
    answer = page.read_answer(directory, fail_on, names, CAPS)
    body = page.comment(answer, inputs.key, url, footer)
    return body, is_wanted(inputs.comment, answer.comparison, answer.gate)
