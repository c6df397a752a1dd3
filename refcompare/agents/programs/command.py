"""Any program as an agent: it gets a prompt and a workspace, and writes down what it did."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from refcompare.agents.checks.shell import shell_line
from refcompare.agents.checks.shell_reads import shell_reads, skills_read
from refcompare.agents.model.gateway import GatewayHandle
from refcompare.agents.model.wire import Api
from refcompare.agents.programs.interface import Task
from refcompare.agents.programs.trajectory import Call, Ending, FileRead, Trajectory
from refcompare.agents.programs.trajectory_lines import Account, read_lines
from refcompare.agents.programs.witness import ending_of, witnessed
from refcompare.agents.sandbox.boundary import ENVIRONMENT, MODEL_URL, OUTBOX, WORKSPACE, Boundary
from refcompare.agents.sandbox.running import Ran, run_agent
from refcompare.agents.workspace.outbox import outbox, read_left
from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.sandbox import Mount

TRAJECTORY_FILE = "trajectory.jsonl"
_PLACE = "/opt/agent"
_SHOWN = re.compile(r"[A-Za-z0-9._+-]+")


@dataclass(frozen=True, slots=True)
class CommandAgent:
    """A program of the user's; words of ``line`` that name files of this machine are shown inside.

    ``api`` is the format in which it talks to a model, None for a program that asks none.
    """

    line: tuple[str, ...]
    api: Api | None = None
    name: str = "command"

    def prepare(self) -> None:
        """See that the program and the files that the line names are there; see Agent."""
        program = shown_files(self.line)[0][0]
        if "/" not in program and shutil.which(program, path=ENVIRONMENT["PATH"]) is None:
            raise EnvironmentFailure(
                f"The agent's command starts {program}, which is not among this machine's programs in "
                f"{ENVIRONMENT['PATH']}: install it there, or name a file as in `command:./{program}`."
            )

    def run(self, task: Task, boundary: Boundary, gateway: GatewayHandle | None) -> Trajectory:
        """Work on a task; see Agent. Raises EnvironmentFailure where the program cannot be started."""
        line, mounts = shown_files(self.line)
        return run_with_account(self.name, line, mounts, {}, task, boundary, gateway)


def parse_command(text: str, api: Api | None) -> CommandAgent:
    """Give the agent of a command line. Raises UsageError for one that cannot be read or is empty."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"The command of an agent cannot be read ({error}): {text!r}.") from error
    if not words:
        raise UsageError("An agent's command is empty: give one such as `command:./agent.py`.")
    return CommandAgent(words, api)


def shown_files(line: Sequence[str]) -> tuple[list[str], list[Mount]]:
    """Give a command line as it is inside, and the mounts of the host's files that it names.

    A word that starts with ``./``, ``../`` or ``/`` and names a file or a directory of this machine,
    outside of the system's own, is mounted read-only and replaced. Raises EnvironmentFailure for one
    that names nothing.
    """
    words: list[str] = []
    mounts: list[Mount] = []
    for word in line:
        system = word.startswith(("/usr/", "/bin/", "/sbin/", f"{WORKSPACE}/"))
        if system or not word.startswith(("./", "../", "/")):
            words.append(word)
            continue
        path = Path(word).resolve()
        if not path.exists() or not _SHOWN.fullmatch(path.name):
            raise EnvironmentFailure(f"The agent's command names {word}, and there is no such file.")
        inside = f"{_PLACE}/{len(mounts)}/{path.name}"
        mounts.append(Mount(inside, path))
        words.append(inside)
    return words, mounts


