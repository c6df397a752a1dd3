"""What keeps an agent, and whatever it starts, away from everything but its workspace and its model.

One operating system boundary around the whole agent: its tools, its shell and its own code run in
it alike. Inside there are system files, the agent's own program, the workspace, an empty home and
one socket, behind which the gateway holds the key.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.sandbox import UNPRIVILEGED_ID, Mount, probe

WORKSPACE = "/workspace"
"""Where every agent finds its workspace, so that paths say nothing of the arm or the trial."""

HOME = "/home/agent"
OUTBOX = "/outbox"
"""Where a program leaves files for refcompare, such as its trajectory, if it has an outbox."""

MODEL_PORT = 8080
MODEL_URL = f"http://127.0.0.1:{MODEL_PORT}"
"""Where the gateway answers inside."""

SOCKET = "/run/model.sock"
LAUNCHER = "/run/launcher.py"

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


SHARED_BYTES = 64 * 1024 * 1024
"""The size of /dev/shm."""

_SYSTEM_PYTHON = "/usr/bin/python3"


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


class Layer(StrEnum):
    """One wall of the boundary. A wall can be left out to see that its absence is noticed."""

    HOST_USER = "host_user"
    ENVIRONMENT = "environment"
    FILES = "files"
    NETWORK = "network"
    PROCESSES = "processes"
    IPC = "ipc"
    HOSTNAME = "hostname"
    CONTROL_GROUPS = "control_groups"
    USER_NAMESPACES = "user_namespaces"
    CAPABILITIES = "capabilities"
    SYSTEM_CALLS = "system_calls"
    KERNEL_SETTINGS = "kernel_settings"
    SYSTEM_READ_ONLY = "system_read_only"
    TERMINAL = "terminal"
    DESCRIPTORS = "descriptors"
    LIFETIME = "lifetime"
    MEMORY = "memory"
    LIMITS = "limits"


class Boundary(Protocol):
    """Starts programs behind one kind of boundary."""

    @property
    def name(self) -> str:
        """``bubblewrap`` or ``docker``."""

    def start(self, command: Sequence[str], view: View) -> subprocess.Popen[bytes]:
        """Start a program in the workspace, with pipes on its three standard streams.

        It ends with the calling thread, and what it started ends with it; only after ``stop`` is all
        of that surely gone. Raises EnvironmentFailure where it cannot be started.
        """

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """End a program and everything in its boundary, at once, and collect it. Safe to call twice."""


def system_files(uid: int) -> dict[str, str]:
    """Give what programs look for in /etc, made up: nothing of this machine's accounts and networks."""
    return {
        "/etc/passwd": f"root:x:0:0:root:/:/usr/sbin/nologin\nagent:x:{uid}:{uid}:agent:{HOME}:/bin/bash\n",
        "/etc/group": f"root:x:0:\nagent:x:{uid}:\n",
        "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }


def view_mounts(view: View) -> tuple[Mount, ...]:
    """Give what a view shows of this machine, beside system files, in the order in which to mount it."""
    socket = () if view.socket is None else (Mount(SOCKET, view.socket, writable=True),)
    workspace = Mount(WORKSPACE, view.workspace, writable=not view.read_only)
    return (workspace, *python_inside()[1], *socket, *view.mounts)


def close_streams(process: subprocess.Popen[bytes]) -> None:
    """Close what leads to a program, whether or not it still listens. Safe to call twice."""
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()


def check_view(view: View) -> None:
    """Raise EnvironmentFailure, with what to do, where the boundary could not show what a view names."""
    user, _ = workspace_owner()
    try:
        found = view.workspace.stat()
    except OSError as error:
        raise EnvironmentFailure(
            f"The workspace {view.workspace} cannot be used: {error.strerror}."
        ) from error
    if not stat.S_ISDIR(found.st_mode):
        raise EnvironmentFailure(f"The workspace {view.workspace} is not a directory.")
    if not view.read_only and found.st_uid != user:
        raise EnvironmentFailure(
            f"The workspace {view.workspace} belongs to uid {found.st_uid}, and agents run as uid {user}: "
            f"make it theirs with `chown -R {user} {view.workspace}`."
        )
    for source in (view.workspace, *(mount.source for mount in view.mounts if mount.source is not None)):
        closed = _closed_to(user, source)
        if closed is not None:
            raise EnvironmentFailure(
                f"Agents run as uid {user}, which may not enter {closed}, where {source} lies: "
                f"open it with `chmod o+x {closed}`, or use another place (TMPDIR, REFCOMPARE_CACHE_DIR)."
            )


def _closed_to(user: int, path: Path) -> Path | None:
    """Give the first directory on the way to ``path`` that another uid than ours cannot pass."""
    if user == os.geteuid():
        return None  # the system itself says no
    for directory in reversed(path.parents):
        found = directory.stat()
        if not found.st_mode & (stat.S_IXUSR if found.st_uid == user else stat.S_IXOTH):
            return directory
    return None


def launcher_source() -> str:
    """Give the program that is started first inside, as text: this package may be where no agent can read."""
    return (Path(__file__).parent / "inside" / "launcher.py").read_text("utf-8")


def launcher_command(view: View, *, limits: bool = True, lifeline: str = "") -> list[str]:
    """Give the command inside that comes before a program's own; ``lifeline`` is a socket to live by."""
    told = {
        "limits": limits,
        "socket": SOCKET if view.socket is not None else "",
        "port": MODEL_PORT,
        "lifeline": lifeline,
    }
    return [*python_inside()[0], LAUNCHER, json.dumps(told)]


@functools.cache
def python_inside() -> tuple[tuple[str, ...], tuple[Mount, ...]]:
    """Give the command of a Python inside, and what must be mounted for it.

    Raises EnvironmentFailure where there is none that agents can run.
    """
    flags = ("-I", "-S", "-B")
    if Path(_SYSTEM_PYTHON).exists():
        return (_SYSTEM_PYTHON, *flags), ()
    prefix = Path(sys.base_prefix).resolve()
    if _closed_to(workspace_owner()[0], prefix) is not None or prefix in (Path.home(), *Path.home().parents):
        raise EnvironmentFailure(
            f"There is no {_SYSTEM_PYTHON}, and the Python in {prefix} cannot be shown to agents: "
            "install the system's python3."
        )
    program = prefix / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return (str(program), *flags), (Mount(str(prefix), prefix),)


def workspace_owner() -> tuple[int, int]:
    """Give the uid and gid that agents have on this machine: the user's own, and for root another.

    Nothing that an agent starts ever has uid 0 of the host, which could write below /proc/sys.
    """
    if os.geteuid() == 0:
        return UNPRIVILEGED_ID, UNPRIVILEGED_ID
    return os.geteuid(), os.getegid()


def find_boundary(kind: str = "auto") -> Boundary:
    """Give a boundary that works on this machine.

    ``kind`` is ``bubblewrap``, ``docker``, or ``auto`` for the first of them that works. Raises
    UsageError for another word, EnvironmentFailure with the cause and the mend where there is none.
    """
    # Both import this module.
    from refcompare.agents.sandbox.bubblewrap import BubblewrapBoundary
    from refcompare.agents.sandbox.container import ContainerBoundary
    from refcompare.wordpress.engine import docker_available

    if kind not in ("auto", "bubblewrap", "docker"):
        raise UsageError(f"There is no sandbox {kind!r}: choose bubblewrap, docker or auto.")
    reasons = []
    if kind != "docker":
        reason = _why_no_bubblewrap()
        if reason is None:
            return BubblewrapBoundary()
        reasons.append(reason)
    if kind != "bubblewrap":
        engine = docker_available()
        if engine.works:
            return ContainerBoundary()
        reasons.append(engine.message)
    raise EnvironmentFailure(
        f"Agents are never run without a sandbox, and there is none: {' '.join(reasons)}"
    )


def _why_no_bubblewrap() -> str | None:
    """Say why bubblewrap cannot be used here, and what mends it; None where it can."""
    from refcompare.doctor import install_command, namespace_cause

    if not sys.platform.startswith("linux"):
        return "bubblewrap needs Linux."
    if shutil.which("bwrap") is None:
        return f"bubblewrap (bwrap) is not installed: `{install_command('bubblewrap')}`."
    tried = probe()
    if tried.works:
        return None
    cause, mend = namespace_cause()
    advice = "" if mend is None else f" `{mend}`"
    return f"bubblewrap cannot make a sandbox, since {cause}.{advice}"
