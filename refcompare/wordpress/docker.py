"""Workers in containers of a Docker engine, which may be on another machine."""

from __future__ import annotations

import atexit
import os
import secrets
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from refcompare.errors import EnvironmentFailure
from refcompare.results import Environment
from refcompare.sandbox import UNPRIVILEGED_ID
from refcompare.wordpress.engine import (
    EngineRefused,
    EngineUnreachable,
    boundary,
    docker_after_restart,
    docker_command,
    ownership,
    ownership_labels,
    reap,
    remove_containers,
)
from refcompare.wordpress.image import Image
from refcompare.wordpress.php_settings import php_settings
from refcompare.wordpress.runtime import (
    ENTER,
    WRITABLE_BYTES,
    end_process,
    signalled,
    worker_command,
)

CANDIDATE_BYTES = 512 * 1024 * 1024
"""What one candidate may use of memory where nothing else is said, as in ``Limits``."""

_CONTENT = "/site/wp-content"
_WRITABLE = ("/scratch", "/tmp", _CONTENT, f"{_CONTENT}/plugins", f"{_CONTENT}/themes")  # noqa: S108
_PROCESSES = 32
_FILES = 65536
"""How many files and directories each writable place may hold."""

_PARENT_BYTES = 384 * 1024 * 1024
"""For WordPress booted once (80 MB) and what the kernel keeps of files and processes."""

_PREPARATION = Path(__file__).with_name("container.php").read_text(encoding="utf-8").removeprefix("<?php")

# The shell makes room for the worker, which so becomes the container's first process: no signal
# of a candidate's can end or stop that one. Nothing else may run beside it, since a program that
# its user can read (an init, a shell) could be written to through /proc.
_ENTRY = f'"$1" -n -r "$0" -- %s && {ENTER}'

_ENGINE_STATUSES = (125, 126, 127)
"""What ``docker start`` ends with where it was the engine that failed, and not the container."""

_live: dict[str, int] = {}
"""The containers that this process must end: name => id of the process, since a fork inherits them."""

_missed: list[str] = []
"""Containers that could not be removed, for want of an engine that answers."""


@dataclass(frozen=True, slots=True)
class DockerRuntime:
    """Workers from an image: one container each, without network, with a read-only root.

    ``memory`` is what one candidate may use, in bytes (a container gets more: the parent's share
    and all that can be written, which is in memory too); ``cpus`` how many processors a worker
    may keep busy.
    """

    image: Image
    memory: int = CANDIDATE_BYTES
    cpus: float = 1.0

    @property
    def environment(self) -> Environment:
        """What grades here, as it was found in the image when that was built."""
        return self.image.environment

    def start(self) -> subprocess.Popen[bytes]:
        """Start a worker in a container of its own.

        The worker ends when its standard input closes, so also when this process is killed; a
        candidate that is running then ends by its own limit. The engine removes the container.
        """
        name = f"refcompare-{secrets.token_hex(8)}"
        _live[name] = os.getpid()
        try:
            self._create(name)
            return subprocess.Popen(
                [docker_command(), "start", "--attach", "--interactive", name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Ctrl-C in a terminal goes to a whole group, and the client would pass it on.
                start_new_session=True,
            )
        except BaseException:
            _remove(name)
            raise

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """End a worker by removing its container."""
        end_process(process)
        assert isinstance(process.args, list)
        _remove(process.args[-1])

    def ended_from_outside(self, process: subprocess.Popen[bytes]) -> str | None:
        """Say how a container was ended; ``docker`` has statuses of its own for an engine that went away."""
        signal = signalled(process)
        return "the Docker engine went away" if process.poll() in _ENGINE_STATUSES else signal

    def _create(self, name: str) -> None:
        try:
            docker_after_restart("create", "--name", name, *self._options(), self.image.id, *self._command())
        except EngineRefused as refused:
            if "no such image" not in refused.said.lower():
                raise
            raise EnvironmentFailure(
                f"The worker image {self.image.reference} is no longer there: "
                "build it with `refcompare wordpress image build`."
            ) from refused

    def _command(self) -> list[str]:
        php = self.image.php
        settings = php_settings(php.extensions, php.extension_directory)
        entry = _ENTRY % " ".join(self.image.protected)
        return ["-c", entry, _PREPARATION, *worker_command(php.binary, settings)]

    def _options(self) -> list[str]:
        memory = str(self.memory + _PARENT_BYTES + WRITABLE_BYTES * len(_WRITABLE))
        options = [
            *boundary(), "--workdir", "/scratch", "--entrypoint", "/bin/sh",
            "--pids-limit", str(_PROCESSES), "--memory", memory, "--memory-swap", memory,
            "--cpus", str(self.cpus),
            # A /dev of its own has no message queues, shared memory and terminals, and its files
            # keep their times; /sys would show how much the container has used so far. All of
            # that outlives the candidate that leaves a sign there.
            "--tmpfs", "/dev:ro,dev,nosuid,noexec,size=64k,mode=0755",
            "--tmpfs", "/sys:ro,nosuid,nodev,noexec,size=4k,mode=0555",
        ]  # fmt: skip
        writable = f"rw,nosuid,nodev,noexec,size={WRITABLE_BYTES},nr_inodes={_FILES},mode=0755"
        for path in _WRITABLE:
            options += ["--tmpfs", f"{path}:{writable},uid={UNPRIVILEGED_ID},gid={UNPRIVILEGED_ID}"]
        # The engine fills an unnamed volume from the image at the same path and removes it with
        # its container. Its files stay root's, and the place of a mount can be neither renamed
        # nor removed: so a candidate can add a plugin or a theme, and change none.
        marks = ",".join(f"volume-label={name}={value}" for name, value in ownership().items())
        for path in self.image.protected:
            options += ["--mount", f"type=volume,{marks},target={path}"]
        return [*options, *ownership_labels()]


def _remove(name: str) -> None:
    """Remove a container. An engine that is away removes it by itself when it is back."""
    if _live.get(name) != os.getpid():
        return
    try:
        remove_containers([name])
    except EngineUnreachable:
        _missed.append(name)
    finally:
        _live.pop(name, None)


@atexit.register
def _remove_all() -> None:
    for name in tuple(_live):
        _remove(name)
    if _missed:
        # An engine that was restarted forgets the volumes of what it removes.
        with suppress(EnvironmentFailure):
            reap()
