"""The rule that runs a test: what is on the site after its teardown was there before its setup."""

from __future__ import annotations

import base64
import json
import re
import secrets
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from refcompare.errors import EnvironmentFailure
from refcompare.execution.bench import Bench, Floor, Memory
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.pipeline import reference_candidate
from refcompare.results import Record
from refcompare.rules.model import Finding, Rule, Subject
from refcompare.wording import quoted
from refcompare.wordpress.runtime import Runtime

RULE = Rule("leftover-state", "warning", needs="run")
RULES = (RULE,)

MOST_OUTPUT = 8 * 1024 * 1024
"""Bytes of output that are kept, so that what a site holds fits behind what a test prints."""

_LARGEST = 64 * 1024 * 1024
_MOST_SHOWN = 4

_OWN = re.compile(
    r"cron|fresh_site|rewrite_rules|recently_edited|\w+_children|theme_mods_.*|_(site_)?transient_.*"
    r"|wp_calendar_block_has_published_posts|can_compress_scripts|user_count|uninstall_plugins"
    r"|auto_core_update_notified|db_upgraded|finished_updating_comment_type|https_detection_errors"
)
"""Options that WordPress keeps for itself: no test set them, and none has to put them back."""

_NAMES: Mapping[str, str] = {
    "options": "option",
    "posts": "post",
    "postmeta": "post meta",
    "users": "user",
    "usermeta": "user meta",
    "terms": "term",
    "termmeta": "term meta",
    "term_taxonomy": "term of a taxonomy",
    "term_relationships": "term of a post",
    "comments": "comment",
    "commentmeta": "comment meta",
    "links": "link",
    "roles": "role",
    "files": "file",
}

_PARTS = {
    "posts": ("postmeta", "term_relationships", "comments", "commentmeta"),
    "users": ("usermeta",),
    "terms": ("term_taxonomy", "termmeta", "term_relationships"),
    "comments": ("commentmeta",),
}
"""What comes and goes with something: whoever removes a post removes its metadata."""

Rows = Mapping[str, Mapping[str, tuple[str, str]]]
"""What a site holds: a table's name to its rows, each a key to a label and a digest."""


class Unreadable(Exception):
    """A run did not say what the site holds."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found, and the ids of the tests of which nothing can be said, which is a finding too."""

    findings: tuple[Finding, ...]
    unjudged: tuple[str, ...]


def leftovers(
    subjects: Sequence[Subject],
    runtime: Runtime,
    limits: Limits,
    jobs: int,
    hear: Callable[[Record], None] = lambda _: None,
) -> Measured:
    """Run every test with its reference, and compare the site after the teardown with a fresh one.

    ``hear`` gets each record as it comes; its assertions are the test's own, its teardown and the look.
    Raises EnvironmentFailure where nothing can be graded.
    """
    limits = replace(limits, output=MOST_OUTPUT)
    floor: Floor[Subject, tuple[Subject, Record, tuple[str, ...] | None]] = Floor(
        jobs, lambda: Bench(Memory(None, fresh=True), limits)
    )
    mark = secrets.token_hex(16)
    fresh = _fresh(runtime, limits, mark)

    def compare(bench: Bench, subject: Subject) -> tuple[Subject, Record, tuple[str, ...] | None]:
        record = bench.grade(runtime, _observed(subject.test, mark), reference_candidate(subject.test))
        if record.phase is not None or not all(item.passed for item in record.assertions[:-2]):
            return subject, record, None
        try:
            return subject, record, tuple(differences(fresh, read_rows(record.output, mark)))
        except Unreadable:
            return subject, record, None

    found: list[Finding] = []
    unjudged: list[str] = []
    for subject, record, left in floor.work(subjects, compare):
        hear(record)
        if left is None:
            unjudged.append(subject.test.id)
            found.append(_unjudged(subject))
        elif left:
            found.append(_finding(subject, left))
    return Measured(tuple(sorted(found)), tuple(sorted(unjudged)))


def _unjudged(subject: Subject) -> Finding:
    return Finding(
        path=subject.file.path,
        line=subject.file.line_of(subject.entry, ("reference_solution",)),
        rule=RULE.name,
        message="its reference does not pass, so what it leaves on the site was not compared",
        mend=f"see why with `refcompare run --test-id {subject.test.id}`",
        severity=RULE.severity,
        owner=subject.test.id,
    )


