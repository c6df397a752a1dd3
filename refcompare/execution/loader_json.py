"""Reads a suite's JSON so that every test knows its line and one broken test costs only itself.

The standard decoder does the work, one element of ``tests`` at a time, so that a file of
megabytes loads at its speed; this module adds what it leaves out: offsets, repeated keys, and
the values that JSON's grammar or Python allows and PHP does not read back as they stand.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from json import JSONDecodeError, JSONDecoder
from math import isfinite
from typing import Any

Where = tuple[str | int, ...]
"""A path into a decoded value: keys of objects and indexes of lists, outermost first."""

DEEPEST = 64
"""Levels of nesting a test may have. PHP stops at 512; nothing readable needs a tenth of that."""

_INTEGERS = range(-(2**63), 2**63)
_LONGEST_INTEGER = 24
_SPACE = re.compile(r"[ \t\n\r]*")
_BAD_BYTE = re.compile("[\udc80-\udcff]")


class RepeatedKey(dict[str, Any]):
    """An object that names one key twice, so that readers may disagree on what it says."""

    __slots__ = ("key",)

    def __init__(self, pairs: list[tuple[str, Any]], key: str) -> None:
        super().__init__(pairs)
        self.key = key


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return RepeatedKey(pairs, key)
        seen.add(key)
    raise AssertionError("fewer members than pairs, and no key repeated")


def _integer(digits: str) -> int:
    # int() refuses more than 4,300 digits with an error of its own; all of these are too large.
    return int(digits) if len(digits) <= _LONGEST_INTEGER else 10**_LONGEST_INTEGER


_DECODER = JSONDecoder(object_pairs_hook=_object, parse_int=_integer)


@dataclass(frozen=True, slots=True)
class Element:
    """One element of ``tests``: its decoded value and where its text starts and ends."""

    start: int
    end: int
    value: Any


@dataclass(frozen=True, slots=True)
class Broken:
    """Where a text stops being JSON, and why, in the decoder's words."""

    offset: int
    message: str


@dataclass(frozen=True, slots=True)
class Document:
    """A suite file's text and what could be decoded of it.

    ``elements`` are the tests before ``broken`` (all of them when it is None). ``members`` are
    the other members of the outer object. ``has_tests`` says whether a list of tests was found.
    """

    text: str
    elements: tuple[Element, ...] = ()
    members: dict[str, Any] = field(default_factory=dict)
    has_tests: bool = False
    broken: Broken | None = None
    _newlines: tuple[int, ...] = ()

    def line(self, offset: int) -> int:
        """Give the line of a character offset, counted from 1."""
        return bisect_right(self._newlines, offset - 1) + 1

    def column(self, offset: int) -> int:
        """Give the column of a character offset in its line, in characters, counted from 1."""
        return offset - self.text.rfind("\n", 0, offset)

    def bad_byte(self, start: int, end: int) -> int | None:
        """Give the offset of the first byte that is not UTF-8 in a part of the text, or None.

        Such a byte stands in ``text`` as a surrogate escape; JSON's own escapes are ASCII.
        """
        match = _BAD_BYTE.search(self.text, start, end)
        return match.start() if match else None

    def locate(self, start: int | None, where: Where) -> int:
        """Give the offset of the value at ``where`` inside the value that starts at ``start``.

        None starts at the outermost value. A path that leads past what is there, or past where
        the text breaks, gives the offset of the last value on the way.
        """
        cursor = _Cursor(self.text)
        at = cursor.skip(0) if start is None else start
        for step in where:
            try:
                found = cursor.child(at, step)
            except _Stop:
                break
            if found is None:
                break
            at = found
        return at


class _Stop(Exception):
    """Raised inside this module with the offset at which reading cannot go on."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


class _Cursor:
    """Steps through a text from one value to the next without decoding what it need not."""

    def __init__(self, text: str) -> None:
        self.text = text

    def skip(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        return match.end() if match else at

    def peek(self, at: int) -> str:
        return self.text[at : at + 1]

    def value(self, at: int) -> tuple[Any, int]:
        try:
            return _DECODER.raw_decode(self.text, at)
        except JSONDecodeError as error:
            before = self.text[: error.pos].rstrip()
            if before.endswith(",") and self.peek(error.pos) in ("}", "]"):
                closing = self.peek(error.pos)
                raise _Stop(f"A comma with nothing between it and '{closing}'", len(before) - 1) from None
            raise _Stop(error.msg, error.pos) from None
        except RecursionError:
            raise _Stop("nested too deeply to be read", at) from None

    def key(self, at: int) -> tuple[str, int]:
        """Give an object's key and the offset of its value."""
        if self.peek(at) != '"':
            raise _Stop("Expecting a key in double quotes", at)
        name, at = self.value(at)
        at = self.skip(at)
        if self.peek(at) != ":":
            raise _Stop("Expecting ':' after a key", at)
        return name, self.skip(at + 1)

    def first(self, at: int, closing: str) -> int | None:
        """Give the offset of the first entry of the list or object at ``at``, None when it is empty."""
        at = self.skip(at + 1)
        return None if self.peek(at) == closing else at

    def following(self, at: int, closing: str) -> int | None:
        """Give the offset of the entry after the one that ends at ``at``, None after the last."""
        at = self.skip(at)
        if self.peek(at) == closing:
            return None
        if self.peek(at) != ",":
            raise _Stop(f"Expecting ',' or '{closing}'", at)
        after = self.skip(at + 1)
        if self.peek(after) == closing:
            raise _Stop(f"A comma with nothing between it and '{closing}'", at)
        return after

    def child(self, at: int, step: str | int) -> int | None:
        """Give the offset of one entry of the value at ``at``, None without such an entry."""
        opening = self.peek(at)
        if opening not in ("{", "["):
            return None
        closing = "}" if opening == "{" else "]"
        entry, index = self.first(at, closing), 0
        while entry is not None:
            name: str | int = index
            if opening == "{":
                name, entry = self.key(entry)
            if name == step:
                return entry
            entry, index = self.following(self.value(entry)[1], closing), index + 1
        return None


