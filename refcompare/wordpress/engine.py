"""The Docker engine: asked through the ``docker`` command, its failures named, leftovers removed.

The command is used rather than the engine's API so that contexts, remote engines and Docker
Desktop work as the user has set them up.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from filelock import FileLock, Timeout

from refcompare.errors import EnvironmentFailure
from refcompare.paths import cache_directory
from refcompare.resources import grader_source
from refcompare.sandbox import UNPRIVILEGED_ID, ProbeResult
from refcompare.wordpress.owners import is_gone, this_process

KIND_LABEL = "refcompare"
"""On everything of refcompare's in an engine: ``worker`` on a container or volume, ``image`` on an image,
``build`` on the empty volume that says that one is being built."""

OWNER_LABEL = "refcompare.owner"
"""On a container and its volumes: the refcompare process that they belong to, as ``owners`` writes it."""

UNFINISHED = "refcompare-unfinished"
"""The repository of images that are being built."""

_BUILD = "build"
_SINCE_LABEL = "refcompare.since"
_LONGEST_BUILD_SECONDS = 2 * 60 * 60

_TIMEOUT_SECONDS = 120.0
_RESTART_SECONDS = 30.0

_UNREACHABLE = (
    "cannot connect to the docker daemon",
    "is the docker daemon running",
    "error during connect",
    "failed to connect to the docker api",
    "permission denied while trying to connect",
    "connection refused",
    "docker daemon is not running",
)
_FULL = ("no space left on device", "disk quota exceeded")


class _Patience:
    """Whether an engine that does not answer is worth waiting for: one that did, and once only."""

    left = False


class EngineUnreachable(EnvironmentFailure):
    """No Docker engine answers: there is no command for it, no daemon, or no access to one."""


class EngineRefused(EnvironmentFailure):
    """The engine answered, and would not do what it was asked. ``said`` is its last word."""

    def __init__(self, message: str, said: str) -> None:
        super().__init__(message)
        self.said = said


def docker_command() -> str:
    """Give the path of ``docker``. Raises EngineUnreachable where it is not installed."""
    found = shutil.which("docker")
    if found is None:
        raise EngineUnreachable(
            "Docker is not installed (there is no docker command on PATH): install it, "
            "or grade with `--runtime native`."
        )
    return found


def docker(*arguments: str, stdin: IO[bytes] | None = None, timeout: float = _TIMEOUT_SECONDS) -> str:
    """Run ``docker`` with ``arguments`` and give what it prints, stripped.

    ``timeout`` is in seconds. Raises EngineUnreachable where no engine answers, EngineRefused where one
    says no.
    """
    command = [docker_command(), *arguments]
    try:
        process = subprocess.run(
            command, stdin=stdin or subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        asked = f"`docker {arguments[0]}` within {timeout:g} s"
        raise EngineUnreachable(f"The Docker engine did not answer {asked}: {_how_to_start()}.") from error
    if process.returncode == 0:
        _Patience.left = True
        return process.stdout.decode("utf-8", "replace").strip()
    raise failure_of(f"docker {arguments[0]}", process.stderr.decode("utf-8", "replace"))


def failure_of(action: str, said: str) -> EngineUnreachable | EngineRefused:
    """Give the exception for what the ``docker`` command said when ``action`` failed."""
    lines = [line.strip() for line in said.strip().splitlines() if line.strip()]
    # Old commands end with advice on --help, or with the usage of a flag that they do not know.
    told = [line for line in lines if not line.startswith(("See '", "Usage:", "Run '"))]
    last = told[-1] if told else "it gave no reason"
    lowered = said.lower()
    if any(mark in lowered for mark in _UNREACHABLE):
        return EngineUnreachable(f"No Docker engine answers: {_how_to_start(lowered)} ({last[:300]})")
    if is_full(said):
        return EngineRefused(
            f"The disk of the Docker engine is full ({action}): free some space, "
            "for instance with `docker system prune`.",
            last,
        )
    return EngineRefused(f"The Docker engine refused `{action}`: {last[:1000]}", last)


def is_full(said: str) -> bool:
    """Whether what the ``docker`` command said is about a disk without free space."""
    return any(mark in said.lower() for mark in _FULL)


def _how_to_start(said: str = "") -> str:
    """Say in a clause what makes an engine answer here."""
    if "permission denied" in said:
        return "this user may not use it; run `sudo usermod -aG docker $USER` and log in again"
    if sys.platform in ("darwin", "win32"):
        return "start Docker Desktop"
    if shutil.which("dockerd") and not shutil.which("systemctl"):
        return "start it with `sudo dockerd`"
    return "start it with `sudo systemctl start docker`"


def docker_available() -> ProbeResult:
    """Ask the engine for its version; where it does not answer, say why and what mends it."""
    try:
        answer = docker("version", "--format", "{{.Server.Version}} {{.Server.Os}}", timeout=20)
        version, system = answer.split()
    except (EnvironmentFailure, ValueError) as failure:
        return ProbeResult(False, str(failure))
    if system != "linux":
        return ProbeResult(
            False, f"The Docker engine runs {system} containers: switch it to Linux containers."
        )
    return ProbeResult(True, f"Docker {version} works")


def docker_after_restart(*arguments: str) -> str:
    """Run ``docker`` like docker(), waiting for an engine that has just gone away (30 s at most)."""
    deadline = time.monotonic() + _RESTART_SECONDS
    while True:
        try:
            return docker(*arguments)
        except EngineUnreachable:
            if not _Patience.left or time.monotonic() > deadline:
                _Patience.left = False
                raise
            time.sleep(0.5)


def boundary() -> list[str]:
    """Give the arguments of ``docker`` that confine a container, whatever runs in it.

    It has no network, a read-only root, an unprivileged user and the system calls of a native
    worker, and leaves no log behind.
    """
    return [
        "--rm", "--interactive", "--pull", "never", "--log-driver", "none", "--hostname", "sandbox",
        "--user", f"{UNPRIVILEGED_ID}:{UNPRIVILEGED_ID}",
        "--network", "none", "--dns", "127.0.0.1", "--dns-search", ".", "--ipc", "none", "--read-only",
        "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
        "--security-opt", f"seccomp={grader_source() / 'seccomp.json'}",
        "--no-healthcheck", "--stop-signal", "KILL",
        "--ulimit", "core=0:0", "--ulimit", "nofile=1024:1024", "--ulimit", "msgqueue=0:0",
    ]  # fmt: skip


def ownership() -> dict[str, str]:
    """Give the labels that mark a container or a volume as a worker's of this process."""
    return {KIND_LABEL: "worker", OWNER_LABEL: this_process()}


