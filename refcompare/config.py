"""Reads ``refcompare.yml``: a small, closed vocabulary, each error with its line and its mend."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from typing import Any, Literal

import jsonschema
import yaml

from refcompare.changes import ChangeKind
from refcompare.errors import UsageError
from refcompare.execution.model import Limits
from refcompare.gate import DEFAULT_FAIL_ON, parse_fail_on
from refcompare.resources import schema_directory
from refcompare.suites import DEFAULT_GLOBS
from refcompare.wording import did_you_mean, kind, printable, quoted

CONFIG_NAME = "refcompare.yml"
"""The file's name at the root of a tree."""

LARGEST_CONFIG = 64 * 1024
"""Bytes above which a configuration is refused."""

_DEEPEST = 8
_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3}
_PLAIN_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str")}

# 7.10 is a version, not the number 7.1, so these keep the text as it was typed.
_AS_TYPED = frozenset({("wordpress",)})

Runtime = Literal["auto", "native", "docker"]


@dataclass(frozen=True, slots=True)
class AuditConfig:
    """How tests are searched for cheats. ``mutants`` caps those of one reference; ``seed`` picks them."""

    enabled: bool = True
    exhaustive: bool = False
    mutants: int = 20
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Config:
    """What a repository says of its comparisons; every default is what an absent file means.

    ``confirm`` counts reruns before a change is reported. ``jobs`` is None for one per processor.
    ``wordpress`` is a version, ``nightly`` or a path as typed, None for the release that
    refcompare pins. The text comes from the tree under test, so none of it is to be trusted.
    """

    suites: tuple[str, ...] = DEFAULT_GLOBS
    fail_on: frozenset[ChangeKind] = DEFAULT_FAIL_ON
    confirm: int = 3
    jobs: int | None = None
    limits: Limits = field(default_factory=Limits)
    wordpress: str | None = None
    runtime: Runtime = "auto"
    audit: AuditConfig = field(default_factory=AuditConfig)


def load_config(text: bytes, path: str) -> Config:
    """Read a configuration. ``path`` is only for messages.

    Raises UsageError with one line for each error, ``PATH:LINE: what is so; what mends it.``
    """
    shown = printable(path)
    try:
        document = _Document.parse(text)
        faults = sorted(set(document.faults()))
    except _Refused as refused:
        faults = [(refused.line, refused.sentence)]
    if faults:
        raise UsageError("\n".join(f"{shown}:{line}: {sentence}" for line, sentence in faults))
    return _config(document.value)


def _config(value: Mapping[str, Any]) -> Config:
    default, limits = Config(), value.get("limits") or {}
    audit = value.get("audit") or {}
    jobs, kinds = value.get("jobs", "auto"), value.get("fail_on")
    return Config(
        suites=tuple(value.get("suites", default.suites)),
        fail_on=default.fail_on if kinds is None else _kinds(kinds),
        confirm=int(value.get("confirm", default.confirm)),
        jobs=None if jobs == "auto" else int(jobs),
        limits=Limits(
            seconds=float(limits.get("seconds", default.limits.seconds)),
            memory=_size(limits.get("memory", default.limits.memory)),
        ),
        wordpress=value.get("wordpress"),
        runtime=value.get("runtime", default.runtime),
        audit=AuditConfig(
            enabled=audit.get("enabled", default.audit.enabled),
            exhaustive=audit.get("exhaustive", default.audit.exhaustive),
            mutants=int(audit.get("mutants", default.audit.mutants)),
            seed=int(audit.get("seed", default.audit.seed)),
        ),
    )


def _kinds(value: str | list[str]) -> frozenset[ChangeKind]:
    return parse_fail_on(value if isinstance(value, str) else ",".join(value))


def _size(value: int | str) -> int:
    if isinstance(value, int):
        return value
    number = value.rstrip("iB")
    return int(number[:-1]) * _UNITS[number[-1]]


