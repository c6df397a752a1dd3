"""The real agents in Docker's boundary, where bubblewrap cannot be had: a scripted model asks, they work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from refcompare.agents.model.prices import Price, PriceTable
from refcompare.agents.programs.claude import ClaudeAgent
from refcompare.agents.programs.codex import CodexAgent
from refcompare.agents.programs.interface import AgentLimits, Task
from refcompare.agents.programs.trajectory import Ending, Trajectory
from refcompare.agents.sandbox.boundary import find_boundary, workspace_owner
from refcompare.agents.sandbox.container import ContainerBoundary
from refcompare.wordpress.engine import docker
from refcompare.wordpress.owners import this_process
from tests.docker.support import until
from tests.support_agents import KEY, fetched_or_skip, model_behind_gateway, says, workspace_of

pytestmark = [pytest.mark.docker, pytest.mark.agents, pytest.mark.timeout(600)]

AGENTS = pytest.mark.parametrize("agent", [ClaudeAgent(), CodexAgent()], ids=lambda agent: agent.name)
MODELS = {"claude": "scripted-1", "codex": "gpt-5.5"}
PRICES = PriceTable(otherwise=Price(10, 100, 1, 20))
FILES = {"AGENTS.md": "Be kind.\n" * 20, "src/app.py": "print('hi')\n"}


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    """No container of this process is there after a test."""
    mine = ("ps", "--all", "--quiet", "--filter", f"label=refcompare.owner={this_process()}")
    before = set(docker(*mine).split())
    yield
    assert until(lambda: set(docker(*mine).split()) <= before, seconds=15)


def shell(command: str) -> dict[str, object]:
    """Give a call that runs a command, as each agent names it."""
    return {
        "calls": [
            {
                "anthropic": {"name": "Bash", "input": {"command": command}},
                "openai": {"name": "exec_command", "input": {"cmd": command}},
            }
        ]
    }


def ran(agent: ClaudeAgent | CodexAgent, workspace: Path, *turns: object, seconds: float = 120) -> Trajectory:
    """Run an agent in a container against a script."""
    fetched_or_skip(agent)
    with model_behind_gateway(*turns, prices=PRICES) as (gateway, _):  # type: ignore[arg-type]
        task = Task("Please greet.", workspace, AgentLimits(seconds=seconds), MODELS[agent.name])
        return agent.run(task, ContainerBoundary(), gateway.open())


@AGENTS
def test_an_agent_works_in_a_container(agent: ClaudeAgent | CodexAgent) -> None:
    turns = (shell("cat AGENTS.md"), shell("cat src/app.py > out.txt; exit 3"), says("All done."))
    with workspace_of(FILES) as workspace:
        told = ran(agent, workspace, *turns)
        assert (told.ending, told.error, told.final_message) == (Ending.DONE, None, "All done.")
        assert [call.exit_code for call in told.calls] == [0, 3]
        assert [read.path for read in told.reads][:1] == ["AGENTS.md"]
        assert FILES["AGENTS.md"] in told.reads[0].content + "\n"
        assert (workspace / "out.txt").read_text() == FILES["src/app.py"]
        assert (workspace / "out.txt").stat().st_uid == workspace_owner()[0]
        assert told.usage.requests == 3
        assert told.cost == pytest.approx((300 * 10 + 60 * 100) / 1_000_000)


@AGENTS
def test_a_container_shows_an_agent_no_secret_and_no_engine(
    agent: ClaudeAgent | CodexAgent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text(KEY)
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "REFCOMPARE_TEST_MARKER"):
        monkeypatch.setenv(name, KEY)
    look = (
        f"env; cat /proc/*/environ; cat {tmp_path}/secret; cat {Path.cwd()}/pyproject.toml;"
        " ls -la /var/run/docker.sock /run/docker.sock /root; id -u; cat /proc/net/route; true"
    )
    with workspace_of(FILES) as workspace:
        (workspace.parent / "other").write_text(KEY)
        told = ran(agent, workspace, shell(f"{look}; cat {workspace.parent}/other; true"), says("Done."))
        output = told.calls[0].output
        assert told.ending is Ending.DONE
        assert KEY not in repr(told) and "hatchling" not in output
        assert "docker.sock': No such file" in output
        assert f"\n{workspace_owner()[0]}\n" in output
        assert not [
            path for path in workspace.rglob("*") if path.is_file() and KEY in path.read_text("latin-1")
        ]


@AGENTS
def test_an_agent_that_takes_too_long_ends_with_its_container(agent: ClaudeAgent | CodexAgent) -> None:
    with workspace_of(FILES) as workspace:
        late = says("Too late.", delay=120)  # Codex asks its model again where a command takes long
        told = ran(agent, workspace, shell("echo started > mark; sleep 300"), late, seconds=15)
        assert told.ending is Ending.TIME
        assert (workspace / "mark").exists()


def test_docker_is_what_is_found_where_bubblewrap_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "refcompare.agents.sandbox.boundary._why_no_bubblewrap", lambda: "bubblewrap is not here."
    )
    assert isinstance(find_boundary(), ContainerBoundary)
