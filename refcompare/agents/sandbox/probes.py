"""Does a boundary hold? Programs that try to get out must fail, and programs that work must work.

This is what ``refcompare doctor --sandbox`` shows. It goes red when any wall of the boundary is
missing, and when an agent could not work behind it.
"""

from __future__ import annotations

import json
import os
import pickle
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from refcompare.agents.model.gateway import Gateway, GatewayHandle
from refcompare.agents.sandbox.boundary import (
    MODEL_URL,
    TMP_BYTES,
    Boundary,
    View,
    python_inside,
    workspace_owner,
)
from refcompare.errors import RefcompareError

_TIMEOUT_SECONDS = 60.0
_GONE_SECONDS = 3.0
_SECRET_VARIABLE = "REFCOMPARE_PROBE_SECRET"
_SLEEP = "import time; time.sleep(600)"

# Leaves a process behind that belongs to nobody, says so, and ends or goes on.
_LEAVE = """
import os, subprocess, sys, time
python, mark, seconds = sys.argv[1:4]
null = open("/dev/null", "r+")
subprocess.Popen(
    [python, "-S", "-c", "import time; time.sleep(600)", mark],
    stdin=null, stdout=null, stderr=null, start_new_session=True,
)
print("left", flush=True)
time.sleep(float(seconds))
"""

# Starts a confined program in a process of its own, which is then killed.
_START = """
import pickle, sys
from pathlib import Path
boundary, command, view = pickle.load(sys.stdin.buffer)
process = boundary.start(command, view)
print(process.stdout.readline().decode(), flush=True)
sys.stdin.read()
process.wait()
"""

