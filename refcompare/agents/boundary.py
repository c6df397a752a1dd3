"""What keeps an agent, and whatever it starts, away from everything but its workspace and its model.

One operating system boundary around the whole agent: its tools, its shell and its own code run in
it alike. Inside there are system files, the agent's own program, the workspace, an empty home and
one socket, behind which the gateway holds the key.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from refcompare.sandbox import UNPRIVILEGED_ID, Mount

WORKSPACE = "/workspace"
"""Where every agent finds its workspace, so that paths say nothing of the arm or the trial."""

HOME = "/home/agent"
OUTBOX = "/outbox"
"""Where a program leaves files for refcompare, such as its trajectory, if it has an outbox."""

MODEL_PORT = 8080
MODEL_URL = f"http://127.0.0.1:{MODEL_PORT}"
"""Where the gateway answers inside."""

SOCKET = "/run/model.sock"

TMP_BYTES = 512 * 1024 * 1024
"""The size of the home, and of /tmp; both are in memory and gone when the agent ends."""

ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": HOME,
    "TMPDIR": "/tmp",  # noqa: S108 (a path inside the sandbox)
    "LANG": "C.UTF-8",
    "SHELL": "/bin/bash",
    "USER": "agent",
}
"""The environment of every confined program, beside what its view adds."""


@dataclass(frozen=True, slots=True)
class View:
    """What one confined program sees, beside system files and an empty home.

    ``workspace`` is the host's directory that lies at ``/workspace``. It and all in it must belong
    to ``workspace_owner()`` unless it is ``read_only``, which no program inside can undo.
    ``socket`` is the gateway's, answered at ``MODEL_URL``. ``mounts`` come last, so they may lie in
    the workspace; the places of those must be there already.
    """

    workspace: Path
    read_only: bool = False
    mounts: tuple[Mount, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    socket: Path | None = None


class Boundary(Protocol):
    """Starts programs behind one kind of boundary."""

    name: str

    def start(self, command: Sequence[str], view: View) -> subprocess.Popen[bytes]:
        """Start a program in the workspace, with pipes on its three standard streams.

        It ends with the calling thread, and everything that it started ends with it. Raises
        EnvironmentFailure where it cannot be started.
        """

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """End a program and everything in its boundary, at once, and collect it. Safe to call twice."""


def workspace_owner() -> tuple[int, int]:
    """Give the uid and gid that agents have on this machine: the user's own, and for root another.

    Nothing that an agent starts ever has uid 0 of the host, which could write below /proc/sys.
    """
    if os.geteuid() == 0:
        return UNPRIVILEGED_ID, UNPRIVILEGED_ID
    return os.geteuid(), os.getegid()
