"""Reads ``refcompare.yml``: a small, closed vocabulary, each error with its line and its mend."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import jsonschema

from refcompare.changes import ChangeKind
from refcompare.errors import UsageError
from refcompare.execution.model import Limits
from refcompare.gate import DEFAULT_FAIL_ON, parse_fail_on
from refcompare.resources import schema_directory
from refcompare.suites import DEFAULT_GLOBS
from refcompare.wording import printable, quoted
from refcompare.yaml_document import Document, Refused

CONFIG_NAME = "refcompare.yml"
"""The file's name at the root of a tree."""

LARGEST_CONFIG = 64 * 1024
"""Bytes above which a configuration is refused."""

_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3}

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
class CheckConfig:
    """How ``refcompare check`` judges: the names of rules that it does not ask."""

    ignore: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Config:
    """What a repository says of its comparisons; every default is what an absent file means.

    ``confirm`` counts reruns before a change is reported. ``jobs`` is None for one per processor.
    ``wordpress`` is a version, ``nightly`` or a path as typed, None for the release that
    refcompare pins. ``eval_command`` is the repository's own harness for agent evals, a shell command
    that writes to ``{output}``. The text comes from the tree under test, so none of it is to be trusted.
    """

    suites: tuple[str, ...] = DEFAULT_GLOBS
    fail_on: frozenset[ChangeKind] = DEFAULT_FAIL_ON
    confirm: int = 3
    jobs: int | None = None
    limits: Limits = field(default_factory=Limits)
    wordpress: str | None = None
    runtime: Runtime = "auto"
    audit: AuditConfig = field(default_factory=AuditConfig)
    check: CheckConfig = field(default_factory=CheckConfig)
    eval_command: str | None = None


def load_config(text: bytes, path: str) -> Config:
    """Read a configuration. ``path`` is only for messages.

    Raises UsageError with one line for each error, ``PATH:LINE: what is so; what mends it.``
    """
    shown = printable(path)
    try:
        document = Document.parse(text, largest=LARGEST_CONFIG, as_typed=_AS_TYPED.__contains__)
        faults = sorted({*document.faults(_validator()), *_memory_fault(document)})
    except Refused as refused:
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
        eval_command=value.get("eval_command"),
        runtime=value.get("runtime", default.runtime),
        check=CheckConfig(ignore=frozenset((value.get("check") or {}).get("ignore", ()))),
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


def _memory_fault(document: Document) -> Iterator[tuple[int, str]]:
    """Hold a size with a unit to the bounds that the schema can only state for plain bytes."""
    limits = document.value.get("limits")
    memory = limits.get("memory") if isinstance(limits, dict) else None
    schema = _schema()["properties"]["limits"]["properties"]["memory"]
    pattern = {"type": "string", "pattern": schema["anyOf"][1]["pattern"]}
    if isinstance(memory, str) and jsonschema.Draft202012Validator(pattern).is_valid(memory):
        bounds = schema["anyOf"][0]
        if not bounds["minimum"] <= _size(memory) <= bounds["maximum"]:
            sentence = f"limits.memory is {quoted(memory)}; make it {schema['title']}."
            yield document.lines[("limits", "memory")], sentence


@cache
def _schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((schema_directory() / "config.schema.json").read_bytes())
    return schema


@cache
def _validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(_schema())
