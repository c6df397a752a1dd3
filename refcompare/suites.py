"""Finds the suites in a tree and loads their tests, whatever state their files are in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from refcompare.errors import RefcompareError
from refcompare.execution.definition import field_digests
from refcompare.execution.loader import LARGEST_FILE, SourceFile, load_source, read_source, unreadable
from refcompare.execution.model import ExecutionTest, InvalidTest
from refcompare.globs import path_matches
from refcompare.results import TestEntry
from refcompare.tree import Tree, TreeFile
from refcompare.wording import printable, quoted

DEFAULT_GLOBS = ("datasets/suites/*/execution/*.json",)

MOST_NOTES = 20
"""Notes of a kind, after which the rest are counted."""


@dataclass(frozen=True, slots=True)
class SuiteSet:
    """The tests of one tree. Each tuple is in the order of path, then of position in the file.

    Every id occurs once over ``tests`` and ``invalid`` together. ``notes`` are sentences for the
    reader about what was kept but not understood.
    """

    tests: tuple[ExecutionTest, ...] = ()
    invalid: tuple[InvalidTest, ...] = ()
    notes: tuple[str, ...] = ()


def load_suites(tree: Tree, globs: Sequence[str] = DEFAULT_GLOBS) -> SuiteSet:
    """Load every test of the files that ``globs`` name. Raises nothing for what a file holds.

    In a glob ``*`` and ``?`` stand for characters of one path segment and ``**`` for any number of
    segments; the rest is taken as it stands, case included. A test that cannot be graded, a
    file that cannot be read and a second test of the same id are ``invalid``.
    """
    collected = _Collector()
    for source in sources(tree, globs, collected.missing):
        loaded = load_source(source)
        for item in loaded.items:
            collected.add(item)
        for field in loaded.unknown:
            place, uses = collected.unknown.get(field.name, (f"{source.path}:{field.line}", 0))
            collected.unknown[field.name] = (place, uses + field.uses)
    return SuiteSet(tuple(collected.tests), tuple(collected.invalid), tuple(collected.notes()))


def entries(suites: SuiteSet) -> tuple[TestEntry, ...]:
    """Give what a run result says of each test, gradable or not, in the order of path and line."""
    items: list[ExecutionTest | InvalidTest] = [*suites.tests, *suites.invalid]
    items.sort(key=lambda item: (item.path, item.line))
    return tuple(
        TestEntry(
            test_id=item.id,
            suite=item.suite,
            category=item.category,
            path=item.path,
            line=item.line,
            digest=item.entry_digest,
            invalid=item.reason if isinstance(item, InvalidTest) else None,
            fields={} if isinstance(item, InvalidTest) else field_digests(item),
        )
        for item in items
    )


def sources(
    tree: Tree, globs: Sequence[str] = DEFAULT_GLOBS, missing: list[str] | None = None
) -> Iterator[SourceFile]:
    """Read the files that ``globs`` name one after the other, in path order.

    Globs that name no file are appended to ``missing`` once the last file was given.
    """
    unmatched = list(dict.fromkeys(globs))
    split = {glob: glob.removeprefix("./").split("/") for glob in unmatched}
    for file in tree.files():
        segments = file.path.split("/")
        matching = [glob for glob, pattern in split.items() if path_matches(pattern, segments)]
        if matching:
            unmatched = [glob for glob in unmatched if glob not in matching]
            yield _read(tree, file)
    if missing is not None:
        missing.extend(unmatched)


def suite_name(path: str) -> str:
    """Name the suite of a file: the segment before ``/execution/``, else the directory it lies in."""
    *directories, name = path.split("/")
    for index in range(len(directories) - 1, 0, -1):
        if directories[index] == "execution":
            return directories[index - 1]
    return directories[-1] if directories else name.rpartition(".")[0] or name


def _read(tree: Tree, file: TreeFile) -> SourceFile:
    suite = suite_name(file.path)
    if file.size > LARGEST_FILE:
        message = f"the file has {file.size:,} bytes, at most {LARGEST_FILE:,} are read"
        return unreadable(file.path, suite, "file-size", message, "split it by category")
    try:
        data = tree.read(file.path)
    except (KeyError, OSError, RefcompareError) as error:
        # A worktree may change under our hands; one file of it must not cost the rest.
        message = f"the file cannot be read ({printable(str(error)) or type(error).__name__})"
        return unreadable(file.path, suite, "unreadable", message, "make it readable")
    return read_source(file.path, data, suite)


class _Collector:
    """Gathers tests over files and keeps every id to one owner: whoever used it first."""

    def __init__(self) -> None:
        self.tests: list[ExecutionTest] = []
        self.invalid: list[InvalidTest] = []
        self.missing: list[str] = []
        self.unknown: dict[str, tuple[str, int]] = {}
        self.owners: dict[str, str] = {}

    def add(self, item: ExecutionTest | InvalidTest) -> None:
        owner = self.owners.get(item.id)
        if owner is not None:
            item = self._duplicate(item, owner)
        self.owners[item.id] = f"{item.path}:{item.line}"
        if isinstance(item, InvalidTest):
            self.invalid.append(item)
        else:
            self.tests.append(item)

    def _duplicate(self, item: ExecutionTest | InvalidTest, owner: str) -> InvalidTest:
        count = 2
        while f"{item.id}#{count}" in self.owners:
            count += 1
        reason = duplicate_message(item.id, owner)
        if isinstance(item, InvalidTest):
            return replace(item, id=f"{item.id}#{count}", reason=f"{reason}; {item.reason}")
        return InvalidTest(
            id=f"{item.id}#{count}",
            suite=item.suite,
            category=item.category,
            path=item.path,
            line=item.line,
            digest=item.digest,
            reason=reason,
            entry_digest=item.entry_digest,
        )

    def notes(self) -> Iterator[str]:
        for glob in self.missing:
            yield f"No file matches {quoted(glob)}."
        for name, (place, uses) in islice(self.unknown.items(), MOST_NOTES):
            more = f" and {uses - 1:,} more" if uses > 1 else ""
            yield f"The field {quoted(name)} is not one of the format: kept, not graded ({place}{more})."
        if len(self.unknown) > MOST_NOTES:
            yield f"{len(self.unknown) - MOST_NOTES:,} more fields are not of the format: kept, not graded."


def duplicate_message(test_id: str, owner: str) -> str:
    """Say that an id is taken; ``owner`` is the ``path:line`` of the first test that uses it."""
    return f"the id {quoted(test_id)} is already used at {owner}"
