"""A trajectory as JSON Lines: what a program of one's own writes, and what is stored to be replayed.

Each line is an object with a ``type``. In the order in which things happened:

- ``{"type": "call", "name": "Bash", "input": {"command": "ls"}, "output": "README.md", "id": "1"}``, and
  where they are known ``is_error`` (true where the tool failed), ``exit_code``, ``seconds`` (since the
  start) and ``duration``. ``output`` is what the model was given, all of it.
- ``{"type": "read", "path": "AGENTS.md", "content": "…"}``: contents of a file of the workspace that the
  last call brought back. Shell commands that print files need no such line.
- ``{"type": "skill", "name": "release-notes"}``: a skill was loaded.
- ``{"type": "message", "text": "…"}``: the agent said so; the last is its final message.
- ``{"type": "usage", "input_tokens": 10, "output_tokens": 2, "cache_read_tokens": 0, "cache_write_tokens": 0,
  "requests": 1, "cost": 0.01, "model": "…"}``, all optional, with US dollars for ``cost``; where the gateway
  counted, its count holds.
- ``{"type": "end", "reason": "done"}``, or ``turns``, ``time``, ``money``, ``api_error`` or ``crash``, with
  an ``error`` that says why.

Lines of another type are left for later versions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from refcompare.agents.programs.trajectory import Call, Ending, FileRead, Trajectory, Usage

MOST_LINES = 200_000
_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "requests")


@dataclass(slots=True)
class Account:
    """What the lines say, as far as they say it."""

    calls: list[Call] = field(default_factory=list)
    reads: list[FileRead] = field(default_factory=list)
    skills: list[str] = field(default_factory=list)
    final_message: str = ""
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    model: str | None = None
    ending: Ending | None = None
    error: str | None = None


def read_lines(data: bytes) -> Account:
    """Read an account. Raises ValueError that names the first line that is wrong, and what is."""
    account = Account()
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        if number > MOST_LINES:
            raise ValueError(f"it has more than {MOST_LINES:,} lines")
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {number} is not JSON ({error})") from None
        try:
            _take(account, value)
        except (TypeError, LookupError, ValueError) as error:
            raise ValueError(f"line {number} is not as documented: {error}") from None
    return account


def _take(account: Account, value: Any) -> None:
    if not isinstance(value, dict):
        raise TypeError("it is no object")
    match value.get("type"):
        case "call":
            account.calls.append(_call(value, len(account.calls) + 1))
        case "read":
            if not account.calls:
                raise ValueError("a read belongs to a call before it")
            text = FileRead(_text(value, "path"), _text(value, "content"), len(account.calls) - 1)
            account.reads.append(text)
        case "skill":
            account.skills.append(_text(value, "name"))
        case "message":
            account.final_message = _text(value, "text")
        case "usage":
            account.usage = Usage(**{name: _count(value, name) for name in _COUNTS})
            account.cost = _number(value, "cost")
            account.model = _text(value, "model") if "model" in value else None
        case "end":
            account.ending = Ending(_text(value, "reason"))
            account.error = _text(value, "error") if value.get("error") is not None else None


def _call(value: Mapping[str, Any], number: int) -> Call:
    code = value.get("exit_code")
    if code is not None and not (isinstance(code, int) and not isinstance(code, bool)):
        raise TypeError("exit_code is no integer")
    return Call(
        name=_text(value, "name"),
        input=value.get("input"),
        output=_text(value, "output") if "output" in value else "",
        is_error=value.get("is_error") is True,
        seconds=_number(value, "seconds"),
        duration=_number(value, "duration"),
        id=str(value.get("id") or number),
        exit_code=code,
    )


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    if not isinstance(text, str):
        raise TypeError(f"{name} is no text")
    return text


def _count(value: Mapping[str, Any], name: str) -> int | None:
    number = value.get(name)
    if number is not None and not (isinstance(number, int) and not isinstance(number, bool) and number >= 0):
        raise TypeError(f"{name} is no count")
    return number


def _number(value: Mapping[str, Any], name: str) -> float | None:
    number = value.get(name)
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < float("inf"):
        raise TypeError(f"{name} is no number from 0")
    return float(number)


def write_lines(trajectory: Trajectory) -> str:
    """Give a trajectory in this form. Reading it gives the same again, but for the agent's name and time."""
    lines: list[dict[str, Any]] = []
    for index, call in enumerate(trajectory.calls):
        told = {name: value for name, value in asdict(call).items() if value is not None}
        lines.append({"type": "call", **told})
        for read in trajectory.reads:
            if read.call == index:
                lines.append({"type": "read", "path": read.path, "content": read.content})
    lines += [{"type": "skill", "name": name} for name in trajectory.skills]
    lines.append({"type": "message", "text": trajectory.final_message})
    used = {"cost": trajectory.cost, "model": trajectory.model, **asdict(trajectory.usage)}
    lines.append({"type": "usage", **{name: value for name, value in used.items() if value is not None}})
    lines.append({"type": "end", "reason": trajectory.ending.value, "error": trajectory.error})
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
