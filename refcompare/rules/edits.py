"""Edits of a suite's JSON that touch nothing but what they are about. Pure: text in, text out.

A change names a place by its path into one test; here it becomes the span of characters that has to go and
what comes in its stead, so that indentation, order, escapes and line ends of all the rest stay as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from json import JSONDecodeError, JSONDecoder

from refcompare.execution.loader_json import Document, Where

_DECODER = JSONDecoder()
_UNIT = re.compile(r'\\u[0-9a-fA-F]{4}|\\.|[^\\"]', re.DOTALL)
_BLANK = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Remove:
    """Take a member out of its list or object."""

    where: Where


@dataclass(frozen=True, slots=True)
class Cut:
    """Take the characters from ``start`` to ``end`` out of a string, counted in the decoded string."""

    where: Where
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Append:
    """Add text at the end of a string; where the object has no such string, give it one."""

    where: Where
    text: str


Change = Remove | Cut | Append


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Replace the characters from ``start`` to ``end`` of a text."""

    start: int
    end: int
    text: str


class CannotEdit(Exception):
    """A change does not fit what stands there."""


def spans(document: Document, start: int, changes: Iterable[Change]) -> tuple[Span, ...]:
    """Give what the changes of the test that starts at ``start`` mean for the text.

    Raises CannotEdit where a place is not there or not of the kind that the change is about.
    """
    return tuple(_span(document, start, change) for change in changes)


def applied(text: str, edits: Iterable[Span]) -> str:
    """Give the text with edits made. Raises CannotEdit where two of them overlap."""
    pieces, at = [], 0
    for edit in sorted(edits):
        if edit.start < at:
            raise CannotEdit
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*pieces, text[at:]])


def overlap(edits: Iterable[Span], others: Iterable[Span]) -> bool:
    """Say whether any of the first touches any of the others."""
    return any(one.start <= two.end and two.start <= one.end for one in edits for two in others)


def _span(document: Document, start: int, change: Change) -> Span:
    match change:
        case Remove(where):
            return _removed(document, start, where)
        case Cut(where, first, last):
            at, raw = _string(document, start, where)
            offsets = _offsets(raw)
            if not 0 <= first <= last < len(offsets):
                raise CannotEdit
            return Span(at + offsets[first], at + offsets[last], "")
        case Append(where, text):
            return _appended(document, start, where, text)


def _removed(document: Document, start: int, where: Where) -> Span:
    """Take an entry with the comma that it leaves over: the one before it, else the one after it."""
    text = document.text
    first, end = _entry(document, start, where)
    before = _skip_back(text, first)
    after = _skip(text, end)
    if text[before - 1 : before] == ",":
        return Span(before - 1, end, "")
    if text[after : after + 1] == ",":
        return Span(first, _skip(text, after + 1), "")
    return Span(before, after, "")


def _appended(document: Document, start: int, where: Where, text: str) -> Span:
    try:
        at, raw = _string(document, start, where)
    except CannotEdit:
        return _inserted(document, start, where, text)
    separator = "\n" if raw[1:-1] and not raw.endswith('\\n"') else ""
    plain = not raw.isascii()
    return Span(at + len(raw) - 1, at + len(raw) - 1, _encoded(separator + text, plain))


def _inserted(document: Document, start: int, where: Where, text: str) -> Span:
    """Put a new member behind the last one of its object, indented as that one is."""
    outer = where[:-1]
    at = document.locate(start, outer)
    value, _ = _decoded(document.text, at)
    if not isinstance(value, dict) or not value or where[-1] in value:
        raise CannotEdit
    last = list(value)[-1]
    first, stop = _entry(document, start, (*outer, last))
    before = _skip_back(document.text, first)
    gap = document.text[before:first]
    return Span(stop, stop, f",{gap}{json.dumps(where[-1])}: {json.dumps(text)}")


def _entry(document: Document, start: int, where: Where) -> tuple[int, int]:
    """Give where an entry starts, with its key, and where its value ends."""
    at = document.locate(start, where)
    outer = document.locate(start, where[:-1])
    if at == outer:
        raise CannotEdit
    _, end = _decoded(document.text, at)
    if not isinstance(where[-1], str):
        return at, end
    colon = _skip_back(document.text, at) - 1
    quote = _skip_back(document.text, colon) - 1
    first = document.text.rfind('"', outer, quote)
    while first > outer and document.text[first - 1] == "\\":
        first = document.text.rfind('"', outer, first)
    if document.text[colon] != ":" or _decoded(document.text, first) != (where[-1], quote + 1):
        raise CannotEdit
    return first, end


def _string(document: Document, start: int, where: Where) -> tuple[int, str]:
    """Give where a string starts, and its JSON text with the quotes."""
    at = document.locate(start, where)
    value, end = _decoded(document.text, at)
    if not isinstance(value, str) or at == document.locate(start, where[:-1]):
        raise CannotEdit
    return at, document.text[at:end]


def _decoded(text: str, at: int) -> tuple[object, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except JSONDecodeError as error:
        raise CannotEdit from error


def _offsets(raw: str) -> list[int]:
    """Give the offset in a string's JSON text of each of its characters, and of its end."""
    return list(_each_offset(raw))


def _each_offset(raw: str) -> Iterator[int]:
    at = 1
    while at < len(raw) - 1:
        yield at
        match = _UNIT.match(raw, at)
        if match is None:
            raise CannotEdit
        at = match.end()
        if _is_half(match[0], "d8", "db") and (low := _UNIT.match(raw, at)) and _is_half(low[0], "dc", "df"):
            at = low.end()
    yield at


def _is_half(unit: str, low: str, high: str) -> bool:
    return unit.startswith("\\u") and low <= unit[2:4].lower() <= high


def _encoded(text: str, plain: bool) -> str:
    return json.dumps(text, ensure_ascii=not plain)[1:-1]


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def _skip_back(text: str, at: int) -> int:
    while at > 0 and text[at - 1] in _BLANK:
        at -= 1
    return at
