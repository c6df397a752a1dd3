"""What a scripted model says, turn by turn, and how that is written in YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml

from refcompare.agents.model.wire import Api, RequestFacts, Tokens
from refcompare.errors import UsageError
from refcompare.results import JSON

DEFAULT_TOKENS = Tokens(input=100, output=20)


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool call: what to call it, and its input, in each wire format; None leaves it out there.

    In OpenAI's format, an input that is text calls a custom tool, any other a function.
    """

    anthropic: tuple[str, JSON] | None = None
    openai: tuple[str, JSON] | None = None


@dataclass(frozen=True, slots=True)
class ScriptedError:
    """A failed request: its status, type and message; ``times`` is how often, None for always."""

    status: int
    kind: str
    message: str
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model does once: ``text``, then ``calls``. ``delay`` is in seconds, before it starts.

    ``error`` comes first, as often as it says. ``cut`` ends the connection before the turn is over.
    """

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    tokens: Tokens = DEFAULT_TOKENS
    delay: float = 0.0
    error: ScriptedError | None = None
    cut: bool = False


class Model(Protocol):
    """Decides on a turn from a request alone."""

    def turn(self, request: Mapping[str, Any], facts: RequestFacts, number: int) -> Turn | None:
        """Give turn ``number`` (from 0) of the conversation that ``request`` holds; None at its end."""


@dataclass(frozen=True, slots=True)
class Script:
    """Turns in their order. ``aside`` answers requests that offer no tools, such as for a title."""

    turns: tuple[Turn, ...]
    aside: Turn = field(default_factory=lambda: Turn("Noted."))

    def turn(self, request: Mapping[str, Any], facts: RequestFacts, number: int) -> Turn | None:
        """Give the turn of that number."""
        if not facts.has_tools:
            return self.aside
        return self.turns[number] if number < len(self.turns) else None


def read_script(path: Path) -> Script:
    """Read a script from YAML. Raises UsageError for a file that cannot be read or is none."""
    try:
        raw = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"The script {path} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"The script {path} is no YAML: {' '.join(str(error).split())}.") from error
    return parse_script(raw, str(path))


def parse_script(raw: object, where: str = "the script") -> Script:
    """Give the script that ``{turns: […], aside: …}`` means. Raises UsageError that says which turn is wrong.

    A turn is ``{text, calls: [{name, input} or {anthropic: {name, input}, openai: {name, input}}],
    usage: {input, output, cache_read, cache_write}, delay, error: {status, type, message, times}, cut}``,
    all of it optional.
    """
    if not isinstance(raw, dict) or not isinstance(raw.get("turns"), list):
        raise UsageError(f"{where} has no list of turns; give `turns: [{{text: …}}, …]`.")
    unknown = set(raw) - {"turns", "aside"}
    if unknown:
        raise UsageError(
            f"{where} says {sorted(map(str, unknown))[0]!r}, which is nothing that a script says."
        )
    turns = tuple(_turn(turn, f"{where}, turn {number}") for number, turn in enumerate(raw["turns"], 1))
    if "aside" in raw:
        return Script(turns, _turn(raw["aside"], f"{where}, aside"))
    return Script(turns)


def _turn(raw: object, where: str) -> Turn:
    fields = _fields(raw, where, {"text": str, "calls": list, "usage": dict, "error": dict, "cut": bool})
    delay = fields.pop("delay", 0)
    if not isinstance(delay, int | float) or not 0 <= delay <= 3600:
        raise UsageError(f"{where}: `delay` must be seconds.")
    error = None
    if "error" in fields:
        said = _fields(fields["error"], where, {"status": int, "type": str, "message": str, "times": int})
        error = ScriptedError(
            said.get("status", 500), said.get("type", "api_error"), said.get("message", ""), said.get("times")
        )
        if not 400 <= error.status <= 599:
            raise UsageError(f"{where}: the status of an error is from 400 to 599.")
    tokens = DEFAULT_TOKENS
    if "usage" in fields:
        names = ("input", "output", "cache_read", "cache_write", "cache_write_long")
        tokens = Tokens(**_fields(fields["usage"], where, dict.fromkeys(names, int)))
    calls = tuple(_call(call, where) for call in fields.get("calls", []))
    return Turn(fields.get("text", ""), calls, tokens, float(delay), error, fields.get("cut", False))


def _call(raw: object, where: str) -> ScriptedCall:
    if isinstance(raw, dict) and "name" in raw:
        both = _named(raw, where)
        return ScriptedCall(both, both)
    fields = _fields(raw, where, {"anthropic": dict, "openai": dict})
    return ScriptedCall(*(_named(fields[api], where) if api in fields else None for api in Api))


def _named(raw: Mapping[str, Any], where: str) -> tuple[str, JSON]:
    if not isinstance(raw.get("name"), str) or not set(raw) <= {"name", "input"}:
        raise UsageError(f"{where}: a call is `{{name: …, input: …}}`.")
    return raw["name"], raw.get("input", {})


def _fields(raw: object, where: str, kinds: Mapping[str, type]) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise UsageError(f"{where} is not a mapping.")
    for name, value in raw.items():
        if name == "delay":
            continue
        if name not in kinds:
            raise UsageError(f"{where} says {str(name)!r}; known here: {', '.join(sorted(kinds))}.")
        if not isinstance(value, kinds[name]):
            raise UsageError(f"{where}: `{name}` must be a {kinds[name].__name__}.")
    return dict(raw)
