"""Codex, the real program: run without a terminal, read by the rollout that it writes.

Its event stream leaves out refused patches, unknown tools and failed images; its rollout has all of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from refcompare.agents.checks.shell import shell_line
from refcompare.agents.checks.shell_reads import shell_reads, skills_read
from refcompare.agents.model.gateway import GatewayHandle
from refcompare.agents.model.wire import Api
from refcompare.agents.programs.interface import Task
from refcompare.agents.programs.npm import Package, Program, check_version, ensure_program, machine
from refcompare.agents.programs.rollout import Rollout, read_rollouts
from refcompare.agents.programs.trajectory import Call, Ending, FileRead, Trajectory
from refcompare.agents.programs.witness import ending_of
from refcompare.agents.sandbox.boundary import HOME, MODEL_URL, TMP_BYTES, WORKSPACE, Boundary
from refcompare.agents.sandbox.running import Ran, run_agent
from refcompare.agents.workspace.outbox import find_left, outbox, read_left, shown
from refcompare.errors import EnvironmentFailure
from refcompare.sandbox import Mount

CODEX_VERSION = "0.171.0"
"""The release that is run unless another is asked for: both arms of a comparison get the same."""

EXECUTABLE_VARIABLE = "REFCOMPARE_CODEX"
_PLACE = "/opt/codex"
_CODEX_HOME = f"{HOME}/.codex"
_TRIPLES = {"x64": "x86_64-unknown-linux-musl", "arm64": "aarch64-unknown-linux-musl"}
_MOST_ROLLOUTS = 50

# The workspace is not trusted, so the ref's own configuration, hooks and servers are left out; it is
# not distrusted by name either, since then its AGENTS.md would be. Nothing asks a network that is not
# there (each such question costs seconds at the start) or waits for one to come back.
_CONFIG = f"""\
model_provider = "gateway"
web_search = "disabled"
check_for_update_on_startup = false

[model_providers.gateway]
name = "gateway"
base_url = "{MODEL_URL}/v1"
wire_api = "responses"
env_key = "GATEWAY_KEY"
request_max_retries = 4
stream_max_retries = 2

[analytics]
enabled = false

[feedback]
enabled = false

[otel]
exporter = "none"

