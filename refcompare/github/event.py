"""Which two refs an event is about. Pure: an event and what the workflow asked for in, a request out.

A request says what is wanted in terms of history (a parent, a merge base, a week ago), because the
checkout may not have that history yet: ``fetch.py`` gets it and turns the request into commits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from refcompare.errors import UsageError
from refcompare.github.runner import Event, Runner
from refcompare.wording import quoted

WEEK_DAYS = 7

_PULL_REF = re.compile(r"refs/pull/([1-9]\d{0,8})/(?:merge|head)")

GUIDE = "docs/github.md of refcompare"


@dataclass(frozen=True, slots=True)
class ByRef:
    """The base is a ref: a branch, a tag, a SHA, or ``A...B`` for a merge base."""

    ref: str


@dataclass(frozen=True, slots=True)
class MergeBase:
    """The base is the commit where the head left ``other``, a branch or a SHA."""

    other: str


@dataclass(frozen=True, slots=True)
class FirstParent:
    """The base is the head's first parent."""


@dataclass(frozen=True, slots=True)
class DaysBefore:
    """The base is where the head's own line stood ``days`` before now."""

    days: int = WEEK_DAYS


@dataclass(frozen=True, slots=True)
class PullRequestBase:
    """The base is what the pull request is merged into.

    The head is either the merge result, whose first parent that is, or the pull request's own last
    commit ``head``, which is then compared with where it left ``base``.
    """

    base: str
    head: str


BaseRule = ByRef | MergeBase | FirstParent | DaysBefore | PullRequestBase


@dataclass(frozen=True, slots=True)
class Request:
    """What to compare. ``head`` is a ref; ``bases`` are tried in turn until one can be had.

    ``base_name`` and ``head_name`` are for the reader. ``pull`` is the number of the pull request
    that the answer belongs to, ``reported`` the commit that a check run is for, None where only the
    pull request is known.
    """

    head: str
    bases: tuple[BaseRule, ...]
    head_name: str
    base_name: str
    pull: int | None = None
    reported: str | None = None


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing to compare, and ``reason`` says why in one sentence."""

    reason: str


def request(runner: Runner, base: str = "", head: str = "", *, weekly: bool = False) -> Request | Nothing:
    """Say what an event asks to be compared; ``base`` and ``head`` are the workflow's own wishes.

    With ``weekly`` the event's commit is compared with a week before, whatever the event.

    Raises UsageError for events in which a comparison would be unsafe or has no meaning.
    """
    event = runner.event
    if event.name == "pull_request_target":
        raise UsageError(
            "This workflow runs on pull_request_target, where a stranger's code would run beside this "
            f"repository's secrets: use pull_request, as {GUIDE} shows."
        )
    if base and head:
        return _belonging(Request(head, (ByRef(base),), head, base, _pull(event), _reported(event)))
    found = _week(event) if weekly else _by_event(runner)
    if not (base or head):
        return found
    wanted = _leaving_default(runner) if isinstance(found, Nothing) else found
    return _with_base(wanted, base) if base else _belonging(_with_head(wanted, head, runner))


def _by_event(runner: Runner) -> Request | Nothing:
    event = runner.event
    match event.name:
        case "pull_request":
            return _pull_request(event)
        case "merge_group":
            return _merge_group(event)
        case "push":
            return _push(runner)
        case "schedule":
            return _week(event)
        case "workflow_run":
            raise UsageError(
                "A workflow_run is about another workflow's commit: set `mode: publish` to comment on what "
                "that one found, or give base and head."
            )
        case _:  # workflow_dispatch first of all: it runs on a branch, a tag or a commit
            return _leaving_default(runner)


def _with_base(found: Request, base: str) -> Request:
    """Replace the base of what an event means by the ref that was asked for."""
    return replace(found, bases=(ByRef(base),), base_name=base)


def _with_head(found: Request, head: str, runner: Runner) -> Request:
    """Replace the head; its base is where it left the branch that the event would have it compared with."""
    default = runner.default_branch
    bases: list[BaseRule] = []
    for rule in found.bases:
        if isinstance(rule, PullRequestBase):
            bases.append(MergeBase(rule.base))
        elif isinstance(rule, FirstParent) and default and MergeBase(default) not in bases:
            bases += [MergeBase(default), rule]
        else:
            bases.append(rule)
    name = default if bases[0] == MergeBase(default) else found.base_name
    return replace(found, head=head, bases=tuple(bases), head_name=head, base_name=name)


def _belonging(found: Request) -> Request:
    """Let the answer belong to the pull request that the head names, as when one is started by hand."""
    match = _PULL_REF.fullmatch(found.head)
    if match is None or found.pull is not None:
        return found
    return replace(found, pull=int(match[1]), reported=None, head_name=f"#{match[1]}")


def _pull_request(event: Event) -> Request | Nothing:
    number = event.number("pull_request", "number")
    base, head = event.commit("pull_request", "base", "sha"), event.commit("pull_request", "head", "sha")
    if number is None or base is None or head is None:
        raise UsageError("The event says pull_request, but tells no number, base and head of one.")
    if event.text("action") == "closed":
        return Nothing(f"Pull request #{number} is closed, so nothing is compared.")
    return Request(
        event.sha or head,
        (PullRequestBase(base, head),),
        f"#{number} merged",
        event.text("pull_request", "base", "ref") or "base",
        number,
        head,
    )


def _merge_group(event: Event) -> Request:
    base, head = event.commit("merge_group", "base_sha"), event.commit("merge_group", "head_sha")
    if base is None or head is None:
        raise UsageError("The event says merge_group, but tells no base_sha and head_sha of one.")
    name = _short(event.text("merge_group", "base_ref")) or "base"
    return Request(head, (ByRef(base),), "merge queue", name, reported=head)


def _push(runner: Runner) -> Request | Nothing:
    event = runner.event
    name = _short(event.ref) or "HEAD"
    if event.flag("deleted"):
        return Nothing(f"{quoted(name)} was deleted, so nothing is compared.")
    found = _leaving_default(runner)
    before = event.commit("before")
    if before is None:
        return found
    # What a forced push replaced may be gone.
    return Request(
        found.head,
        (ByRef(before), *found.bases),
        name,
        f"{name} before the push",
        reported=found.reported,
    )


def _week(event: Event) -> Request:
    name = _short(event.ref) or "HEAD"
    head, reported = event.sha or "HEAD", event.sha or None
    return Request(head, (DaysBefore(),), name, f"{name} a week ago", reported=reported)


def _leaving_default(runner: Runner) -> Request:
    """Compare the event's commit with where it left the default branch; on that branch with its parent."""
    event, default = runner.event, runner.default_branch
    name, head, reported = _short(event.ref) or "HEAD", event.sha or "HEAD", event.sha or None
    if not default or event.ref == f"refs/heads/{default}":
        return Request(head, (FirstParent(),), name, f"{name} before", reported=reported)
    # A tag or a new branch may stand on the default branch itself.
    return Request(head, (MergeBase(default), FirstParent()), name, default, reported=reported)


def _short(ref: str) -> str:
    return ref.removeprefix("refs/heads/").removeprefix("refs/tags/")


def _pull(event: Event) -> int | None:
    return event.number("pull_request", "number") if event.name == "pull_request" else None


def _reported(event: Event) -> str | None:
    if event.name == "pull_request":
        return event.commit("pull_request", "head", "sha")
    return event.sha or None
