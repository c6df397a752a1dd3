"""A small agent of refcompare's own, for where the real programs are not: with a script, or a stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from refcompare.agents.model.door import Upstream
from refcompare.agents.model.gateway import Gateway, GatewayHandle
from refcompare.agents.model.prices import FREE
from refcompare.agents.model.script import Model
from refcompare.agents.model.scripted import ScriptedModel
from refcompare.agents.model.wire import Api
from refcompare.agents.programs.command import run_with_account
from refcompare.agents.programs.follower import GuidanceFollower
from refcompare.agents.programs.interface import Task
from refcompare.agents.programs.trajectory import Trajectory
from refcompare.agents.sandbox.boundary import Boundary, python_inside


@dataclass(frozen=True, slots=True)
class StandInAgent:
    """Five tools and a loop (see ``inside/standin.py``) that ask ``model``, which is no model but code.

    It needs no key and no gateway: it opens one of its own, to that code, and costs nothing. Whatever
    gateway it is given is asked instead.
    """

    model: Model = field(default_factory=GuidanceFollower)
    name: str = "scripted"
    api: Api | None = None

    def prepare(self) -> None:
        """See that there is a Python to run it with; see Agent."""
        python_inside()

    def run(self, task: Task, boundary: Boundary, gateway: GatewayHandle | None) -> Trajectory:
        """Work on a task; see Agent."""
        source = (Path(__file__).parents[1] / "sandbox" / "inside" / "standin.py").read_text("utf-8")
        line = [*python_inside()[0], "-c", source]
        if gateway is not None:
            return run_with_account(self.name, line, (), {}, task, boundary, gateway)
        with _own_gateway(self.model) as own:
            return run_with_account(self.name, line, (), {}, task, boundary, own)


@contextmanager
def _own_gateway(model: Model) -> Iterator[GatewayHandle]:
    with (
        ScriptedModel(model) as served,
        Gateway([Upstream(Api.ANTHROPIC, served.url, "no key")], prices=FREE) as gateway,
    ):
        yield gateway.open()
