"""A trial's conversation with its model, kept in a file and played again without the model.

A cassette is JSON Lines: a header, then one exchange a line. A request is not kept but told by what
stays the same from run to run: its path, how many turns the model has had in its conversation, and
whether tools were offered (a CLI asks for titles and summaries without them). Its digest tells
apart requests that agree in that. Headers, keys and known secrets are not kept.

What a model said is played again; the agent's own program runs anew, and so do its tools.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from refcompare.agents.programs.redaction import Redactor
from refcompare.errors import EnvironmentFailure, UsageError

FORMAT = "refcompare-cassette"
VERSION = 1

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request, told by its path, turn and digest, and the whole body of the response to it."""

    path: str
    answered: int
    has_tools: bool
    digest: str
    status: int
    content_type: str
    body: str

    @property
    def place(self) -> tuple[str, int, bool]:
        """What a request of another run must share to get this response."""
        return self.path, self.answered, self.has_tools


def digest_of(body: bytes) -> str:
    """Give what tells a request's body from others."""
    return hashlib.sha256(body).hexdigest()[:32]


class Recorder:
    """Writes a cassette as the conversation goes on; every line is on disk once it is there.

    Raises EnvironmentFailure where the file cannot be written.
    """

    def __init__(self, path: Path, redactor: Redactor) -> None:
        self._path = path
        self._redactor = redactor
        self._lock = threading.Lock()
        self._write("w", {"format": FORMAT, "version": VERSION})

    def keep(self, exchange: Exchange) -> None:
        """Add an exchange, without the secrets that are known."""
        body = exchange.body
        if exchange.content_type == "text/event-stream":
            body = _joined(body)
        fields = asdict(exchange) | {"body": self._redactor.text(body)}
        with self._lock:
            self._write("a", fields)

    def _write(self, mode: str, value: dict[str, Any]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open(mode, encoding="utf-8") as file:
                file.write(json.dumps(value, ensure_ascii=False) + "\n")
        except OSError as error:
            raise EnvironmentFailure(
                f"The cassette {self._path} cannot be written ({error.strerror}): choose another place."
            ) from error


@dataclass(frozen=True, slots=True)
class Conversation:
    """Which conversation of a run: on which arm, about which case, and ``name`` within that."""

    arm: str
    case: str
    name: str


@dataclass(frozen=True, slots=True)
class Cassettes:
    """A directory with a cassette for each conversation of a run: they are recorded, or ``played`` again."""

    directory: Path
    played: bool = False

    def path(self, conversation: Conversation) -> Path:
        """Give where the cassette of a conversation lies. A case may be called anything."""
        case = conversation.case
        plain = _NO_NAME.sub("-", case)[:_LONGEST_NAME].strip("-.")
        if plain != case:
            plain = f"{plain}-{digest_of(case.encode('utf-8', 'surrogatepass'))[:8]}"
        return self.directory / conversation.arm / plain / f"{conversation.name}.jsonl"

    def open(self, conversation: Conversation) -> tuple[Recorder | None, Player | None]:
        """Give what keeps a conversation, or what plays it.

        Raises EnvironmentFailure where it cannot be kept, and UsageError where there is none to play.
        """
        path = self.path(conversation)
        if self.played:
            return None, read_cassette(path)
        return Recorder(path, Redactor.from_environment()), None


class Player:
    """Answers requests from what was recorded. Thread-safe.

    Of the exchanges at a request's place, the one of the very same request is taken; else the
    first that no other request has taken. A request that is made again gets its answer again.
    """

    def __init__(self, exchanges: Iterable[Exchange]) -> None:
        self._left: dict[tuple[str, int, bool], list[Exchange]] = {}
        for exchange in exchanges:
            self._left.setdefault(exchange.place, []).append(exchange)
        self._given: dict[tuple[tuple[str, int, bool], str], Exchange] = {}
        self._lock = threading.Lock()

    def answer(self, path: str, answered: int, has_tools: bool, body: bytes) -> Exchange | None:
        """Give the response to a request, or None where the cassette has none (left)."""
        place, digest = (path, answered, has_tools), digest_of(body)
        with self._lock:
            known = self._given.get((place, digest))
            if known is not None and known.status < 400:
                return known
            left = self._left.get(place, [])
            same = [exchange for exchange in left if exchange.digest == digest]
            if not left:
                return known
            chosen = (same or left)[0]
            left.remove(chosen)
            self._given[place, digest] = chosen
            return chosen


def read_cassette(path: Path) -> Player:
    """Read a cassette. Raises UsageError for a file that cannot be read or is none, with its line."""
    try:
        # Not splitlines(): a response may hold other characters that end a line.
        lines = path.read_text("utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The cassette {path} cannot be read: {error}.") from error
    exchanges = []
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
            if number == 1:
                _check_header(value)
            else:
                exchanges.append(_exchange(value))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise UsageError(
                f"{path}:{number} is not a line of a cassette of version {VERSION} ({error}): record it anew."
            ) from error
    return Player(exchanges)


def _joined(stream: str) -> str:
    """Join the pieces in which a text was streamed, so that no secret hides between two of them."""
    events: list[tuple[str, Any]] = []
    place: tuple[object, ...] | None = None
    for block in stream.replace("\r\n", "\n").split("\n\n"):
        data = "\n".join(line[5:].lstrip(" ") for line in block.split("\n") if line.startswith("data:"))
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            event = None
        last, (place, text) = place, _piece(event)
        if place is not None and place == last:
            _, grown = events[-1]
            _piece(grown, add=text)
        elif block.strip():
            events.append((block, event))
    return "".join(f"{_written(block, event)}\n\n" for block, event in events)


def _written(block: str, event: Any) -> str:
    if not isinstance(event, dict) or "type" not in event:
        return block
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}"


def _piece(event: Any, add: str = "") -> tuple[tuple[object, ...] | None, str]:
    """Give where in a response a piece of text belongs, and the text, with ``add`` put after it."""
    if not isinstance(event, dict):
        return None, ""
    holder = event.get("delta")
    if isinstance(holder, str):
        holder = event
    for name in ("text", "partial_json", "thinking") if holder is not event else ("delta",):
        if isinstance(holder, dict) and isinstance(holder.get(name), str):
            holder[name] += add
            where = [event.get(key) for key in ("type", "index", "item_id", "output_index", "content_index")]
            return (*map(str, where), name), holder[name]
    return None, ""


def _check_header(value: Any) -> None:
    if not isinstance(value, dict) or (value.get("format"), value.get("version")) != (FORMAT, VERSION):
        raise ValueError("its first line does not say what it is")


def _exchange(value: Any) -> Exchange:
    exchange = Exchange(**value)
    for name, kind in (
        ("path", str), ("answered", int), ("has_tools", bool), ("digest", str), ("status", int),
        ("content_type", str), ("body", str),
    ):  # fmt: skip
        if not isinstance(getattr(exchange, name), kind):
            raise TypeError(f"{name} is not of its type")
    if not 200 <= exchange.status <= 599:
        raise ValueError("its status is none")
    return exchange
