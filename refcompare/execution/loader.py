"""Turns the bytes of one suite file into tests; what cannot be graded becomes a value that says why."""

from __future__ import annotations

import codecs
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from refcompare.execution import definition
from refcompare.execution.loader_json import Document, Element, Where, first_flaw, scan
from refcompare.execution.loader_rules import Problem, as_object, name_problem, problems
from refcompare.execution.model import ExecutionTest, InvalidTest
from refcompare.wording import kind, printable

LARGEST_FILE = 32 * 1024 * 1024
"""Bytes above which a suite file is not read."""

_MOST_UNKNOWN = 50
_FILE_EXTRAS = frozenset({"$comment", "$schema", "description", "id", "metadata", "name", "version"})
_OTHER_ENCODINGS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


@dataclass(frozen=True, slots=True)
class SourceTest:
    """One element of a suite file's tests, decoded but not judged.

    ``position`` counts from 1 in its file; ``line`` is the one of the opening brace. ``flaw`` is
    set where the JSON itself is ambiguous, so that no rule should look further.
    """

    position: int
    line: int
    element: Element
    flaw: Problem | None

    @property
    def value(self) -> Any:
        """The decoded element, whatever its type."""
        return self.element.value


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A suite file as read. ``path`` is printable; ``fault`` says why it can't be read to its end.

    ``fault_line`` counts from 1. A file with a fault may still have ``tests``: those before it.
    """

    path: str
    suite: str
    document: Document
    digest: str
    tests: tuple[SourceTest, ...] = ()
    fault: Problem | None = None
    fault_line: int = 1

    @property
    def category(self) -> str:
        """The category of the tests that name none: the file's name without its ending."""
        return self.path.rpartition("/")[2].rpartition(".")[0] or self.path.rpartition("/")[2]

    def line_of(self, test: SourceTest, where: Where) -> int:
        """Give the line of a value inside a test, or of the nearest thing around it."""
        return self.document.line(self.document.locate(test.element.start, where))

    def flaw_line(self, test: SourceTest) -> int:
        """Give the line on which a test's flaw stands; its own line without one."""
        if test.flaw is None:
            return test.line
        bad_byte = self.document.bad_byte(test.element.start, test.element.end)
        return self.line_of(test, test.flaw.where) if bad_byte is None else self.document.line(bad_byte)

    def problems(self, test: SourceTest) -> Iterator[Problem]:
        """Give everything that keeps a test from being graded."""
        if test.flaw is not None:
            yield test.flaw
        elif isinstance(test.value, dict):
            yield from problems(test.value)
        else:
            yield Problem((), "wrong-type", f"the test is {kind(test.value)}", "make it an object")


