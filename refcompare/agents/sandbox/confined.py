"""A shell command run behind the boundary to its end: what sets a workspace up, and what checks it."""

from __future__ import annotations

import os
import selectors
import subprocess
import time

from refcompare.agents.checks.interface import CommandResult
from refcompare.agents.sandbox.boundary import Boundary, View

MOST_OUTPUT = 64 * 1024
"""Bytes of output that are kept; the rest is read and dropped."""

_SLICE = 0.2


def run_confined(boundary: Boundary, command: str, view: View, seconds: float) -> CommandResult:
    """Run a shell command in a view of a workspace, with nothing on its standard input.

    What it left running is ended with it. Raises EnvironmentFailure where it cannot be started.
    """
    deadline = time.monotonic() + seconds
    process = boundary.start(["/bin/bash", "-c", command], view)
    try:
        output = _output(process, deadline)
        exit_code = process.poll()
    finally:
        boundary.stop(process)
    return CommandResult(exit_code, output.decode("utf-8", "replace"))


def _output(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """Read both streams until the process has ended or the time is over; give the start of what came."""
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stdin.close()
    kept = bytearray()
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            os.set_blocking(stream.fileno(), False)
            selector.register(stream.fileno(), selectors.EVENT_READ)
        while time.monotonic() < deadline:
            ended = process.poll() is not None
            ready = selector.select(0 if ended else min(_SLICE, max(0, deadline - time.monotonic())))
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                kept += chunk[: MOST_OUTPUT - len(kept)]
                if not chunk:
                    selector.unregister(key.fd)
            # Something in the background may hold the streams open for longer than the command runs.
            if ended and not ready:
                break
            if not selector.get_map():
                _wait(process, deadline)
    return bytes(kept)


def _wait(process: subprocess.Popen[bytes], deadline: float) -> None:
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return
