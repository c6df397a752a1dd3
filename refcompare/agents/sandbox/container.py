"""The boundary that a Docker engine on this machine makes around an agent.

The container's image is empty: an agent sees the same programs of this machine, read-only, that it
sees in bubblewrap, so both boundaries differ in nothing but what keeps them.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import io
import os
import secrets
import shutil
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from refcompare.agents.sandbox.boundary import (
    ENVIRONMENT,
    HOME,
    LAUNCHER,
    SHARED_BYTES,
    TMP_BYTES,
    WORKSPACE,
    Layer,
    View,
    check_view,
    close_streams,
    launcher_command,
    launcher_source,
    system_files,
    view_mounts,
    workspace_owner,
)
from refcompare.errors import EnvironmentFailure
from refcompare.sandbox import SYSTEM_FILES, SYSTEM_LINKS, Mount, hidden_directories
from refcompare.wordpress.engine import (
    KIND_LABEL,
    EngineRefused,
    EngineUnreachable,
    docker,
    docker_after_restart,
    docker_command,
    ownership_labels,
    remove_containers,
)

_REPOSITORY = "refcompare-agent"
_LIFELINE = "/run/lifeline.sock"
_MEMORY = "4g"
_PROCESSES = 2048
_POLL_SECONDS = 0.2
_DIRECTORIES = ("dev", "etc", "home/agent", "proc", "run", "sys", "tmp", "usr", "var/tmp", "workspace")

# What a wall is on the engine's command line, and what stands there without it.
_WALLS: dict[Layer, tuple[tuple[str, ...], tuple[str, ...]]] = {
    Layer.NETWORK: (("--network", "none"), ("--network", "host")),
    Layer.PROCESSES: ((), ("--pid", "host")),
    Layer.IPC: (("--ipc", "private", "--shm-size", str(SHARED_BYTES)), ("--ipc", "host")),
    Layer.CONTROL_GROUPS: (("--cgroupns", "private"), ("--cgroupns", "host")),
    Layer.HOSTNAME: (("--hostname", "sandbox"), ("--uts", "host")),
    Layer.CAPABILITIES: (("--cap-drop", "ALL", "--security-opt", "no-new-privileges"), ()),
    Layer.SYSTEM_CALLS: ((), ("--security-opt", "seccomp=unconfined")),
    Layer.USER_NAMESPACES: ((), ("--security-opt", "seccomp=unconfined")),
    Layer.KERNEL_SETTINGS: ((), ("--security-opt", "systempaths=unconfined")),
    Layer.TERMINAL: ((), ("--tty",)),
    Layer.SYSTEM_READ_ONLY: (("--read-only",), ()),
}


class _Attached(subprocess.Popen[bytes]):
    """A client attached to a container, which lives as long as ``line`` is open."""

    container = ""
    line: socket.socket | None = None


@dataclass(frozen=True, slots=True)
class ContainerBoundary:
    """Confines programs with Docker. ``without`` leaves walls out, for tests of the probes."""

    without: frozenset[Layer] = frozenset()
    name: str = "docker"

    def start(self, command: Sequence[str], view: View) -> subprocess.Popen[bytes]:
        """Start a program; see Boundary."""
        check_view(view)
        image = _image()
        name = f"refcompare-agent-{secrets.token_hex(8)}"
        directory = Path(tempfile.mkdtemp(prefix="refcompare-ct-"))
        directory.chmod(0o711)
        line = _lifeline(directory / "line.sock")
        try:
            files = _written(directory)
            told = "" if Layer.LIFETIME in self.without else _LIFELINE
            inside = launcher_command(view, limits=Layer.LIMITS not in self.without, lifeline=told)
            mounts = [*_mounts(view, files), Mount(_LIFELINE, directory / "line.sock", writable=True)]
            if Layer.FILES in self.without:
                mounts.append(Mount(str(view.workspace.parent), view.workspace.parent))
            options = [*self._options(view), *_mount_options(mounts)]
            docker_after_restart("create", "--name", name, *options, image, *inside, *command)
            process = _Attached(
                [docker_command(), "start", "--attach", "--interactive", name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except BaseException as error:
            line.close()
            shutil.rmtree(directory, ignore_errors=True)
            if isinstance(error, EngineRefused):
                raise EnvironmentFailure(
                    f"{error} An agent's container needs a Docker engine on this machine, which can see "
                    "its files."
                ) from error
            raise
        process.container, process.line = name, line
        _live[name] = os.getpid()
        if told:
            process.line = _taken_up(line, process)
        # What is mounted stays mounted; so nothing is left behind, however this process ends.
        shutil.rmtree(directory, ignore_errors=True)
        return process

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """End a program by removing its container."""
        process.kill()
        close_streams(process)
        process.wait()
        assert isinstance(process, _Attached)
        remove_containers([process.container])
        _live.pop(process.container, None)
        if process.line is not None:
            process.line.close()

    def _options(self, view: View) -> list[str]:
        user, group = (0, 0) if Layer.HOST_USER in self.without else workspace_owner()
        options = [
            "--rm", "--interactive", "--pull", "never", "--log-driver", "none", "--user", f"{user}:{group}",
            "--workdir", WORKSPACE, "--no-healthcheck", "--stop-signal", "KILL", "--dns", "127.0.0.1",
            "--pids-limit", str(_PROCESSES), "--memory", _MEMORY, "--memory-swap", _MEMORY,
        ]  # fmt: skip
        for layer, (wall, gap) in _WALLS.items():
            options += gap if layer in self.without else wall
        for path in ("/tmp", "/var/tmp", HOME):  # noqa: S108 (paths inside the container)
            options += _memory(path, None if Layer.MEMORY in self.without else TMP_BYTES)
        for hidden in hidden_directories():
            options += ["--tmpfs", f"{hidden}:ro,size=4k"]
        leaked = os.environ if Layer.ENVIRONMENT in self.without else {}
        for key, value in {**leaked, **ENVIRONMENT, **view.environment}.items():
            options += ["--env", f"{key}={value}"]
        return [*options, *ownership_labels()]


def _memory(path: str, size: int | None) -> list[str]:
    """Give the option for a directory in memory that belongs to the agent."""
    user, group = workspace_owner()
    bound = "" if size is None else f",size={size}"
    return ["--tmpfs", f"{path}:rw,exec,nosuid,nodev,mode=0755,uid={user},gid={group}{bound}"]


def _mounts(view: View, files: Sequence[Mount]) -> list[Mount]:
    return [
        Mount("/usr", Path("/usr")),
        *(Mount(path, Path(path).resolve()) for path in SYSTEM_FILES if Path(path).exists()),
        *(Mount(path, Path(path)) for path in SYSTEM_LINKS if _is_real_directory(Path(path))),
        *files,
        *view_mounts(view),
    ]


def _mount_options(mounts: Sequence[Mount]) -> list[str]:
    options = []
    for mount in mounts:
        if mount.source is None:
            options += _memory(mount.inside, mount.size)
            continue
        for path in (mount.inside, str(mount.source)):
            if "," in path or '"' in path:
                raise EnvironmentFailure(
                    f"Docker cannot mount {path!r}: rename it, without commas and quotes."
                )
        mode = "" if mount.writable else ",readonly"
        options += ["--mount", f"type=bind,source={mount.source},target={mount.inside}{mode}"]
    return options


def _written(directory: Path) -> list[Mount]:
    """Write the files that are made up where the engine can read them."""
    mounts = []
    for number, (path, text) in enumerate(
        {**system_files(workspace_owner()[0]), LAUNCHER: launcher_source()}.items()
    ):
        file = directory / f"file-{number}"
        file.write_text(text)
        file.chmod(0o644)
        mounts.append(Mount(path, file))
    return mounts


def _lifeline(path: Path) -> socket.socket:
    """Listen on a socket that closes with this process; nobody needs to answer on it."""
    line = socket.socket(socket.AF_UNIX)
    line.bind(str(path))
    path.chmod(0o666)
    line.listen(1)
    return line


def _taken_up(line: socket.socket, process: subprocess.Popen[bytes]) -> socket.socket:
    """Wait until the container has come up and holds its end of the lifeline, or has failed to."""
    line.settimeout(_POLL_SECONDS)
    while True:
        try:
            held = line.accept()[0]
        except TimeoutError:
            if process.poll() is not None:
                return line
        else:
            line.close()
            return held


def _is_real_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


@functools.cache
def _image() -> str:
    """Give the name of the empty image, made where the engine has none."""
    archive = _archive()
    name = f"{_REPOSITORY}:{hashlib.sha256(archive).hexdigest()[:32]}"
    if not docker("images", "--quiet", name):
        with tempfile.TemporaryFile() as file:
            file.write(archive)
            file.seek(0)
            docker("import", "--change", f"LABEL {KIND_LABEL}=image", "-", name, stdin=file)
    return name


def _archive() -> bytes:
    """Give the image's root: directories to mount to, and the links that lead into /usr."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for path in sorted({str(p) for name in _DIRECTORIES for p in (Path(name), *Path(name).parents[:-1])}):
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for link in map(Path, SYSTEM_LINKS):
            entry = tarfile.TarInfo(link.name)
            if link.is_symlink():
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, str(link.readlink()), 0o777
                archive.addfile(entry)
            elif link.is_dir():
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
    return data.getvalue()


_live: dict[str, int] = {}
"""The containers that this process must end: name => id of the process, since a fork inherits them."""


@atexit.register
def _remove_all() -> None:
    names = [name for name, owner in _live.items() if owner == os.getpid()]
    with suppress(EngineUnreachable):
        remove_containers(names)
