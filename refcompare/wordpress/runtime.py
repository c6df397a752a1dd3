"""What hosts a worker: the interface that native and Docker runtimes answer."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
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


def worker_command(php: str) -> list[str]:
    """Give the command inside a runtime that boots WordPress and starts the worker."""
    return [
        php,
        "/wp-cli.phar",
        "--path=/site",
        "--require=/grader/boot.php",
        "--skip-packages",
        "--no-color",
        "eval-file",
        "/grader/worker.php",
        "--use-include",
    ]


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
