"""Claude Code, the real program: run without a terminal, read by the events that it streams."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from refcompare.agents.checks.shell import shell_line
from refcompare.agents.checks.shell_reads import relative_path, shell_reads, skills_read, without_numbers
from refcompare.agents.model.gateway import GatewayHandle
from refcompare.agents.model.wire import Api
from refcompare.agents.programs.interface import Task
from refcompare.agents.programs.npm import Package, Program, check_version, ensure_program, machine
from refcompare.agents.programs.trajectory import Call, Ending, FileRead, Trajectory, Usage
from refcompare.agents.programs.witness import ending_of, witnessed
from refcompare.agents.sandbox.boundary import MODEL_URL, WORKSPACE, Boundary
from refcompare.agents.sandbox.running import Ran, run_agent
from refcompare.agents.workspace.outbox import shown
from refcompare.errors import EnvironmentFailure
from refcompare.sandbox import Mount

CLAUDE_VERSION = "2.1.332"
"""The release that is run unless another is asked for: both arms of a comparison get the same."""

EXECUTABLE_VARIABLE = "REFCOMPARE_CLAUDE"
_PLACE = "/opt/claude"

# No hooks of the ref under test, whatever its settings say. Its servers are left out by a flag.
_SETTINGS = {"disableAllHooks": True, "enableAllProjectMcpServers": False}
_SETTINGS_FILES = (".claude/settings.json", ".claude/settings.local.json")
# They need the vendor to reach out, which the gateway refuses; the model is better not offered them.
_NO_TOOLS = "WebSearch,WebFetch"
_ENVIRONMENT: Mapping[str, str] = {
    "ANTHROPIC_BASE_URL": MODEL_URL,
    "ANTHROPIC_API_KEY": "behind-the-gateway",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "4",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}
_EXIT_CODE = re.compile(r"Exit code (\d+)")
_ENDINGS = {
    "success": Ending.DONE,
    "error_max_turns": Ending.TURNS,
    "error_max_budget_usd": Ending.MONEY,
    "error_during_execution": Ending.CRASH,
}


@dataclass(frozen=True, slots=True)
class ClaudeAgent:
    """Claude Code of one version, from npm unless REFCOMPARE_CLAUDE names an executable."""

    version: str = CLAUDE_VERSION
    name: str = "claude"
    api: Api | None = Api.ANTHROPIC

    def program(self) -> Program:
        """Give the executable, fetched where it is not there yet. Raises EnvironmentFailure."""
        architecture, musl = machine()
        package = f"@anthropic-ai/claude-code-linux-{architecture}{'-musl' if musl else ''}"
        root = f"node_modules/{package}"
        spec = f"{package}@{check_version(self.version)}"
        return ensure_program(
            Package("claude", self.version, spec, root, f"{root}/claude", EXECUTABLE_VARIABLE)
        )

    def prepare(self) -> None:
        """Fetch the program where it is not there yet; see Agent."""
        self.program()

    def run(self, task: Task, boundary: Boundary, gateway: GatewayHandle | None) -> Trajectory:
        """Work on a task; see Agent. Raises EnvironmentFailure without a gateway or a program."""
        if gateway is None or Api.ANTHROPIC not in gateway.apis:
            raise EnvironmentFailure("Claude Code needs a gateway to a model that speaks Anthropic's format.")
        program = self.program()
        heard = Transcript()
        with ExitStack() as opened:
            ran = run_agent(
                boundary,
                _command(program, task),
                task,
                gateway,
                mounts=(Mount(_PLACE, program.root), *_masks(task.workspace, opened)),
                environment=_ENVIRONMENT,
                on_line=heard.line,
            )
        return heard.trajectory(self.name, task, ran, gateway)


def _command(program: Program, task: Task) -> list[str]:
    line = [
        program.inside(_PLACE), "--print", "--output-format", "stream-json", "--verbose",
        "--setting-sources", "project", "--strict-mcp-config", "--settings", json.dumps(_SETTINGS),
        "--dangerously-skip-permissions", "--disallowed-tools", _NO_TOOLS,
    ]  # fmt: skip
    if task.model is not None:
        line += ["--model", task.model]
    if task.limits.turns is not None:
        line += ["--max-turns", str(task.limits.turns)]
    return line


def _masks(workspace: Path, opened: ExitStack) -> list[Mount]:
    """Put empty settings over those of the ref under test: they name programs, servers and models.

    What is behind a symlink is masked where it really lies; outside of the workspace there is nothing.
    """
    root = Path(os.path.realpath(workspace))
    masks = []
    for name in _SETTINGS_FILES:
        real = Path(os.path.realpath(root / name))
        if real.is_file() and real.is_relative_to(root):
            masks.append(Mount(f"{WORKSPACE}/{real.relative_to(root).as_posix()}", shown("{}\n", opened)))
    return masks


@dataclass(slots=True)
class _Pending:
    """A call as it was asked for, and its result once that is there."""

    name: str
    input: Any
    seconds: float
    output: str = ""
    is_error: bool = False
    duration: float | None = None


@dataclass(slots=True)
class Transcript:
    """What Claude Code tells of a run, event by event. Its text is hostile input, like all from inside."""

    calls: dict[str, _Pending] = field(default_factory=dict)
    model: str | None = None
    last_text: str = ""
    result: dict[str, Any] = field(default_factory=dict)

    def line(self, line: bytes, seconds: float) -> None:
        """Take one line of its output, told ``seconds`` after the start."""
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(event, dict):
            return
        message = event.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        match event.get("type"):
            case "system" if event.get("subtype") == "init":
                self.model = event["model"] if isinstance(event.get("model"), str) else None
            case "assistant":
                for block in blocks:
                    self._said(block, seconds)
            case "user":
                for block in blocks:
                    self._came_back(block, seconds)
            case "result":
                self.result = event

    def _said(self, block: Mapping[str, Any], seconds: float) -> None:
        if block.get("type") == "text" and isinstance(block.get("text"), str):
            self.last_text = block["text"]
        elif block.get("type") == "tool_use":
            pending = _Pending(str(block.get("name")), block.get("input"), seconds)
            self.calls.setdefault(str(block.get("id")), pending)

    def _came_back(self, block: Mapping[str, Any], seconds: float) -> None:
        call = self.calls.get(str(block.get("tool_use_id")))
        if block.get("type") != "tool_result" or call is None or call.duration is not None:
            return
        content = block.get("content")
        if isinstance(content, list):
            texts = [part.get("text") for part in content if isinstance(part, dict)]
            content = "\n".join(text for text in texts if isinstance(text, str))
        call.output = content if isinstance(content, str) else ""
        call.is_error = block.get("is_error") is True
        call.duration = max(seconds - call.seconds, 0.0)

    def trajectory(self, agent: str, task: Task, ran: Ran, gateway: GatewayHandle | None) -> Trajectory:
        """Give the run as a trajectory, once it is over."""
        told = [
            Call(call.name, call.input, call.output, call.is_error, call.seconds, call.duration, identifier)
            for identifier, call in self.calls.items()
        ]
        calls = tuple(map(_with_exit_code, witnessed(told, gateway)))
        reads = _reads(calls, task.workspace)
        ending, error = self._ending(ran, gateway)
        said = self.result.get("result")
        final = said if ending is Ending.DONE and isinstance(said, str) else self.last_text
        return Trajectory(
            agent=agent,
            calls=calls,
            skills=_skills(calls, reads),
            reads=reads,
            final_message=final,
            usage=gateway.usage if gateway is not None else self._usage(),
            cost=gateway.cost if gateway is not None else None,
            ending=ending,
            error=error,
            model=(gateway.model if gateway is not None else None) or self.model,
            seconds=ran.seconds,
        )

    def _ending(self, ran: Ran, gateway: GatewayHandle | None) -> tuple[Ending, str | None]:
        limit = ending_of(gateway, timed_out=ran.timed_out)
        if limit is not None:
            return limit, None
        if not self.result:
            return Ending.CRASH, ran.last_words
        ending = _ENDINGS.get(str(self.result.get("subtype")), Ending.CRASH)
        # A failed request to the model ends as a success, whose result is the error.
        if self.result.get("is_error") is True and ending in (Ending.DONE, Ending.CRASH):
            failed = gateway is None or bool(gateway.errors or gateway.refusals)
            ending = Ending.API_ERROR if failed else Ending.CRASH
        if ending in (Ending.API_ERROR, Ending.CRASH):
            errors = self.result.get("errors")
            told = self.result.get("result") or (errors if isinstance(errors, list) else None)
            last = gateway.errors[-1:] or gateway.refusals[-1:] if gateway is not None else ()
            return ending, str(told or (last[0] if last else "it does not say why"))[:2000]
        return ending, None

    def _usage(self) -> Usage:
        usage = self.result.get("usage")
        if not isinstance(usage, dict):
            return Usage()
        return Usage(
            _number(usage.get("input_tokens")),
            _number(usage.get("output_tokens")),
            _number(usage.get("cache_read_input_tokens")),
            _number(usage.get("cache_creation_input_tokens")),
        )


def _with_exit_code(call: Call) -> Call:
    """Give a shell's call with the status of its command, which is told only where it failed."""
    if call.name != "Bash":
        return call
    said = _EXIT_CODE.match(call.output) if call.is_error else None
    if said:
        return replace(call, exit_code=int(said[1]))
    return call if call.is_error else replace(call, exit_code=0)


def _reads(calls: tuple[Call, ...], workspace: Path) -> tuple[FileRead, ...]:
    reads: list[FileRead] = []
    for index, call in enumerate(calls):
        given = call.input if isinstance(call.input, Mapping) else {}
        if call.name == "Read" and not call.is_error:
            path = relative_path(str(given.get("file_path", "")))
            if path is not None:
                reads.append(FileRead(path, without_numbers(call.output), index))
        elif call.name == "Bash":
            reads += shell_reads(str(given.get("command", "")), call.output, index, workspace)
    return tuple(reads)


def _skills(calls: tuple[Call, ...], reads: tuple[FileRead, ...]) -> tuple[str, ...]:
    """Give the skills that were launched or whose text was read, each once, in that order."""
    launched = [
        str(call.input.get("skill"))
        for call in calls
        if call.name == "Skill" and isinstance(call.input, Mapping) and not call.is_error
        if call.output.startswith("Launching skill")
    ]
    return tuple(dict.fromkeys([*launched, *skills_read(calls, list(map(shell_line, calls)), reads)]))


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
