"""What every agent answers: a task in, a trajectory out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from refcompare.agents.model.wire import Api
from refcompare.agents.programs.trajectory import Trajectory
from refcompare.agents.sandbox.boundary import Boundary
from refcompare.errors import UsageError

if TYPE_CHECKING:
    from refcompare.agents.model.gateway import GatewayHandle


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """How long an agent may work: seconds, model turns, US dollars; None for no limit.

    The gateway enforces the dollars, and the turns of agents that cannot count them.
    """

    seconds: float = 900.0
    turns: int | None = None
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """What an agent is asked to do, and where.

    ``workspace`` is the host's path of this trial's own clone. ``model`` is the vendor's name of a
    model, None for the agent's own choice. ``variables`` are those of the eval's matrix; the prompt
    already has them in. ``read_only`` asks for a workspace that nothing can change.
    """

    prompt: str
    workspace: Path
    limits: AgentLimits = field(default_factory=AgentLimits)
    model: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    read_only: bool = False


class Agent(Protocol):
    """A coding agent. One object runs any number of tasks, also at the same time."""

    @property
    def name(self) -> str:
        """What it is called in results."""

    @property
    def api(self) -> Api | None:
        """The wire format in which it talks to its model, None for one that needs no gateway."""

    def prepare(self) -> None:
        """Have at hand what a run takes, such as the agent's program. Called before any trial starts.

        Raises EnvironmentFailure or UsageError with one sentence about what is missing.
        """

    def run(self, task: Task, boundary: Boundary, gateway: GatewayHandle | None) -> Trajectory:
        """Let the agent work on a task, behind ``boundary``, and give what it did.

        Whatever the agent does ends in a trajectory: a limit, a crash and a failing API are its
        ``ending``. Raises EnvironmentFailure where the agent cannot be started at all.
        """


def make_agent(spec: str) -> Agent:
    """Give the agent that a spec names.

    ``claude`` and ``codex``, also of one version (``claude@2.1.332``); ``command:PROGRAM …``, which asks
    no model, and ``command@anthropic:PROGRAM …`` or ``command@openai:PROGRAM …``, which does;
    ``scripted``, a stand-in that follows guidance without a model, and ``scripted:FILE``, which follows a
    script; ``replay:FILE``. Raises UsageError for any other.
    """
    # All of them import this module.
    from refcompare.agents.model.script import read_script
    from refcompare.agents.programs.claude import ClaudeAgent
    from refcompare.agents.programs.codex import CodexAgent
    from refcompare.agents.programs.command import parse_command
    from refcompare.agents.programs.npm import check_version
    from refcompare.agents.programs.replay import ReplayAgent
    from refcompare.agents.programs.standin import StandInAgent

    kind, colon, rest = spec.strip().partition(":")
    name, at, variant = kind.partition("@")
    if not colon and name == "claude":
        return ClaudeAgent(check_version(variant)) if at else ClaudeAgent()
    if not colon and name == "codex":
        return CodexAgent(check_version(variant)) if at else CodexAgent()
    if kind == "scripted":
        return StandInAgent(read_script(Path(rest.strip()))) if colon else StandInAgent()
    if colon and name == "command" and variant in ("", *Api):
        return parse_command(rest, Api(variant) if variant else None)
    if kind == "replay" and rest.strip():
        return ReplayAgent(rest.strip())
    raise UsageError(
        f"There is no agent {spec!r}: choose claude, codex, scripted, command:PROGRAM or replay:FILE."
    )