class _Refused(Exception):
    """Raised inside this module for text that is not a configuration at all."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(sentence)
        self.line = line
        self.sentence = sentence


_Path = tuple[str | int, ...]


class _Document:
    """A parsed file: its plain value and the line on which each part of it stands."""

    def __init__(self) -> None:
        self.value: dict[str, Any] = {}
        self.lines: dict[_Path, int] = {(): 1}

    @classmethod
    def parse(cls, data: bytes) -> _Document:
        if len(data) > LARGEST_CONFIG:
            raise _Refused(1, f"the file has {len(data):,} bytes; keep it under {LARGEST_CONFIG:,}.")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise _Refused(line, "the file is not UTF-8; save it as UTF-8.") from None
        document = cls()
        try:
            _refuse_bombs(text)
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            what = error.problem or error.context or "cannot be parsed"
            raise _Refused(mark.line + 1 if mark else 1, f"not YAML: {printable(what)}.") from None
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise _Refused(line, "the file holds a control character; remove it.") from None
        value = None if root is None else document._plain(root, ())
        if value is not None and not isinstance(value, dict):
            raise _Refused(document.lines[()], f"the file is {kind(value)}; make it a mapping of keys.")
        document.value = value or {}
        return document

    def _plain(self, node: yaml.Node, path: _Path) -> Any:
        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        return node.value if path in _AS_TYPED and node.value else _scalar(node)

    def _mapping(self, node: yaml.MappingNode, path: _Path) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise _Refused(line, "a key is a list or a mapping; make it a word.")
            key = key_node.value
            if key in members:
                first = self.lines[(*path, key)]
                raise _Refused(line, f"{quoted(key)} is already set in line {first}; keep one of the two.")
            self.lines[(*path, key)] = line
            members[key] = self._plain(value_node, (*path, key))
        return members

    def faults(self) -> Iterator[tuple[int, str]]:
        """Give each violation of the published schema as a line and a sentence."""
        for error in _validator().iter_errors(self.value):
            path: _Path = tuple(error.absolute_path)
            if error.validator == "additionalProperties":
                known = error.schema["properties"]
                for key in error.instance.keys() - known.keys():
                    hint = did_you_mean(key, known) or f"the keys are {', '.join(sorted(known))}."
                    yield self.lines[(*path, key)], f"unknown key {quoted(_dotted((*path, key)))}; {hint}"
            else:
                yield from self._fault(path, error)
        yield from self._memory_fault()

    def _fault(self, path: _Path, error: jsonschema.ValidationError) -> Iterator[tuple[int, str]]:
        nested = [inner for inner in error.context or () if tuple(inner.absolute_path) != path]
        if nested:  # the right alternative was meant, and one of its items is wrong
            for inner in nested:
                yield from self._fault(tuple(inner.absolute_path), inner)
            return
        schema: Mapping[str, Any] = error.schema  # type: ignore[assignment]
        found, mend = error.instance, f"make it {schema['title']}."
        if isinstance(found, str):
            words = (word for word in schema.get("enum", ()) if " " not in word)
            mend = did_you_mean(found, words) or mend
        shown = kind(found)
        if isinstance(found, str):
            shown = quoted(found)
        elif isinstance(found, int | float) and not isinstance(found, bool):
            shown = f"{found}"
        yield self.lines[path], f"{_dotted(path)} is {shown}; {mend}"

    def _memory_fault(self) -> Iterator[tuple[int, str]]:
        """Hold a size with a unit to the bounds that the schema can only state for plain bytes."""
        limits = self.value.get("limits")
        memory = limits.get("memory") if isinstance(limits, dict) else None
        schema = _schema()["properties"]["limits"]["properties"]["memory"]
        pattern = {"type": "string", "pattern": schema["anyOf"][1]["pattern"]}
        if isinstance(memory, str) and jsonschema.Draft202012Validator(pattern).is_valid(memory):
            bounds = schema["anyOf"][0]
            if not bounds["minimum"] <= _size(memory) <= bounds["maximum"]:
                sentence = f"limits.memory is {quoted(memory)}; make it {schema['title']}."
                yield self.lines[("limits", "memory")], sentence


def _refuse_bombs(text: str) -> None:
    """Refuse what makes YAML more than a small tree of words, before any of it is built."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _Refused(line, "anchors and aliases are not taken; write the value out.")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise _Refused(line, f"the tag {quoted(str(tag))} is not taken; remove it.")
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise _Refused(line, "a second document starts here; keep one.")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise _Refused(line, f"nested deeper than {_DEEPEST} levels; no key needs that.")


def _scalar(node: yaml.Node) -> Any:
    """Give a scalar's value if it is one that JSON has too, and otherwise its text."""
    if node.tag not in _PLAIN_TAGS:
        return node.value
    try:
        value = yaml.constructor.SafeConstructor().construct_object(node)
    except (ValueError, KeyError):
        return node.value
    return node.value if isinstance(value, float) and not isfinite(value) else value


def _dotted(path: _Path) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


@cache
def _schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((schema_directory() / "config.schema.json").read_bytes())
    return schema


@cache
def _validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(_schema())
