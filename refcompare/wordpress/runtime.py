"""What hosts a worker: the interface that native and Docker runtimes answer."""

from __future__ import annotations

import subprocess
from typing import Protocol

from refcompare.results import Environment


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
