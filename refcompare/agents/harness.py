"""A repository's own harness for agent evals, run once on a ref's tree; what it wrote is imported.

It is the ref's own code. So it is confined like an agent, with the gateway as its only way out, unless the
user trusts it: then it runs as any command of theirs would, in a copy of the ref's tree.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from refcompare.agents.checks.interface import CommandResult
from refcompare.agents.evals import WorkspaceSpec
from refcompare.agents.model.gateway import GatewayHandle
from refcompare.agents.sandbox.boundary import MODEL_URL, OUTBOX, Boundary, View
from refcompare.agents.sandbox.confined import run_confined
from refcompare.agents.workspace.outbox import outbox, read_left
from refcompare.agents.workspace.workspaces import LinkedTree, build_workspace
from refcompare.errors import EnvironmentFailure
from refcompare.sandbox import Mount
from refcompare.wording import printable
from refcompare.workspace import remove

PLACEHOLDER = "{output}"
SECONDS = 4 * 3600.0
_FILE = "results.json"
_SHOWN = 1_000


def run_harness(
    tree: LinkedTree,
    command: str,
    boundary: Boundary,
    gateway: GatewayHandle | None,
    seconds: float = SECONDS,
) -> bytes:
    """Run a harness behind the boundary, in a copy of a ref's tree, and give what it wrote.

    The vendors' clients find the gateway by their usual variables. Raises EnvironmentFailure where it wrote
    nothing; that it ends with an error is how harnesses say that an assertion did not hold.
    """
    with (
        build_workspace(tree, WorkspaceSpec(), boundary, whole=True) as arm,
        arm.trial() as place,
        outbox() as left,
    ):
        view = View(
            place.path,
            mounts=(Mount(OUTBOX, left, writable=True),),
            environment={} if gateway is None else _CLIENTS,
            socket=None if gateway is None else gateway.socket,
        )
        done = run_confined(boundary, filled(command, f"{OUTBOX}/{_FILE}"), view, seconds)
        return _written(read_left(left, _FILE), done)


def run_trusted(tree: LinkedTree, command: str, boundary: Boundary, seconds: float = SECONDS) -> bytes:
    """Run a harness with all that the user may do, in a copy of a ref's tree, and give what it wrote.

    Only the copy is made behind ``boundary``. Raises EnvironmentFailure where it wrote nothing.
    """
    with build_workspace(tree, WorkspaceSpec(), boundary, whole=True) as arm, arm.trial() as place:
        left = Path(tempfile.mkdtemp(prefix="refcompare-"))
        try:
            done = _run(filled(command, str(left / _FILE)), place.path, seconds)
            return _written(read_left(left, _FILE), done)
        finally:
            remove(left)


def filled(command: str, path: str) -> str:
    """Put the path of the output into a command, as one word of a shell."""
    return command.replace(PLACEHOLDER, shlex.quote(path))


_CLIENTS = {
    "ANTHROPIC_BASE_URL": MODEL_URL,
    "ANTHROPIC_API_KEY": "behind-the-gateway",
    "OPENAI_BASE_URL": f"{MODEL_URL}/v1",
    "OPENAI_API_KEY": "behind-the-gateway",
}


def _run(command: str, directory: Path, seconds: float) -> CommandResult:
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            ["/bin/bash", "-c", command],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what it left running, too
            process.wait()
        said.seek(max(0, said.tell() - _SHOWN))
        return CommandResult(status, said.read(_SHOWN).decode("utf-8", "replace"))


def _written(data: bytes | None, done: CommandResult) -> bytes:
    if data is None:
        ended = "did not end in time" if done.exit_code is None else f"ended with {done.exit_code}"
        said = printable(done.output.strip()[-_SHOWN:]) or "it said nothing"
        raise EnvironmentFailure(f"The eval_command wrote no results to {PLACEHOLDER} and {ended}: {said}")
    return data