def ownership_labels() -> tuple[str, ...]:
    """Give these labels as arguments of ``docker``."""
    return tuple(label_arguments(ownership()))


def label_arguments(labels: Mapping[str, str]) -> list[str]:
    """Give labels as arguments of ``docker``."""
    return [argument for name, value in labels.items() for argument in ("--label", f"{name}={value}")]


def remove_containers(names: Sequence[str]) -> None:
    """Kill and remove containers with their volumes, and wait until they are gone.

    One that is gone already is no error. Raises EngineUnreachable where the engine does not answer.
    """
    for name in names:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                docker("rm", "--force", "--volumes", name)
            except EngineRefused as refused:
                if "no such container" in refused.said.lower():
                    break
                # It was about to be removed by the engine itself, or is being started right now.
                time.sleep(0.05)
            else:
                break


def reap() -> int:
    """Remove what refcompare processes that have ended left in the engine; give how many containers.

    A container whose owner lives, or lived on another machine, is left alone, and so is what a
    build on this machine is about to use. Raises EngineUnreachable where no engine answers.
    """
    listed = docker(
        "ps", "--all", "--no-trunc", "--filter", f"label={KIND_LABEL}=worker",
        "--format", f'{{{{.ID}}}}\t{{{{.Label "{OWNER_LABEL}"}}}}',
    )  # fmt: skip
    dead = []
    for line in listed.splitlines():
        identifier, _, owner = line.partition("\t")
        if is_gone(owner):
            dead.append(identifier)
    remove_containers(dead)
    volumes = docker(
        "volume", "ls", "--quiet", "--filter", f"label={KIND_LABEL}=worker", "--filter", "dangling=true"
    )
    for volume in volumes.split():
        # One that is refused has just been taken by a container that is being made.
        with suppress(EngineRefused):
            docker("volume", "rm", volume)
    with suppress(Timeout), build_lock(timeout=0):
        remove_unfinished()
    return len(dead)


@contextmanager
def building() -> Iterator[None]:
    """Mark in the engine that this process builds an image, for refcompares that share no lock with it."""
    name = f"refcompare-build-{secrets.token_hex(8)}"
    labels = {KIND_LABEL: _BUILD, OWNER_LABEL: this_process(), _SINCE_LABEL: str(int(time.time()))}
    docker("volume", "create", *label_arguments(labels), name)
    try:
        yield
    finally:
        with suppress(EnvironmentFailure):
            docker("volume", "rm", name)


def _others_build() -> bool:
    """Whether another process builds an image; marks of those that have ended are removed."""
    form = f'{{{{.Name}}}}\t{{{{.Label "{OWNER_LABEL}"}}}}\t{{{{.Label "{_SINCE_LABEL}"}}}}'
    marks = docker("volume", "ls", "--filter", f"label={KIND_LABEL}={_BUILD}", "--format", form)
    found = False
    for mark in marks.splitlines():
        name, owner, since = mark.split("\t")
        # A process of another boot or machine cannot be looked for.
        if is_gone(owner) or time.time() - float(since or 0) > _LONGEST_BUILD_SECONDS:
            with suppress(EngineRefused):
                docker("volume", "rm", name)
        elif owner != this_process():
            found = True
    return found


def build_lock(timeout: float = -1) -> FileLock:
    """Give the lock that a build of an image holds, since its layers look like leftovers until it is done."""
    return FileLock(cache_directory() / "images.lock", timeout=timeout)


def remove_unfinished() -> None:
    """Remove the names and layers that builds left unfinished, unless another process builds right now.

    To be called under build_lock().
    """
    if _others_build():
        return
    names = docker("images", "--format", "{{.Repository}}:{{.Tag}}", UNFINISHED)
    for name in names.split():
        with suppress(EngineRefused):
            docker("image", "rm", "--force", name)
    docker("image", "prune", "--force", "--filter", f"label={KIND_LABEL}=image")