def _finding(subject: Subject, left: Sequence[str]) -> Finding:
    more = f" and {len(left) - _MOST_SHOWN} more" if len(left) > _MOST_SHOWN else ""
    where = ("runtime_checks", "teardown") if subject.test.teardown else ("runtime_checks",)
    return Finding(
        path=subject.file.path,
        line=subject.file.line_of(subject.entry, where),
        rule=RULE.name,
        message=f"after the teardown the site is not as it was: {', '.join(left[:_MOST_SHOWN])}{more}",
        mend="remove in runtime_checks.teardown what setup, the candidate and the assertions leave",
        severity=RULE.severity,
        owner=subject.test.id,
    )


def _fresh(runtime: Runtime, limits: Limits, mark: str) -> Rows:
    """Give what a site holds that no test has touched."""
    nothing = ExecutionTest("fresh-site", "", "", "", 1, "")
    bench = Bench(Memory(None, fresh=True), limits)
    try:
        record: Record = bench.grade(runtime, _observed(nothing, mark), Candidate("nothing"))
        return read_rows(record.output, mark)
    except Unreadable as unreadable:
        raise EnvironmentFailure(
            f"The grader did not say what a fresh site holds ({record.message or unreadable})."
        ) from unreadable
    finally:
        bench.close()


def _observed(test: ExecutionTest, mark: str) -> ExecutionTest:
    """Give a test whose last assertions are its teardown, and what the site holds after it.

    The grader has no other place that runs after a teardown and is heard. The mark is a new one in every run,
    so that what a test prints is not taken for it by accident; whoever reads it out of the grader's memory
    deceives a warning about his own test.
    """
    teardown = {"type": "custom_assertion", "code": test.teardown or "return true;"}
    snapshot = {"type": "custom_assertion", "code": _snapshot().replace("@MARK@", mark)}
    return replace(test, assertions=(*test.assertions, teardown, snapshot), teardown="", static_checks={})


@cache
def _snapshot() -> str:
    return Path(__file__).with_name("snapshot.php").read_text(encoding="utf-8")


def read_rows(output: str, mark: str) -> Rows:
    """Read what the site holds out of a run's output. Raises Unreadable; the output is anybody's text."""
    _, found, after = output.rpartition(mark)
    if not found:
        raise Unreadable("there is no mark")
    try:
        packed = base64.b64decode(after.partition("\n")[0], validate=True)
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(packed, _LARGEST)
        if unpacker.unconsumed_tail:
            raise Unreadable("it holds too much")
        return {table: _keyed(rows) for table, rows in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError, zlib.error) as error:
        raise Unreadable(str(error)) from error


def _keyed(rows: Sequence[Sequence[str]]) -> Mapping[str, tuple[str, str]]:
    """Give rows by their key; a key that comes again is told apart by its number."""
    times: Counter[str] = Counter()
    found = {}
    for key, label, digest in rows:
        times[key] += 1
        found[f"{key}#{times[key]}" if times[key] > 1 else key] = (str(label), str(digest))
    return found


def differences(before: Rows, after: Rows) -> Iterator[str]:
    """Say what is on a site that was not, what is gone and what differs; bookkeeping is left out."""
    changed = {table: list(_table(table, before.get(table, {}), after.get(table, {}))) for table in after}
    for table in before.keys() - after.keys():
        yield f"the table {quoted(table)} is gone"
    for table in after:
        rows = changed[table]
        if table not in before and table not in _NAMES:
            yield f"the table {quoted(table)} is left"
        elif not any(table in parts and _came(changed.get(whole, ())) for whole, parts in _PARTS.items()):
            yield from (text for _, text in rows)


def _came(rows: Sequence[tuple[bool, str]]) -> bool:
    return any(new for new, _ in rows)


def _table(
    table: str, before: Mapping[str, tuple[str, str]], after: Mapping[str, tuple[str, str]]
) -> Iterator[tuple[bool, str]]:
    """Give for each row that differs whether it is one more or one less, and what to say of it."""
    name = _NAMES.get(table, f"row of {table}")
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old == new or (table == "options" and _OWN.fullmatch(key)):
            continue
        label = (new or old or ("", ""))[0]
        shown = f"the {name} {quoted(label)}" if label else f"the {name} {key}"
        if old is None:
            yield True, f"{shown} is left"
        elif new is None:
            yield True, f"{shown} is gone"
        else:
            yield False, f"{shown} has changed"
