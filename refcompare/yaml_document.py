"""Hostile YAML read as a small tree of plain values, with the line on which each part of it stands.

Only what JSON has too is taken: no anchors, aliases, tags or further documents, nothing deeper and
nothing longer than the reader allows. What a schema has against a document is told by line, each
violation in one sentence that names what would mend it: the title of the schema that was broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any

import jsonschema
import yaml

from refcompare.wording import alternatives, did_you_mean, kind, printable, quoted

Path = tuple[str | int, ...]
"""Keys and positions on the way to a value."""

_PLAIN_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str")}


class Refused(Exception):
    """Raised for text that is not a document at all, with the line and the sentence that says why."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(sentence)
        self.line = line
        self.sentence = sentence


class Document:
    """A parsed file: ``value`` is its mapping, ``lines`` has the line of each key and item, from 1."""

    def __init__(self, as_typed: Callable[[Path], bool]) -> None:
        self.value: dict[str, Any] = {}
        self.lines: dict[Path, int] = {(): 1}
        self._as_typed = as_typed

    @classmethod
    def parse(
        cls,
        data: bytes,
        *,
        largest: int,
        deepest: int = 8,
        as_typed: Callable[[Path], bool] = lambda path: False,
    ) -> Document:
        """Parse a file of at most ``largest`` bytes, nested at most ``deepest`` levels.

        ``as_typed`` says which scalars stay the text that was typed: 7.10 is a version, not the number
        7.1. Raises Refused.
        """
        if len(data) > largest:
            raise Refused(1, f"the file has {len(data):,} bytes; keep it under {largest:,}.")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise Refused(line, "the file is not UTF-8; save it as UTF-8.") from None
        document = cls(as_typed)
        try:
            _refuse_bombs(text, deepest)
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            what = error.problem or error.context or "cannot be parsed"
            raise Refused(mark.line + 1 if mark else 1, f"not YAML: {printable(what)}.") from None
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise Refused(line, "the file holds a control character; remove it.") from None
        value = None if root is None else document._plain(root, ())
        if value is not None and not isinstance(value, dict):
            raise Refused(document.lines[()], f"the file is {kind(value)}; make it a mapping of keys.")
        document.value = value or {}
        return document

    def line(self, path: Path) -> int:
        """Give the line of a value, or of the nearest thing around it."""
        while path not in self.lines:
            path = path[:-1]
        return self.lines[path]

    def faults(self, validator: jsonschema.Draft202012Validator) -> Iterator[tuple[int, str]]:
        """Give each violation of a schema as a line and a sentence."""
        for error in validator.iter_errors(self.value):
            yield from self._fault(error)

    def _plain(self, node: yaml.Node, path: Path) -> Any:
        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        return node.value if node.value and self._as_typed(path) else _scalar(node)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise Refused(line, "a key is a list or a mapping; make it a word.")
            key = key_node.value
            if key in members:
                first = self.lines[(*path, key)]
                raise Refused(line, f"{quoted(key)} is already set in line {first}; keep one of the two.")
            self.lines[(*path, key)] = line
            members[key] = self._plain(value_node, (*path, key))
        return members

    def _fault(self, error: jsonschema.ValidationError) -> Iterator[tuple[int, str]]:
        path: Path = tuple(error.absolute_path)
        schema: Mapping[str, Any] = error.schema  # type: ignore[assignment]
        if error.validator == "additionalProperties":
            members: Mapping[str, Any] = error.instance  # type: ignore[assignment]
            known = schema["properties"]
            for key in members.keys() - known.keys():
                hint = did_you_mean(key, known) or _deeper(key, path, known)
                hint = hint or f"the keys are {', '.join(sorted(known))}."
                yield self.line((*path, key)), f"unknown key {quoted(dotted((*path, key)))}; {hint}"
            return
        nested = [inner for inner in error.context or () if tuple(inner.absolute_path) != path]
        if nested:  # the right alternative was meant, and one of its items is wrong
            for inner in nested:
                yield from self._fault(inner)
            return
        if error.validator == "required":
            present: Any = error.instance
            wanted: Any = error.validator_value
            name = next(name for name in wanted if name not in present)
            yield self.line(path), f"{dotted((*path, name))} is missing; add it."
            return
        yield self.line(path), f"{dotted(path) or 'the file'} is {_shown(error.instance)}; {_mend(error)}"


def dotted(path: Path) -> str:
    """Write a path as ``limits.seconds`` or ``fail_on[1]``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _shown(found: Any) -> str:
    if isinstance(found, str):
        return quoted(found)
    if isinstance(found, int | float) and not isinstance(found, bool):
        return f"{found}"
    return kind(found)


def _mend(error: jsonschema.ValidationError) -> str:
    schema: Mapping[str, Any] = error.schema  # type: ignore[assignment]
    mend = f"make it {schema['title']}."
    if isinstance(error.instance, str):
        words = (word for word in schema.get("enum", ()) if " " not in word)
        return did_you_mean(error.instance, words) or mend
    return mend


def _refuse_bombs(text: str, deepest: int) -> None:
    """Refuse what makes YAML more than a small tree of words, before any of it is built."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise Refused(line, "anchors and aliases are not taken; write the value out.")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise Refused(line, f"the tag {quoted(str(tag))} is not taken; remove it.")
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise Refused(line, "a second document starts here; keep one.")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > deepest:
            raise Refused(line, f"nested deeper than {deepest} levels; no key needs that.")


def _scalar(node: yaml.Node) -> Any:
    """Give a scalar's value if it is one that JSON has too, and otherwise its text."""
    if node.tag not in _PLAIN_TAGS:
        return node.value
    try:
        value = yaml.constructor.SafeConstructor().construct_object(node)
    except (ValueError, KeyError):
        return node.value
    return node.value if isinstance(value, float) and not isfinite(value) else value


def _deeper(key: str, path: Path, known: Mapping[str, Any]) -> str:
    """Say where a key belongs that is one of a mapping's below ``path``; empty where it is none."""
    places = [quoted(dotted((*path, outer, key))) for outer, inner in known.items() if key in _members(inner)]
    return f"did you mean {alternatives(places)}?" if places else ""


def _members(schema: Any) -> Mapping[str, Any]:
    members = schema.get("properties") if isinstance(schema, dict) else None
    return members if isinstance(members, dict) else {}
