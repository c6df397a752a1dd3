"""The sticky comment: found again by its hidden marker, updated in place or posted anew.

A marker can be typed by anyone, so only a comment that this token's own account wrote is ever edited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from github import GithubException
from github.Issue import Issue
from github.IssueComment import IssueComment

from refcompare.changes import Comparison
from refcompare.gate import GateResult
from refcompare.github.api import Client, GitHubFailure
from refcompare.github.inputs import CommentMode, CommentPolicy
from refcompare.report.words import changed_rows

PERMISSION = "pull-requests: write"

_MINIMIZED = "query($ids: [ID!]!) { nodes(ids: $ids) { ... on IssueComment { id isMinimized } } }"
_MINIMIZE = """mutation($id: ID!) {
  minimizeComment(input: {subjectId: $id, classifier: OUTDATED}) { minimizedComment { isMinimized } }
}"""
_MOST_NODES = 100

How = Literal["created", "updated", "unchanged", "recreated", "not needed"]


@dataclass(frozen=True, slots=True)
class Posted:
    """What became of a comment. ``url`` is empty where there is none; ``problem`` is a sentence."""

    how: How
    url: str = ""
    problem: str = ""


def is_wanted(policy: CommentPolicy, comparison: Comparison, gate: GateResult) -> bool:
    """Say whether a comparison deserves a new comment. One that is there already is kept true anyway."""
    match policy:
        case "always":
            return True
        case "changes":
            return bool(changed_rows(comparison)) or gate.conclusion != "success"
        case "failures":
            return gate.conclusion != "success"
        case "never":
            return False


class Thread:
    """The conversation of one pull request, as far as the comments with one marker are concerned."""

    def __init__(self, client: Client, repository: str, number: int, marker: str) -> None:
        self._client = client
        self._repository = client.repository(repository)
        self._number = number
        self._marker = marker
        self._before: frozenset[int] | None = None
        """The ids of the comments that were there before this object posted any."""

    def head(self) -> str:
        """Give the pull request's last commit as it is now. Raises Denied or GitHubFailure."""
        return self._client.call(
            "read the pull request", lambda: self._repository.get_pull(self._number).head.sha, PERMISSION
        )

    def post(self, body: str, mode: CommentMode = "update", *, needed: bool = True) -> Posted:
        """Make ``body``, which begins with the marker, the newest comment with it.

        With ``recreate`` a new comment is posted and older ones are folded as outdated. Where a new
        comment is not ``needed``, an old one is still brought up to date. Raises Denied or
        GitHubFailure; what could not be tidied up afterwards is only a ``problem``.
        """
        assert body.startswith(self._marker)
        self._client.identity()  # asked for first, so that its retries are not part of another's
        posted, created, old = self._client.call(
            "comment on the pull request", lambda: self._attempt(body, mode, needed), PERMISSION
        )
        try:
            if created is not None:
                posted, old = self._settle(posted, created, body, mode)
            self._client.call("fold outdated comments", lambda: self._fold(old), PERMISSION)
        except GitHubFailure as failure:
            return Posted(posted.how, posted.url, str(failure))
        return posted

    def _attempt(
        self, body: str, mode: CommentMode, needed: bool
    ) -> tuple[Posted, IssueComment | None, Sequence[IssueComment]]:
        """Post once, from what the thread is now: an earlier attempt may have come through unheard.

        Gives the comment that was created, if one was, and those that are outdated by it.
        """
        own = self._own(self._client.identity())
        if self._before is None:
            self._before = frozenset(comment.id for comment in own)
        latest = own[-1] if own else None
        if latest is None and not needed:
            return Posted("not needed"), None, ()
        if latest is not None and latest.id not in self._before and _same(latest.body, body):
            how: How = "recreated" if self._before else "created"
            return Posted(how, latest.html_url), latest, own[:-1]
        if latest is None or (mode == "recreate" and needed):
            created = self._issue().create_comment(body)
            return Posted("recreated" if own else "created", created.html_url), created, own
        if _same(latest.body, body):
            return Posted("unchanged", latest.html_url), None, own[:-1]
        latest.edit(body)
        return Posted("updated", latest.html_url), None, own[:-1]

    def _settle(
        self, posted: Posted, created: IssueComment, body: str, mode: CommentMode
    ) -> tuple[Posted, Sequence[IssueComment]]:
        """Look again after a comment was created: another run may have done so at the same moment.

        The oldest stays, whichever run looks, and the others are withdrawn or, with ``recreate``, folded.
        The new comment also tells who this token is, where nothing else did.
        """
        login = created.user.login if created.user is not None else None
        own = self._client.call("read the comments again", lambda: self._own(login), PERMISSION)
        older = [comment for comment in own if comment.id < created.id]
        if not older or mode == "recreate":
            return posted, older
        oldest, *others = older
        what = "merge two comments into one"
        self._client.call(what, lambda: None if _same(oldest.body, body) else oldest.edit(body), PERMISSION)
        self._client.call(what, lambda: _withdraw(created), PERMISSION)
        return Posted("updated", oldest.html_url), others

    def _issue(self) -> Issue:
        return self._repository.get_issue(self._number)

    def _own(self, identity: str | None) -> list[IssueComment]:
        """Give the comments with the marker that this token's account wrote, the oldest first."""
        if identity is None:
            return []
        return [
            comment
            for comment in self._issue().get_comments()
            if (comment.body or "").startswith(self._marker)
            and comment.user is not None
            and comment.user.login.casefold() == identity.casefold()
        ]

    def _fold(self, comments: Sequence[IssueComment]) -> None:
        """Minimise what is not minimised yet, the newest hundred of it."""
        ids = [comment.node_id for comment in comments[-_MOST_NODES:]]
        if not ids:
            return
        nodes = self._client.graphql(_MINIMIZED, {"ids": ids}).get("nodes") or []
        folded = {node.get("id") for node in nodes if isinstance(node, Mapping) and node.get("isMinimized")}
        for identifier in ids:
            if identifier not in folded:
                self._client.graphql(_MINIMIZE, {"id": identifier})


def _withdraw(comment: IssueComment) -> None:
    try:
        comment.delete()
    except GithubException as error:
        if error.status != 404:  # gone: by a try that came through unheard
            raise


def _same(one: str | None, other: str) -> bool:
    """Compare bodies as GitHub keeps them: with its own line ends, without blanks at the end."""
    return (one or "").replace("\r\n", "\n").rstrip() == other.replace("\r\n", "\n").rstrip()