def read_source(path: str, data: bytes, suite: str) -> SourceFile:
    """Read a suite file: an object with a list ``tests``, or such a list. Never raises.

    ``path`` is relative to the tree's root and ``suite`` the suite's name, both as found.
    """
    shown, digest = printable(path), hashlib.sha256(data).hexdigest()
    for mark, name in _OTHER_ENCODINGS:
        if data.startswith(mark):
            wrong = Problem((), "encoding", f"the file is {name}, not UTF-8", "save it as UTF-8")
            return SourceFile(shown, printable(suite), Document(""), digest, fault=wrong)
    document = scan(data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape"))
    tests = tuple(_source_test(document, index, item) for index, item in enumerate(document.elements, 1))
    fault, line = _file_fault(document)
    return SourceFile(shown, printable(suite), document, digest, tests, fault, line)


def unreadable(path: str, suite: str, rule: str, message: str, mend: str) -> SourceFile:
    """Give the value for a file whose bytes could not or should not be read at all."""
    digest = hashlib.sha256(message.encode("utf-8", "backslashreplace")).hexdigest()
    fault = Problem((), rule, message, mend)
    return SourceFile(printable(path), printable(suite), Document(""), digest, fault=fault)


def _source_test(document: Document, position: int, element: Element) -> SourceTest:
    line = document.line(element.start)
    bad_byte = document.bad_byte(element.start, element.end)
    if bad_byte is not None:
        code = ord(document.text[bad_byte]) - 0xDC00
        message = f"the byte 0x{code:02X} in column {document.column(bad_byte)} is not UTF-8"
        return SourceTest(position, line, element, Problem((), "encoding", message, "save the file as UTF-8"))
    flaw = first_flaw(element.value)
    if flaw is None:
        return SourceTest(position, line, element, None)
    where, phrase = flaw
    return SourceTest(
        position, line, element, Problem(where, "json", f"the JSON holds {phrase}", "rewrite it")
    )


def _file_fault(document: Document) -> tuple[Problem | None, int]:
    broken = document.broken
    if broken is not None:
        line, column = document.line(broken.offset), document.column(broken.offset)
        read = len(document.elements)
        before = "1 test before it is" if read == 1 else f"{read:,} tests before it are"
        rest = f"; the {before} read, nothing after it" if read else ""
        message = f"not JSON in column {column}: {broken.message}{rest}"
        return Problem((), "json", message, "mend the JSON"), line
    if document.has_tests:
        return None, 1
    if "tests" in document.members:
        found = f"'tests' is {kind(document.members['tests'])}"
    else:
        found = "the file holds no 'tests'"
    return Problem((), "no-tests", found, "make the file an object with a list named tests"), 1


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field that the format does not have: its dotted name, first line and uses in one file."""

    name: str
    line: int
    uses: int


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The tests of one file in their order, and the unknown fields that it uses."""

    items: tuple[ExecutionTest | InvalidTest, ...]
    unknown: tuple[UnknownField, ...]


def load_source(source: SourceFile) -> LoadedFile:
    """Judge every test of a file. The file's own fault, if any, is the last item."""
    items: list[ExecutionTest | InvalidTest] = [_load_test(source, test) for test in source.tests]
    if source.fault is not None:
        items.append(
            InvalidTest(
                id=source.path,
                suite=source.suite,
                category=source.category,
                path=source.path,
                line=source.fault_line,
                digest=source.digest,
                reason=source.fault.message,
                entry_digest=source.digest,
            )
        )
    return LoadedFile(tuple(items), tuple(unknown_fields(source)))


def _load_test(source: SourceFile, test: SourceTest) -> ExecutionTest | InvalidTest:
    problem = next(source.problems(test), None)
    if problem is None:
        return definition.build(
            test.value, suite=source.suite, category=source.category, path=source.path, line=test.line
        )
    value = test.value if isinstance(test.value, dict) else {}
    invalid = InvalidTest(
        id=f"{source.path}#{test.position}",
        suite=source.suite,
        category=source.category,
        path=source.path,
        line=source.line_of(test, problem.where),
        digest="",
        reason=problem.message,
    )
    if name_problem("id", value.get("id")) is None:
        invalid = replace(invalid, id=value["id"])
    if name_problem("category", value.get("category")) is None:
        invalid = replace(invalid, category=value["category"])
    if test.flaw is None:
        grading, entry = definition.digests(definition.fields(value, source.category))
        return replace(invalid, digest=grading, entry_digest=entry)
    # Which value an ambiguous test has is not known, so its text stands for it.
    text = source.document.text[test.element.start : test.element.end]
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    return replace(invalid, line=source.flaw_line(test), digest=digest, entry_digest=digest)


def unknown_fields(source: SourceFile) -> Iterator[UnknownField]:
    """Give the fields that the format does not have, in the order of their first use.

    Those that suites in the field are known to carry are left out, and so are all after the
    fiftieth, since a file with more is not a suite with typing errors.
    """
    document, uses = source.document, Counter[Where]()
    first: dict[Where, tuple[int | None, Where]] = {}
    for name in document.members:
        if name not in _FILE_EXTRAS and name != "tests":
            uses[(name,)] += 1
            first.setdefault((name,), (None, (name,)))
    for test in source.tests:
        if test.flaw is None and isinstance(test.value, dict):
            for where in _unknown_in(test.value):
                # Which member of a list it is in tells where it is, and not what it is called.
                found = tuple(step for step in where if isinstance(step, str))
                uses[found] += 1
                first.setdefault(found, (test.element.start, where))
    for named, (start, where) in islice(first.items(), _MOST_UNKNOWN):
        line = document.line(document.locate(start, where))
        yield UnknownField(".".join(printable(str(step)) for step in named), line, uses[named])


def _unknown_in(test: Mapping[str, Any]) -> Iterator[Where]:
    known = definition.KNOWN_FIELDS | definition.KNOWN_EXTRAS
    yield from ((name,) for name in test if name not in known)
    for outer, lists in definition.LISTS.items():
        members = as_object(test.get(outer)) or {}
        for name, value in members.items():
            if name not in lists:
                yield outer, name
            elif isinstance(value, list):
                extras = definition.KNOWN_EXTRAS | lists[name]
                for index, item in enumerate(value):
                    if isinstance(item, dict):
                        yield from ((outer, name, index, field) for field in item if field not in extras)