_DENIED: Mapping[str, str] = {
    "host_root": "be root on the host",
    "secret_in_environment": "read this process's environment",
    "read_host_files": "read files of the home, the checkout or another trial",
    "see_other_workspaces": "see another trial's workspace",
    "docker_socket": "reach Docker's socket",
    "connect_host_loopback": "connect to a port of this machine",
    "connect_network": "reach the network or resolve a name",
    "connect_host_sockets": "connect to a Unix socket of this machine",
    "write_system": "write outside the workspace",
    "write_kernel_settings": "write kernel settings",
    "make_user_namespace": "make a user namespace",
    "have_capabilities": "have or gain privileges",
    "make_any_system_call": "make any system call",
    "share_namespaces": "share a namespace with this machine",
    "see_host_processes": "see other processes",
    "reach_terminal": "reach the terminal",
    "inherit_descriptors": "use open files of this process",
    "fill_memory": "fill the memory with files",
    "exceed_limits": "start any number of processes",
    "write_read_only_workspace": "change a read-only workspace",
    "outlive": "outlive the agent",
    "outlive_refcompare": "outlive refcompare",
}
_WORKS: Mapping[str, str] = {
    "can_read_workspace": "read the workspace",
    "can_write_workspace": "write the workspace, and run what was written",
    "can_use_home_and_tmp": "use a home and temporary files",
    "can_use_shell": "use a shell",
    "can_use_git": "use git",
    "can_ask_model": "ask the model through the gateway",
}


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing that was tried inside: ``denied`` says that it must fail, else it must work.

    ``passed`` is whether it came out as it must, ``how`` what was seen.
    """

    name: str
    what: str
    denied: bool
    passed: bool
    how: str


def probes(boundary: Boundary, only: Collection[str] | None = None) -> tuple[Probe, ...]:
    """Try to get out of ``boundary``, and to work in it. Takes a second or two; never raises for a red probe.

    ``only`` names the probes to give, all unless given. Raises EnvironmentFailure where this machine
    lacks what it takes to try.
    """
    with _outside() as stage:
        first = _inside(boundary, stage, read_only=False)
        second = _inside(boundary, stage, read_only=True)
        found = {name: _worse(name, first[name], second[name]) for name in first}
        found["host_root"] = _owner(stage.workspace / "left")
    for name, probe in (("outlive", _outlives), ("outlive_refcompare", _outlives_refcompare)):
        if only is None or name in only:
            found[name] = probe(boundary)
    return tuple(
        Probe(name, what, denied, could is not denied, how)
        for denied, known in ((True, _DENIED), (False, _WORKS))
        for name, what in known.items()
        if only is None or name in only
        for could, how in [found[name]]
    )


def holds(results: tuple[Probe, ...]) -> bool:
    """Whether everything came out as it must."""
    return all(result.passed for result in results)


def render_probes(results: tuple[Probe, ...]) -> str:
    """Give one line a probe, and a last line that sums them up."""
    lines = []
    for result in results:
        mark = "ok  " if result.passed else "FAIL"
        expected = "cannot" if result.denied else "can"
        how = "".join(character if character.isprintable() else " " for character in result.how)
        lines.append(f"{mark}  an agent {expected} {result.what}" + ("" if result.passed else f": {how}"))
    failed = sum(not result.passed for result in results)
    lines += [
        "",
        "The sandbox holds." if not failed else f"The sandbox does not hold: {failed} probes failed.",
    ]
    return "\n".join(lines)


def probes_value(results: tuple[Probe, ...]) -> dict[str, Any]:
    """Give ``{"holds": bool, "probes": [{"name", "what", "denied", "passed", "how"}]}``."""
    return {"holds": holds(results), "probes": [asdict(result) for result in results]}


def _worse(name: str, first: tuple[bool, str], second: tuple[bool, str]) -> tuple[bool, str]:
    denied = name in _DENIED
    return first if first[0] is denied else second


@dataclass(frozen=True, slots=True)
class _Stage:
    """What there is outside for a probe to look for."""

    workspace: Path
    told: Mapping[str, Any]
    gateway: GatewayHandle


@contextmanager
def _outside() -> Iterator[_Stage]:
    """Set up what must not be reached: files, sockets, an environment variable, an open file."""
    secret = f"refcompare-probe-{secrets.token_hex(12)}"
    with ExitStack() as stack:
        base = Path(tempfile.mkdtemp(prefix="refcompare-probe-"))
        stack.callback(shutil.rmtree, base, ignore_errors=True)
        base.chmod(0o755)
        workspace, other = base / "workspace", base / "other"
        for directory in (workspace, other):
            directory.mkdir(mode=0o755)
            (directory / "given").write_text("given")
            os.chown(directory, *workspace_owner())
        workspace.chmod(0o777)  # so that whoever it is can leave a file
        for name in ("home-file", "checkout-file"):
            (base / name).write_text(secret)
            (base / name).chmod(0o644)
        os.environ[_SECRET_VARIABLE] = secret
        stack.callback(os.environ.pop, _SECRET_VARIABLE, None)
        kept = stack.enter_context((base / "home-file").open())
        os.set_inheritable(kept.fileno(), True)
        addresses = [_listen(stack, family, host) for family, host in _loopbacks()]
        _listen_unix(stack, str(base / "host.sock"))
        (base / "host.sock").chmod(0o777)
        _listen_unix(stack, f"\0{secret}")
        neighbour = subprocess.Popen([sys.executable, "-S", "-c", _SLEEP, secret])
        stack.callback(_end, neighbour)
        gateway = stack.enter_context(Gateway([]))
        told = {
            "secret": secret,
            "files": [str(base / "home-file"), str(base / "checkout-file"), str(other / "given")],
            "directories": [str(other), str(base)],
            "tcp": addresses,
            "unix": str(base / "host.sock"),
            "abstract": secret,
            "namespaces": _namespaces(),
            "process": secret,
            "sized": ["/tmp", "/var/tmp", "/home/agent", "/dev/shm"],  # noqa: S108 (paths inside)
            "bytes": TMP_BYTES,
            "model": MODEL_URL,
        }
        yield _Stage(workspace, told, gateway.open())


def _loopbacks() -> list[tuple[socket.AddressFamily, str]]:
    return [(socket.AF_INET, "127.0.0.1"), *([(socket.AF_INET6, "::1")] if socket.has_ipv6 else [])]


def _listen(stack: ExitStack, family: socket.AddressFamily, host: str) -> list[Any]:
    listener = stack.enter_context(socket.socket(family))
    with suppress(OSError):  # a machine without IPv6
        listener.bind((host, 0))
        listener.listen(16)
        return [host, listener.getsockname()[1]]
    return [host, 9]


def _listen_unix(stack: ExitStack, address: str) -> None:
    listener = stack.enter_context(socket.socket(socket.AF_UNIX))
    listener.bind(address)
    listener.listen(16)


def _namespaces() -> dict[str, str]:
    names = ("net", "pid", "ipc", "uts", "mnt", "cgroup")
    return {name: os.readlink(f"/proc/self/ns/{name}") for name in names}  # noqa: PTH115 (names no file)


def _inside(boundary: Boundary, stage: _Stage, *, read_only: bool) -> dict[str, tuple[bool, str]]:
    view = View(stage.workspace, read_only=read_only, socket=stage.gateway.socket)
    told = json.dumps({**stage.told, "read_only": read_only})
    source = (Path(__file__).parent / "inside" / "probe.py").read_text("utf-8")
    try:
        process = boundary.start([*python_inside()[0], "-c", source], view)
        try:
            output, errors = process.communicate(told.encode(), timeout=_TIMEOUT_SECONDS)
        finally:
            boundary.stop(process)
        found = json.loads(output)
        return {name: (bool(found[name][0]), str(found[name][1])) for name in _tried_inside()}
    except (
        RefcompareError,
        OSError,
        subprocess.SubprocessError,
        ValueError,
        LookupError,
        TypeError,
    ) as error:
        said = errors.decode("utf-8", "replace").strip() if "errors" in locals() else str(error)
        # What could not be tried has not been denied.
        return {name: (name in _DENIED, f"could not be tried: {said[-200:]}") for name in _tried_inside()}


def _tried_inside() -> list[str]:
    return [
        name for name in (*_DENIED, *_WORKS) if name not in ("host_root", "outlive", "outlive_refcompare")
    ]


def _owner(path: Path) -> tuple[bool, str]:
    """Whether who left a file in the workspace is root out here."""
    try:
        uid = path.lstat().st_uid
    except OSError:
        return True, "could not be tried: no file was left"
    return uid == 0, f"uid {uid} of the host"


def _outlives(boundary: Boundary) -> tuple[bool, str]:
    """Whether a process that was left behind is there after its agent ended, or was ended."""
    for seconds in (0, 600):
        mark = f"refcompare-left-{secrets.token_hex(12)}"
        try:
            with _workspace() as workspace:
                process = boundary.start(_leave(mark, seconds), View(workspace))
                try:
                    assert process.stdout is not None
                    if process.stdout.readline() != b"left\n":
                        return True, "could not be tried"
                    if seconds == 0:
                        process.wait(_TIMEOUT_SECONDS)
                finally:
                    boundary.stop(process)
        except (RefcompareError, OSError, subprocess.SubprocessError) as error:
            return True, f"could not be tried: {error}"
        left = _left(mark, 0)
        if left:
            return True, f"process {left[0]} did"
    return False, "nothing was left"


def _outlives_refcompare(boundary: Boundary) -> tuple[bool, str]:
    """Whether an agent goes on after the process that started it was killed."""
    mark = f"refcompare-left-{secrets.token_hex(12)}"
    with _workspace() as workspace:
        try:
            asked = pickle.dumps((boundary, _leave(mark, 600), View(workspace)))
        except (RefcompareError, pickle.PicklingError, AttributeError) as error:
            return True, f"could not be tried: {error}"
        starter = subprocess.Popen(
            [sys.executable, "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        try:
            assert starter.stdin is not None and starter.stdout is not None
            starter.stdin.write(asked)
            starter.stdin.flush()
            started = starter.stdout.readline() == b"left\n"
        finally:
            _end(starter)
        left = _left(mark, _GONE_SECONDS)
    if not started:
        return True, "could not be tried"
    return bool(left), f"process {left[0]} did" if left else "all of it ended"


def _leave(mark: str, seconds: int) -> list[str]:
    python = python_inside()[0]
    return [*python, "-c", _LEAVE, python[0], mark, str(seconds)]


@contextmanager
def _workspace() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="refcompare-probe-") as base:
        workspace = Path(base) / "workspace"
        workspace.mkdir()
        Path(base).chmod(0o755)
        os.chown(workspace, *workspace_owner())
        yield workspace


def _left(mark: str, seconds: float) -> list[int]:
    """Give the processes that still name a mark after so many seconds, and end them."""
    deadline = time.monotonic() + seconds
    # Whoever started them is asked for as well: a process that is just being started has no name yet.
    while (left := list(_naming(mark))) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in left:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return left


def _naming(mark: str) -> Iterator[int]:
    """Give the processes of this machine whose command line names ``mark``."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if mark.encode() in words:
                    yield int(entry.name)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
    process.wait()
