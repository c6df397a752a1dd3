"""What hosts a worker: the interface that native and Docker runtimes answer."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from typing import Protocol

from refcompare.results import Environment

WRITABLE_BYTES = 128 * 1024 * 1024
"""The size of each place that a candidate may write to; all of it is in memory."""

WORKER_ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/scratch",
    "TMPDIR": "/scratch",
    "LANG": "C.UTF-8",
    "REFCOMPARE_DB_DIR": "/scratch/boot",
}
"""All of a worker's environment variables."""


_ASSIGNMENTS = " ".join(f"{name}={shlex.quote(value)}" for name, value in WORKER_ENVIRONMENT.items())

ENTER = f'exec env -i {_ASSIGNMENTS} PWD=/scratch "$@" 2>>/scratch/output'
"""What a shell inside does with a worker's command: it makes room for it in an environment made anew,
since runtimes add to theirs. Standard error goes into the file that keeps what a candidate prints
there (see php/src/class-child.php), so that candidates share that stream with nobody outside."""


class Runtime(Protocol):
    """Starts workers for one arm. Runtimes differ in nothing but how a worker is started and ended."""

    @property
    def environment(self) -> Environment:
        """What grades here: versions and digests."""

    def start(self) -> subprocess.Popen[bytes]:
        """Start a worker that boots at once; it speaks the protocol on its three standard streams.

        The worker ends with the calling thread. Raises EnvironmentFailure where none can be had.
        """

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """End a worker and everything in it, at once, and collect it. Safe to call twice."""

    def ended_from_outside(self, process: subprocess.Popen[bytes]) -> str | None:
        """Say in a clause what ended a worker, where it was nothing inside; None where it ended by itself.

        ``process`` has closed its streams. A worker is the first process of its namespace, so no signal
        from inside can end it.
        """


def worker_command(php: str, settings: Sequence[str]) -> list[str]:
    """Give the command inside a runtime that boots WordPress and starts the worker."""
    return [
        php,
        "-n",
        *settings,
        "/wp-cli.phar",
        "--path=/site",
        "--require=/grader/boot.php",
        "--skip-packages",
        "--no-color",
        "eval-file",
        "/grader/worker.php",
        "--use-include",
    ]


def signalled(process: subprocess.Popen[bytes], seconds: float = 5.0) -> str | None:
    """Say which signal ended a process that is about to be gone, as a shell writes it; None for no signal."""
    try:
        status = process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    number = -status if status < 0 else status - 128
    return f"it was ended by signal {number}" if 0 < number < 65 else None


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, collect it, and close its streams."""
    process.kill()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            try:
                stream.close()
            except BrokenPipeError:
                continue  # the unsent rest of a request to a dead worker
    process.wait()