[features]
apps = false
browser_use = false
computer_use = false
hooks = false
image_generation = false
plugins = false
remote_plugin = false
skill_mcp_dependency_install = false
unbounded_connection_retries = false
"""
_ENVIRONMENT: Mapping[str, str] = {"CODEX_HOME": _CODEX_HOME, "GATEWAY_KEY": "behind-the-gateway"}


@dataclass(frozen=True, slots=True)
class CodexAgent:
    """Codex of one version, from npm unless REFCOMPARE_CODEX names an executable."""

    version: str = CODEX_VERSION
    name: str = "codex"
    api: Api | None = Api.OPENAI

    def program(self) -> Program:
        """Give the executable, fetched where it is not there yet. Raises EnvironmentFailure."""
        architecture, _ = machine()
        root = f"node_modules/@openai/codex/vendor/{_TRIPLES[architecture]}"
        spec = f"@openai/codex@{check_version(self.version)}-linux-{architecture}"
        return ensure_program(
            Package("codex", self.version, spec, root, f"{root}/bin/codex", EXECUTABLE_VARIABLE)
        )

    def prepare(self) -> None:
        """Fetch the program where it is not there yet; see Agent."""
        self.program()

    def run(self, task: Task, boundary: Boundary, gateway: GatewayHandle | None) -> Trajectory:
        """Work on a task; see Agent. Raises EnvironmentFailure without a gateway or a program."""
        if gateway is None or Api.OPENAI not in gateway.apis:
            raise EnvironmentFailure(
                "Codex needs a gateway to a model that speaks OpenAI's Responses format."
            )
        program = self.program()
        # It has no limit of its own for turns.
        gateway.cap_turns(task.limits.turns)
        heard = _Events()
        with ExitStack() as opened:
            sessions = opened.enter_context(outbox())
            ran = run_agent(
                boundary,
                _command(program, task),
                task,
                gateway,
                mounts=(
                    Mount(_PLACE, program.root),
                    Mount(_CODEX_HOME, size=TMP_BYTES),
                    Mount(f"{_CODEX_HOME}/config.toml", shown(_CONFIG, opened)),
                    Mount(f"{_CODEX_HOME}/sessions", sessions, writable=True),
                ),
                environment=_ENVIRONMENT,
                on_line=heard.line,
            )
            files = find_left(sessions, "rollout-", ".jsonl")[:_MOST_ROLLOUTS]
            written = [read_left(file.parent, file.name) or b"" for file in files]
        rollout = read_rollouts(written, ran.errors)
        return self._trajectory(task, ran, gateway, heard, rollout)

    def _trajectory(
        self, task: Task, ran: Ran, gateway: GatewayHandle, heard: _Events, rollout: Rollout
    ) -> Trajectory:
        calls = rollout.calls(gateway)
        reads = _reads(calls, task)
        ending, error = _ending(ran, gateway, heard)
        return Trajectory(
            agent=self.name,
            calls=calls,
            skills=tuple(dict.fromkeys(skills_read(calls, list(map(shell_line, calls)), reads))),
            reads=reads,
            final_message=heard.last_text,
            usage=gateway.usage,
            cost=gateway.cost,
            ending=ending,
            error=error,
            model=gateway.model,
            seconds=ran.seconds,
        )


def _command(program: Program, task: Task) -> list[str]:
    line = [
        program.inside(_PLACE), "exec", "--json", "--skip-git-repo-check", "--ignore-rules",
        "--dangerously-bypass-approvals-and-sandbox",
    ]  # fmt: skip
    if task.model is not None:
        line += ["--model", task.model]
    return [*line, "-"]


@dataclass(slots=True)
class _Events:
    """What Codex tells while it works: how it ended, and its last words. Hostile input."""

    last_text: str = ""
    completed: bool = False
    errors: list[str] = field(default_factory=list)

    def line(self, line: bytes, seconds: float) -> None:
        """Take one line of its output."""
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(event, dict):
            return
        item, failure = event.get("item"), event.get("error")
        match event.get("type"):
            case "item.completed" if isinstance(item, dict) and item.get("type") == "agent_message":
                self.last_text = str(item.get("text", ""))
            case "turn.completed":
                self.completed = True
            case "turn.failed" if isinstance(failure, dict):
                self.errors.append(str(failure.get("message", ""))[:2000])


def _ending(ran: Ran, gateway: GatewayHandle, heard: _Events) -> tuple[Ending, str | None]:
    limit = ending_of(gateway, timed_out=ran.timed_out)
    if limit is not None:
        return limit, None
    if heard.completed and not heard.errors:
        return Ending.DONE, None
    seen = gateway.errors[-1:] or gateway.refusals[-1:]
    if heard.errors:
        ending = Ending.API_ERROR if seen else Ending.CRASH
        return ending, " — ".join((heard.errors[-1], *seen))
    return Ending.CRASH, ran.last_words


def _reads(calls: Sequence[Call], task: Task) -> tuple[FileRead, ...]:
    reads: list[FileRead] = []
    for index, call in enumerate(calls):
        line = shell_line(call)
        if line is not None and isinstance(call.input, Mapping):
            where = _directory(call.input)
            content = call.output.partition("\nOutput:\n")[2] if call.name == "exec_command" else ""
            reads += shell_reads(line, content or call.output, index, task.workspace, where)
    return tuple(reads)


def _directory(given: Mapping[str, Any]) -> str:
    where = given.get("workdir")
    return (
        f"{WORKSPACE}/{where}"
        if isinstance(where, str) and not where.startswith("/")
        else str(where or WORKSPACE)
    )