def run_with_account(
    name: str,
    line: Sequence[str],
    mounts: Sequence[Mount],
    environment: Mapping[str, str],
    task: Task,
    boundary: Boundary,
    gateway: GatewayHandle | None,
) -> Trajectory:
    """Run a program that writes its own account, and give that as a trajectory."""
    if gateway is not None:
        gateway.cap_turns(task.limits.turns)
    with ExitStack() as opened:
        left = opened.enter_context(outbox())
        ran = run_agent(
            boundary,
            line,
            task,
            gateway,
            mounts=(Mount(OUTBOX, left, writable=True), *mounts),
            environment={**_environment(task, gateway), **environment},
        )
        written = read_left(left, TRAJECTORY_FILE)
    return _trajectory(name, task, ran, gateway, written)


def _environment(task: Task, gateway: GatewayHandle | None) -> dict[str, str]:
    told = {
        "REFCOMPARE_TRAJECTORY": f"{OUTBOX}/{TRAJECTORY_FILE}",
        "REFCOMPARE_VARIABLES": json.dumps(dict(task.variables), ensure_ascii=False),
        "REFCOMPARE_WORKSPACE": WORKSPACE,
    }
    if task.model is not None:
        told["REFCOMPARE_MODEL"] = task.model
    if task.limits.turns is not None:
        told["REFCOMPARE_TURNS"] = str(task.limits.turns)
    if gateway is not None:
        # What the vendors' own clients look for; the keys are added on the way out.
        told |= {
            "ANTHROPIC_BASE_URL": MODEL_URL,
            "ANTHROPIC_API_KEY": "behind-the-gateway",
            "OPENAI_BASE_URL": f"{MODEL_URL}/v1",
            "OPENAI_API_KEY": "behind-the-gateway",
        }
    return told


def _trajectory(
    name: str, task: Task, ran: Ran, gateway: GatewayHandle | None, written: bytes | None
) -> Trajectory:
    wrong = None
    account = Account()
    try:
        account = read_lines(written or b"")
    except ValueError as said:
        wrong = f"the trajectory that it wrote cannot be read: {said}"
    calls, reads = _seen(account, gateway)
    for index, call in enumerate(calls):
        line = shell_line(call)
        if line is not None:
            reads += shell_reads(line, call.output, index, task.workspace)
    ending, error = _ending(ran, gateway, account, wrong)
    counted = gateway is not None and bool(gateway.usage.requests)
    read = skills_read(calls, list(map(shell_line, calls)), reads)
    return Trajectory(
        agent=name,
        calls=calls,
        skills=tuple(dict.fromkeys([*account.skills, *read])),
        reads=tuple(reads),
        final_message=account.final_message,
        usage=gateway.usage if gateway is not None and counted else account.usage,
        cost=gateway.cost if gateway is not None and counted else account.cost,
        ending=ending,
        error=error,
        model=(gateway.model if gateway is not None else None) or account.model,
        seconds=ran.seconds,
    )


def _seen(account: Account, gateway: GatewayHandle | None) -> tuple[tuple[Call, ...], list[FileRead]]:
    """Give the calls and reads of an account, held against what passed the gateway where that can be.

    A program that names its calls as the model does has them compared; any other is taken at its word.
    """
    asked = {use.id for use in gateway.uses()} if gateway is not None else set()
    if not asked & {call.id for call in account.calls}:
        return tuple(account.calls), list(account.reads)
    calls = witnessed(account.calls, gateway)
    place = {call.id: index for index, call in enumerate(calls)}
    reads = []
    for read in account.reads:
        index = place.get(account.calls[read.call].id)
        if index is not None:
            reads.append(FileRead(read.path, calls[index].output, index))
    return calls, reads


def _ending(
    ran: Ran, gateway: GatewayHandle | None, account: Account, wrong: str | None
) -> tuple[Ending, str | None]:
    limit = ending_of(gateway, timed_out=ran.timed_out)
    if limit is not None:
        return limit, None
    if wrong is not None:
        return Ending.CRASH, wrong
    if account.ending is not None:
        return account.ending, account.error
    if ran.status != 0 or ran.too_much:
        return Ending.CRASH, ran.last_words
    return Ending.DONE, None
