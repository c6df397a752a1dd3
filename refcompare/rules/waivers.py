"""Waivers: the rules that one test leaves aside, each with the reason why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from refcompare.agents.evals import Eval
from refcompare.rules.catalogue import BY_NAME, UNUSED_WAIVER, WAIVER
from refcompare.rules.edits import Remove
from refcompare.rules.model import Finding, Subject
from refcompare.wording import did_you_mean, kind, quoted

FIELD = "check_ignore"
"""The field of a test's metadata: an object of rule names to reasons."""

MOST_WAIVERS = 100
"""Waivers of one test or eval that are read: there are fewer rules."""


@dataclass(frozen=True, slots=True)
class Waiver:
    """One rule that one test or eval leaves aside, and the line that says so.

    ``start`` is where the test starts in its file's text, None for an eval, which ``--fix`` does not edit.
    """

    owner: str
    path: str
    line: int
    rule: str
    start: int | None


def waivers(subject: Subject) -> Iterator[Waiver | Finding]:
    """Give the waivers of a test, and a finding for each that cannot be one."""
    given = subject.metadata.get(FIELD)
    where: tuple[str, ...] = ("metadata", FIELD)
    path, owner = subject.file.path, subject.test.id
    if given is None:
        return
    if not isinstance(given, dict):
        line = subject.file.line_of(subject.entry, where)
        message = f"metadata.{FIELD} is {kind(given)}"
        mend = "make it an object of rule names to reasons"
        yield Finding(path, line, WAIVER, message, mend, "error", owner=owner)
        return
    for name, reason in islice(given.items(), MOST_WAIVERS):
        line = subject.file.line_of(subject.entry, (*where, name))
        fault = _fault(name, reason)
        if fault is None:
            yield Waiver(owner, path, line, name, subject.entry.element.start)
        else:
            yield Finding(path, line, WAIVER, *fault, "error", owner=owner)


def eval_waivers(item: Eval) -> Iterator[Waiver | Finding]:
    """Give the waivers of an agent eval, and a finding for each that cannot be one."""
    for name, reason in islice(item.check_ignore.items(), MOST_WAIVERS):
        fault = _fault(name, reason)
        if fault is None:
            yield Waiver(item.id, item.path, item.line, name, None)
        else:
            yield Finding(item.path, item.line, WAIVER, *fault, "error", owner=item.id)


def _fault(name: str, reason: object) -> tuple[str, str] | None:
    """Say what is wrong with a waiver and what mends it; None where it is one."""
    if name not in BY_NAME:
        near = did_you_mean(name, BY_NAME) or "docs/rules.md lists the rules"
        return f"there is no rule {quoted(name)} to waive", near
    if not BY_NAME[name].waivable:
        return f"the rule {quoted(name)} cannot be waived", "mend what it objects to"
    if not isinstance(reason, str) or not reason.strip():
        return f"the waiver of {quoted(name)} gives no reason", "say why the rule is wrong here"
    return None


def waived(findings: Iterable[Finding], given: Iterable[Waiver], ran: frozenset[str]) -> Iterator[Finding]:
    """Leave out what is waived, and find fault with a waiver whose rule ``ran`` and found nothing."""
    by_place = {(item.path, item.owner, item.rule): item for item in given}
    used = set()
    for finding in findings:
        place = (finding.path, finding.owner, finding.rule)
        if finding.owner and place in by_place:
            used.add(place)
        else:
            yield finding
    for place, item in by_place.items():
        if place not in used and item.rule in ran:
            message = f"the waiver of {quoted(item.rule)} waives nothing"
            change = Remove(("metadata", FIELD, item.rule))
            yield Finding(
                path=item.path,
                line=item.line,
                rule=UNUSED_WAIVER,
                message=message,
                mend="remove it",
                severity="warning",
                changes=() if item.start is None else (change,),
                start=item.start or 0,
                owner=item.owner,
            )
