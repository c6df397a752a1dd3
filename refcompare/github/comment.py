"""The sticky comment: found again by its hidden marker, updated in place or posted anew.

A marker can be typed by anyone, so only a comment that this token's own account wrote is ever edited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

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

    def post(self, body: str, mode: CommentMode = "update", *, needed: bool = True) -> Posted:
        """Make ``body``, which begins with the marker, the newest comment with it.

        With ``recreate`` a new comment is posted and older ones are folded as outdated. Where a new
        comment is not ``needed``, an old one is still brought up to date. Raises Denied or
        GitHubFailure; a comment that could not be folded is only a ``problem``.
        """
        assert body.startswith(self._marker)
        self._client.identity()  # asked for first, so that its retries are not part of another's
        posted, old = self._client.call(
            "comment on the pull request", lambda: self._attempt(body, mode, needed), PERMISSION
        )
        try:
            self._client.call("fold outdated comments", lambda: self._fold(old), PERMISSION)
        except GitHubFailure as failure:
            return Posted(posted.how, posted.url, str(failure))
        return posted

    def _attempt(self, body: str, mode: CommentMode, needed: bool) -> tuple[Posted, Sequence[IssueComment]]:
        """Post once, from what the thread is now: an earlier attempt may have come through unheard."""
        issue = self._repository.get_issue(self._number)
        own = self._own(issue)
        if self._before is None:
            self._before = frozenset(comment.id for comment in own)
        latest = own[-1] if own else None
        if latest is None:
            return (_created(issue, body, "created") if needed else Posted("not needed")), ()
        if latest.id not in self._before and _same(latest.body, body):
            how: How = "recreated" if self._before else "created"
            return Posted(how, latest.html_url), own[:-1]
        if mode == "recreate" and needed:
            return _created(issue, body, "recreated"), own
        if _same(latest.body, body):
            return Posted("unchanged", latest.html_url), own[:-1]
        latest.edit(body)
        return Posted("updated", latest.html_url), own[:-1]

    def _own(self, issue: Issue) -> list[IssueComment]:
        """Give the comments with the marker that this token's account wrote, the oldest first."""
        identity = self._client.identity()
        if identity is None:
            return []
        return [
            comment
            for comment in issue.get_comments()
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


def _created(issue: Issue, body: str, how: How) -> Posted:
    return Posted(how, issue.create_comment(body).html_url)


def _same(one: str | None, other: str) -> bool:
    """Compare bodies as GitHub keeps them: with its own line ends, without blanks at the end."""
    return (one or "").replace("\r\n", "\n").rstrip() == other.replace("\r\n", "\n").rstrip()