class _Reader:
    """Collects what one file holds; what was read before it breaks stays readable."""

    def __init__(self, text: str) -> None:
        self.cursor = _Cursor(text)
        self.elements: list[Element] = []
        self.members: dict[str, Any] = {}
        self.has_tests = False

    def read(self) -> None:
        start = self.cursor.skip(0)
        opening = self.cursor.peek(start)
        if opening == "{":
            end = self._suite(start)
        elif opening == "[":
            end = self._tests(start)
        else:
            _, end = self.cursor.value(start)
        end = self.cursor.skip(end)
        if end < len(self.cursor.text):
            raise _Stop("Something follows the end of the suite", end)

    def _suite(self, at: int) -> int:
        cursor, end = self.cursor, at + 1
        entry = cursor.first(at, "}")
        while entry is not None:
            key_at = entry
            name, entry = cursor.key(entry)
            if name == "tests" and self.has_tests:
                raise _Stop("A second 'tests' in one suite", key_at)
            if name == "tests" and cursor.peek(entry) == "[":
                end = self._tests(entry)
            else:
                self.members[name], end = cursor.value(entry)
            entry = cursor.following(end, "}")
        return cursor.skip(end) + 1

    def _tests(self, at: int) -> int:
        self.has_tests = True
        cursor, end = self.cursor, at + 1
        entry = cursor.first(at, "]")
        while entry is not None:
            value, end = cursor.value(entry)
            self.elements.append(Element(entry, end, value))
            entry = cursor.following(end, "]")
        return cursor.skip(end) + 1


def scan(text: str) -> Document:
    """Read a suite file: an object with ``tests``, or the bare list of tests. Never raises."""
    reader, broken = _Reader(text), None
    try:
        reader.read()
    except _Stop as stop:
        broken = Broken(stop.offset, stop.message)
    newlines = tuple(match.start() for match in re.finditer("\n", text))
    return Document(text, tuple(reader.elements), reader.members, reader.has_tests, broken, newlines)


_Trail = tuple[Any, str | int, int]
"""A value's way up: the trail of what holds it, its key or index there, how many values hold it."""


def first_flaw(value: Any) -> tuple[Where, str] | None:
    """Find the first value that other readers of the same JSON, PHP's among them, take differently.

    Gives its path and a phrase that says what it is, or None. Iterative, so that nesting costs
    no stack.
    """
    pending: list[tuple[Any, _Trail | None]] = [(value, None)]
    while pending:
        node, trail = pending.pop()
        flaw = _flaw(node)
        if flaw:
            return _unrolled(trail), flaw
        depth = trail[2] if trail else 0
        if depth > DEEPEST:
            return _unrolled(trail), f"a value nested deeper than {DEEPEST} levels"
        if isinstance(node, dict):
            pending.extend((item, (trail, key, depth + 1)) for key, item in reversed(node.items()))
        elif isinstance(node, list):
            pending.extend((node[i], (trail, i, depth + 1)) for i in range(len(node) - 1, -1, -1))
    return None


def _flaw(node: Any) -> str | None:
    if isinstance(node, RepeatedKey):
        return f"an object with the key {node.key[:80]!a} twice"
    if isinstance(node, dict):
        return next(filter(None, map(_text_flaw, node)), None)
    if isinstance(node, str):
        return _text_flaw(node)
    if isinstance(node, int) and node not in _INTEGERS:
        return "an integer that PHP cannot hold"
    if isinstance(node, float) and not isfinite(node):
        return "a number that is not finite"
    return None


def _text_flaw(text: str) -> str | None:
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"half of a surrogate pair (\\u{ord(text[error.start]):04x})"
    return None


def _unrolled(trail: _Trail | None) -> Where:
    steps: list[str | int] = []
    while trail:
        steps.append(trail[1])
        trail = trail[0]
    return tuple(reversed(steps))
