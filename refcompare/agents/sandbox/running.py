"""A confined program, attended to until it ends or has to: what it prints, how long, how it ended."""

from __future__ import annotations

import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from refcompare.agents.model.gateway import GatewayHandle
from refcompare.agents.programs.interface import Task
from refcompare.agents.sandbox.boundary import Boundary, View
from refcompare.sandbox import Mount

LINE_BYTES = 32 * 1024 * 1024
"""A longer line of a program's output is left out."""

OUTPUT_BYTES = 512 * 1024 * 1024
"""A program that prints more in all is ended."""

_ERROR_BYTES = 65536
_STEP_SECONDS = 0.2
_GRACE_SECONDS = 5.0
_PIECE = 65536


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended: its status (negative for a signal), and which limit ended it, if one did.

    ``errors`` is the end of what it wrote to its standard error, ``seconds`` the wall time.
    """

    status: int
    seconds: float
    errors: str = ""
    timed_out: bool = False
    stopped: bool = False
    too_much: bool = False

    @property
    def last_words(self) -> str:
        """What it said last on its standard error, or else how it ended."""
        return self.errors.strip()[-2000:] or f"it ended with status {self.status} and said no more"


def run_agent(
    boundary: Boundary,
    command: Sequence[str],
    task: Task,
    gateway: GatewayHandle | None,
    *,
    mounts: Sequence[Mount] = (),
    environment: Mapping[str, str] | None = None,
    on_line: Callable[[bytes, float], object] | None = None,
) -> Ran:
    """Run an agent's program on a task, with the prompt on its standard input; see `run_program`.

    ``mounts`` and ``environment`` are what it sees beside its workspace and its way to the model.
    """
    view = View(
        task.workspace,
        read_only=task.read_only,
        mounts=tuple(mounts),
        environment=environment or {},
        socket=None if gateway is None else gateway.socket,
    )
    return run_program(
        boundary,
        command,
        view,
        seconds=task.limits.seconds,
        stdin=task.prompt.encode("utf-8", "surrogatepass"),
        on_line=on_line,
        stopped=None if gateway is None else gateway.stopped,
    )


def run_program(
    boundary: Boundary,
    command: Sequence[str],
    view: View,
    *,
    seconds: float,
    stdin: bytes = b"",
    on_line: Callable[[bytes, float], object] | None = None,
    stopped: threading.Event | None = None,
) -> Ran:
    """Run a program to its end, or for so many seconds; everything it started is gone afterwards.

    ``on_line`` gets each line of its standard output, without the line's end, and the seconds since
    the start. Some seconds after ``stopped`` is set the program is ended, if it has not ended by itself.
    Raises EnvironmentFailure where it cannot be started.
    """
    started = time.monotonic()
    process = boundary.start(command, view)
    try:
        attended = _Attended(process, stdin, on_line or (lambda line, when: None), started)
        return attended.until(started + seconds, stopped)
    finally:
        boundary.stop(process)


class _Attended:
    """The three streams of one process, in one loop: none of them may block another."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        stdin: bytes,
        on_line: Callable[[bytes, float], object],
        started: float,
    ) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._process = process
        self._on_line = on_line
        self._started = started
        self._left = memoryview(stdin)
        self._line = bytearray()
        self._skipping = False
        self._errors = bytearray()
        self._printed = 0
        self._selector = selectors.DefaultSelector()
        for stream, event, handle in (
            (process.stdin, selectors.EVENT_WRITE, self._write),
            (process.stdout, selectors.EVENT_READ, self._read),
            (process.stderr, selectors.EVENT_READ, self._read_error),
        ):
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, event, handle)

    def until(self, deadline: float, stopped: threading.Event | None) -> Ran:
        """Attend until the end, the deadline, or what ``stopped`` grants."""
        timed_out = was_stopped = False
        with self._selector:
            while self._reading() or self._process.poll() is None:
                now = time.monotonic()
                if stopped is not None and stopped.is_set() and not was_stopped:
                    was_stopped, deadline = True, min(deadline, now + _GRACE_SECONDS)
                if now >= deadline or self._printed > OUTPUT_BYTES:
                    timed_out = not was_stopped and self._printed <= OUTPUT_BYTES
                    break
                self._step(min(_STEP_SECONDS, deadline - now))
        if self._line and not self._skipping:
            self._emit()
        status = self._process.poll()
        return Ran(
            status=-9 if status is None else status,
            seconds=time.monotonic() - self._started,
            errors=bytes(self._errors).decode("utf-8", "replace"),
            timed_out=timed_out,
            stopped=was_stopped,
            too_much=self._printed > OUTPUT_BYTES,
        )

    def _step(self, seconds: float) -> None:
        if not self._reading():
            # It closed its streams and goes on.
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
            return
        for key, _ in self._selector.select(seconds):
            key.data(key.fileobj)

    def _reading(self) -> bool:
        return any(key.events == selectors.EVENT_READ for key in self._selector.get_map().values())

    def _write(self, stream: IO[bytes]) -> None:
        try:
            self._left = self._left[os.write(stream.fileno(), self._left[:_PIECE]) :]
        except BrokenPipeError:
            self._left = self._left[:0]
        if not self._left:
            self._selector.unregister(stream)
            stream.close()

    def _read_error(self, stream: IO[bytes]) -> None:
        piece = os.read(stream.fileno(), _PIECE)
        if not piece:
            self._selector.unregister(stream)
        self._printed += len(piece)
        self._errors += piece
        del self._errors[:-_ERROR_BYTES]

    def _read(self, stream: IO[bytes]) -> None:
        piece = os.read(stream.fileno(), _PIECE)
        if not piece:
            self._selector.unregister(stream)
        self._printed += len(piece)
        *ended, rest = piece.split(b"\n")
        for part in ended:
            self._line += part
            if not self._skipping:
                self._emit()
            self._line.clear()
            self._skipping = False
        self._line += rest
        if len(self._line) > LINE_BYTES:
            self._skipping = True
            self._line.clear()

    def _emit(self) -> None:
        if len(self._line) <= LINE_BYTES:
            self._on_line(bytes(self._line), time.monotonic() - self._started)
