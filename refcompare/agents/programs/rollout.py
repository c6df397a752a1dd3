"""Codex's own account of a run, as it writes it line by line: calls, their outputs, what commands ran.

It lies where the agent's commands can write, so it counts as far as the gateway saw the same: see
`witness`. In code mode the model writes a program that calls tools; those calls stand only here, and
their output counts as far as it is in what the model was given of that program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from refcompare.agents.model.gateway import GatewayHandle
from refcompare.agents.programs.trajectory import Call
from refcompare.agents.programs.witness import witnessed
from refcompare.results import JSON

_ERROR = re.compile(r" ERROR \S*tools::router: error=(.*)")
_ESCAPES = {"\\n": "\n", "\\t": "\t", '\\"': '"', "\\\\": "\\", "\\r": "\r"}
_ESCAPE = re.compile(r'\\[nt"\\r]')
_OUTPUTS_AFTER = 5
"""In how many outputs after a nested call its own may be, since a program may be waited for."""

_MOST_ENTRIES = 200_000


@dataclass(slots=True)
class _Told:
    """One call that is told of; ``item`` is what happened, where Codex tells that too."""

    name: str
    input: JSON
    seconds: float | None
    place: int
    nested: bool = False
    output: str = ""
    ended: float | None = None
    item: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Rollout:
    """All that is told of one run, of its sub-agents too."""

    told: dict[str, _Told] = field(default_factory=dict)
    errors: frozenset[str] = frozenset()

    def calls(self, gateway: GatewayHandle | None) -> tuple[Call, ...]:
        """Give the calls as they count: those that the gateway saw, and those nested in them, in order."""
        own = {name: told for name, told in self.told.items() if not told.nested}
        kept = {call.id: call for call in witnessed([self._call(*pair) for pair in own.items()], gateway)}
        places = sorted((self.told[name].place, call.output) for name, call in kept.items())
        found: list[tuple[int, Call]] = [(self.told[name].place, call) for name, call in kept.items()]
        for name, told in self.told.items():
            if told.nested:
                before = [place for place, _ in places if place < told.place]
                after = [output for place, output in places if before and place >= before[-1]]
                if after:
                    seen = "\n".join(after[:_OUTPUTS_AFTER])
                    found.append((told.place, _given(self._call(name, told), seen)))
        return tuple(call for _, call in sorted(found, key=lambda pair: pair[0]))

    def _call(self, identifier: str, told: _Told) -> Call:
        code = told.item.get("exit_code")
        exit_code = code if isinstance(code, int) and code >= 0 else None
        failed = told.output.strip() in self.errors or told.item.get("status") == "failed"
        duration = None
        if told.seconds is not None and told.ended is not None:
            duration = max(told.ended - told.seconds, 0.0)
        return Call(
            name=told.name,
            input=told.input,
            output=told.output,
            is_error=failed or exit_code not in (0, None),
            seconds=told.seconds,
            duration=duration,
            id=identifier,
            exit_code=exit_code,
        )


def _given(call: Call, seen: str) -> Call:
    """Leave of a nested call's output the lines that the model was given."""
    plain = _ESCAPE.sub(lambda found: _ESCAPES[found[0]], seen)
    lines = [line for line in call.output.splitlines() if line in seen or line in plain]
    return replace(call, output="\n".join(lines))


def read_rollouts(files: Sequence[bytes], errors: str = "") -> Rollout:
    """Read rollout files, the program's own and its sub-agents', as the hostile input that they are.

    ``errors`` is what it wrote to its standard error: there it tells which calls its tools refused.
    """
    rollout = Rollout(errors=frozenset(found[1].strip() for found in _ERROR.finditer(errors)))
    entries = sorted(_entries(files), key=lambda entry: entry[0])
    start = entries[0][0] if entries else 0.0
    for place, (moment, kind, payload) in enumerate(entries[:_MOST_ENTRIES]):
        seconds = moment - start
        if kind == "response_item":
            _response_item(rollout, payload, seconds, place)
        elif payload.get("type") == "item_completed" and isinstance(payload.get("item"), dict):
            _item(rollout, payload["item"], seconds, place)
    return rollout


def _entries(files: Iterable[bytes]) -> Iterator[tuple[float, str, dict[str, Any]]]:
    for data in files:
        for line in data.split(b"\n"):
            try:
                entry = json.loads(line)
                moment = datetime.fromisoformat(entry["timestamp"]).timestamp()
            except (ValueError, LookupError, TypeError, RecursionError, OverflowError):
                continue
            kind, payload = entry.get("type"), entry.get("payload")
            if kind in ("response_item", "event_msg") and isinstance(payload, dict):
                yield moment, kind, payload


def _response_item(rollout: Rollout, payload: Mapping[str, Any], seconds: float, place: int) -> None:
    kind, identifier = str(payload.get("type")), str(payload.get("call_id"))
    if kind.endswith("_call") and "call_id" in payload:
        arguments = payload.get("arguments")
        given: JSON = payload.get("input", payload.get("action"))
        if isinstance(arguments, str):
            given = _parsed(arguments)
        known = rollout.told.get(identifier)
        if known is None:
            name = str(payload.get("name") or kind.removesuffix("_call"))
            rollout.told[identifier] = _Told(name, given, seconds, place)
    elif kind.endswith("_output") and identifier in rollout.told:
        told = rollout.told[identifier]
        if told.ended is None:
            told.output, told.ended = _text(payload.get("output")), seconds


def _item(rollout: Rollout, item: Mapping[str, Any], seconds: float, place: int) -> None:
    identifier, kind = str(item.get("id")), item.get("type")
    if kind not in ("CommandExecution", "FileChange"):
        return
    if identifier in rollout.told:
        rollout.told[identifier].item = item
        return
    command = item.get("command")
    if kind == "CommandExecution" and isinstance(command, list) and command:
        given: JSON = {"cmd": str(command[-1])}
        told = _Told("exec_command", given, seconds, place, nested=True, item=item)
        told.output = str(item.get("aggregated_output", ""))
    elif kind == "FileChange" and isinstance(item.get("changes"), dict):
        changes: JSON = {str(path): change for path, change in item["changes"].items()}
        told = _Told("apply_patch", changes, seconds, place, nested=True, item=item)
        told.output = str(item.get("stdout", ""))
    else:
        return
    told.ended = seconds
    rollout.told[identifier] = told


def _text(output: object) -> str:
    if isinstance(output, str):
        return output
    parts = output if isinstance(output, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _parsed(text: str) -> JSON:
    try:
        parsed: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return parsed
