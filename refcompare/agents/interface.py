"""What every agent answers: a task in, a trajectory out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from refcompare.agents.boundary import Boundary
from refcompare.agents.trajectory import Trajectory
from refcompare.agents.wire import Api

if TYPE_CHECKING:
    from refcompare.agents.gateway import GatewayHandle


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
    """A coding agent. One object runs any number of tasks, also at the same time.

    ``api`` is the wire format in which it talks to its model, None for one that needs no gateway.
    """

    name: str
    api: Api | None

    def run(self, task: Task, boundary: Boundary, gateway: GatewayHandle | None) -> Trajectory:
        """Let the agent work on a task, behind ``boundary``, and give what it did.

        Whatever the agent does ends in a trajectory: a limit, a crash and a failing API are its
        ``ending``. Raises EnvironmentFailure where the agent cannot be started at all.
        """
