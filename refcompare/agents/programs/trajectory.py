"""What an agent did, whatever agent it was: the one shape that checks are run on."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from refcompare.results import JSON


class Ending(StrEnum):
    """How a trial's agent ended. Only ``done`` and the limits are the agent's own doing."""

    DONE = "done"
    TURNS = "turns"
    TIME = "time"
    MONEY = "money"
    API_ERROR = "api_error"
    CRASH = "crash"


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call as recorded: its name and input, what came back, and when.

    ``output`` is what the tool really returned to the model, decoded with replacement;
    ``seconds`` counts from the start of the agent, ``duration`` is None where it is unknown.
    ``exit_code`` is that of the command that the call ran, None where it ran none or none is known.
    """

    name: str
    input: JSON
    output: str
    is_error: bool = False
    seconds: float | None = None
    duration: float | None = None
    id: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class FileRead:
    """Contents of a file that came back from a tool: ``path`` relative to the workspace, the bytes
    that the model was given, and the index of the call in ``Trajectory.calls``."""

    path: str
    content: str
    call: int


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the API counted them; None where it said nothing."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    requests: int | None = None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One agent's run. ``cost`` is in US dollars and never invented: unknown is None."""

    agent: str
    calls: tuple[Call, ...] = ()
    skills: tuple[str, ...] = ()
    reads: tuple[FileRead, ...] = ()
    final_message: str = ""
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    ending: Ending = Ending.DONE
    error: str | None = None
    model: str | None = None
    seconds: float | None = None
