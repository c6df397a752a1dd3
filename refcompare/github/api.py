"""The GitHub API through PyGithub: patient with limits and outages, within a bounded time.

Nothing here prints a token, and what GitHub answers is only ever shown as one printable line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from github import Auth, Github, GithubException
from github.Issue import Issue
from github.PaginatedList import PaginatedList
from github.Repository import Repository
from tenacity import RetryCallState, Retrying, retry_if_exception

from refcompare import __version__
from refcompare.errors import EnvironmentFailure
from refcompare.report.escape import one_line

T = TypeVar("T")

_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 30.0
_SECONDARY_WAIT_SECONDS = 60.0
"""What GitHub asks for after a secondary rate limit that names no time of its own."""


class GitHubFailure(EnvironmentFailure):
    """GitHub could not be reached, kept failing, or refused; says what was wanted and why it was not had."""


class Denied(GitHubFailure):
    """The token may not do what was wanted, so trying again is of no use."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one call may take, in seconds: one request of it, and all tries and waits together."""

    request: int = 20
    total: float = 180.0


class Client:
    """A token's view of one GitHub server. Use it in one thread."""

    def __init__(
        self,
        token: str,
        api_url: str,
        *,
        patience: Patience = Patience(),
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Make a client; nothing is sent yet. ``now`` gives seconds since the epoch."""
        self._patience = patience
        self._sleep = sleep
        self._now = now
        self._say = say
        self._github = Github(
            base_url=api_url,
            auth=Auth.Token(token) if token else None,
            user_agent=f"refcompare/{__version__}",
            timeout=patience.request,
            per_page=100,
            # PyGithub's own retries know no bound that a job could live with.
            retry=None,
            seconds_between_requests=None,
            seconds_between_writes=None,
            # A repository or an issue whose name is known need not be asked for first.
            lazy=True,
        )
        self._identity: str | None = None
        self._asked = False

    def repository(self, name: str) -> Repository:
        """Give a repository by ``owner/name`` without asking GitHub for it."""
        return self._github.get_repo(name)

    def issues_by(self, repository: str, login: str) -> PaginatedList[Issue]:
        """Give the open issues of a repository that an account opened, pull requests among them."""
        parameters = {"state": "open", "creator": login}
        return PaginatedList(Issue, self._github.requester, f"/repos/{repository}/issues", parameters)

    def call(self, what: str, action: Callable[[], T], permission: str = "") -> T:
        """Do something that asks GitHub, again where waiting can help.

        ``what`` completes the sentence "GitHub did not let this token …"; ``permission`` is what the
        job would need for it, ``pull-requests: write``. ``action`` must be fit to be repeated, also
        after a try of which nobody knows whether it came through. Raises Denied or GitHubFailure.
        """
        retrying = Retrying(
            retry=retry_if_exception(lambda error: self._wait(error, 1) is not None),
            wait=self._next_wait,
            stop=self._out_of_patience,
            sleep=self._sleep,
            before_sleep=self._tell,
            reraise=True,
        )
        try:
            return retrying(action)
        except GithubException as error:
            raise _failure(what, error, permission) from error
        except OSError as error:
            reason = one_line(str(error), 200)
            raise GitHubFailure(f"GitHub could not be reached to {what}: {reason}.") from error

    def graphql(self, query: str, variables: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask the GraphQL API once; give its ``data``. Raises GithubException or OSError."""
        _, answer = self._github.requester.graphql_query(query, dict(variables))
        data = answer.get("data")
        return data if isinstance(data, dict) else {}

    def location(self, path: str) -> str:
        """Give the address that a GET of an API path redirects to, without going there."""
        status, headers, _ = self._github.requester.requestJson("GET", path)
        if status >= 400:
            raise GithubException(status, None, headers)
        address = headers.get("location", "")
        return address if status in (302, 303, 307) and isinstance(address, str) else ""

    def identity(self) -> str | None:
        """Give the login that this token acts as, ``github-actions[bot]``; None where nobody tells."""
        if not self._asked:
            self._identity = self._viewer() or self._user()
            self._asked = True
        return self._identity

    def _viewer(self) -> str | None:
        """Ask the one endpoint that also answers to a workflow's own token."""
        try:
            data = self.call("say who it is", lambda: self.graphql("query { viewer { login } }", {}))
        except GitHubFailure:
            return None
        viewer = data.get("viewer")
        login = viewer.get("login") if isinstance(viewer, dict) else None
        return login if isinstance(login, str) and login else None

    def _user(self) -> str | None:
        try:
            return self.call("say who it is", lambda: self._github.get_user().login)
        except GitHubFailure:
            return None

    # ------------------------------------------------------------------------------ waiting

    def _wait(self, error: BaseException, attempt: int) -> float | None:
        """Give the seconds to wait before trying again; None where that can't help."""
        backoff = min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2.0 ** (attempt - 1))
        if not isinstance(error, GithubException):
            return backoff if isinstance(error, OSError) else None
        if error.status >= 500:
            return _seconds(error, "retry-after") or backoff
        asked = _seconds(error, "retry-after") if error.status in (403, 429) else None
        if asked is not None:
            return asked
        if not _is_limit(error):
            return None
        reset = _seconds(error, "x-ratelimit-reset")
        if reset is not None and (error.headers or {}).get("x-ratelimit-remaining") == "0":
            return max(1.0, reset - self._now())
        return _SECONDARY_WAIT_SECONDS * 2.0 ** (attempt - 1)

    def _next_wait(self, state: RetryCallState) -> float:
        assert state.outcome is not None
        error = state.outcome.exception()
        return (self._wait(error, state.attempt_number) if error else None) or 0.0

    def _out_of_patience(self, state: RetryCallState) -> bool:
        spent = max(state.seconds_since_start or 0.0, state.idle_for)
        return spent + self._next_wait(state) > self._patience.total

    def _tell(self, state: RetryCallState) -> None:
        assert state.outcome is not None
        error = state.outcome.exception()
        reason = f"answered {error.status}" if isinstance(error, GithubException) else "did not answer"
        self._say(f"GitHub {reason}; trying again in {state.upcoming_sleep:.0f} s")


def _failure(what: str, error: GithubException, permission: str) -> GitHubFailure:
    message = one_line(_message(error), 200)
    said = f"{error.status}: {message}" if message else f"{error.status}"
    if _is_limit(error) or error.status >= 500:
        return GitHubFailure(f"GitHub did not {what}, also after trying again ({said}).")
    if error.status in (401, 403, 404) or _graphql_error(error).get("type") == "FORBIDDEN":
        advice = f"; give the job `permissions: {permission}`" if permission else ""
        return Denied(f"GitHub did not let this token {what} ({said}){advice}.")
    return GitHubFailure(f"GitHub refused to {what} ({said}).")


def _is_limit(error: GithubException) -> bool:
    return error.status == 429 or "rate limit" in _message(error).lower()


def _message(error: GithubException) -> str:
    data: object = error.data
    message = data.get("message") if isinstance(data, dict) else None
    if message is None:
        message = _graphql_error(error).get("message")
    return message if isinstance(message, str) else ""


def _graphql_error(error: GithubException) -> Mapping[str, Any]:
    """Give the first error that GraphQL put into an answer which is a good one by its status."""
    data: object = error.data
    errors = data.get("errors") if isinstance(data, dict) else None
    first = errors[0] if isinstance(errors, list) and errors else None
    return first if isinstance(first, dict) else {}


def _seconds(error: GithubException, header: str) -> float | None:
    value = (error.headers or {}).get(header, "")
    try:
        return max(0.0, float(value))
    except ValueError:
        return None
