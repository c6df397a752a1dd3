"""The client of one resident worker: starts it, speaks its protocol, holds its deadlines."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import selectors
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from refcompare.errors import EnvironmentFailure
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.wordpress.graders import PROTOCOL
from refcompare.wordpress.runtime import Runtime

_BOOT_SECONDS = 60.0
_GRACE_SECONDS = 5.0
"""What a worker gets beyond a candidate's limit before it is taken to be stuck and is ended."""

_MAX_LINE = 64 * 1024 * 1024

_MAX_REQUEST = 16 * 1024 * 1024
"""What a worker takes in one line: half of what it reads, and what a child has room for."""

_token = secrets.token_hex


class WorkerDied(Exception):
    """The worker ended, stopped answering, or answered nonsense; it must be replaced.

    ``stuck`` says that it did not answer, ``cause`` what ended it where that was outside of it.
    """

    def __init__(self, message: str, *, stuck: bool = False, cause: str | None = None) -> None:
        super().__init__(message)
        self.stuck = stuck
        self.cause = cause


class TooLarge(Exception):
    """A test or a candidate is larger than a worker takes."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a candidate's process ended: exit ``status`` or ``signal``, and what it left in ``stderr``."""

    status: int | None
    signal: int | None
    timeout: bool
    stderr: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one grading gave.

    ``verdict`` is the signed statement of the grader, None where there was none that verifies;
    ``forged`` says that something else was sent in its place. ``finished`` says that the
    candidate's own turn ended as it should. ``ms`` is wall time in milliseconds.
    """

    verdict: Mapping[str, Any] | None
    finished: bool
    forged: bool
    ending: Ending
    ms: float


class Worker:
    """One worker process. Not thread-safe; it ends with the thread that started it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._process = runtime.start()
        self._buffer = bytearray()
        self._count = 0
        self._fit = True
        assert self._process.stdout is not None and self._process.stderr is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        os.set_blocking(self._process.stderr.fileno(), False)
        try:
            self.versions = self._await_ready()
        except BaseException:
            self.close()
            raise

    @property
    def fit(self) -> bool:
        """Whether this worker may grade another candidate."""
        return self._fit and self._process.poll() is None

    @property
    def process_id(self) -> int:
        """The id of the worker's outermost process."""
        return self._process.pid

    def close(self) -> None:
        """End the worker."""
        self._fit = False
        self._runtime.stop(self._process)

    def kill(self) -> None:
        """End the worker's process without collecting it; safe from another thread."""
        self._fit = False
        self._process.kill()

    def grade(self, test: ExecutionTest, candidate: Candidate, limits: Limits) -> Outcome:
        """Grade one candidate.

        Raises WorkerDied, and the worker is then of no further use; TooLarge, and nothing has happened.
        """
        started = time.perf_counter()
        deadline = time.monotonic() + limits.seconds + _GRACE_SECONDS
        nonce, secret = _token(32), _token(32)
        first = _line(_first_request(self._count + 1, nonce, test, candidate, limits))
        second = _line(_second_request(test, secret))
        self._count += 1
        self._fit = False
        self._send(first, deadline)
        finished, forged = False, False
        verdict: Mapping[str, Any] | None = None
        while (message := self._receive(deadline)).get("event") != "done":
            data = message.get("data")
            if message.get("event") == "candidate" and not finished and not forged:
                finished = _proves(data, nonce)
                forged = not finished
                self._send(second if finished else _ABORT, deadline)
            elif message.get("event") == "verdict" and finished and verdict is None:
                verdict = _authentic(data, secret)
                forged = forged or verdict is None
        self._fit = message.get("clean") is True
        ending = Ending(
            message.get("status"),
            message.get("signal"),
            bool(message.get("timeout")),
            str(message.get("stderr") or ""),
        )
        return Outcome(verdict, finished, forged, ending, (time.perf_counter() - started) * 1000)

    def _await_ready(self) -> Mapping[str, Any]:
        """Read up to the worker's greeting; what PHP or WP-CLI print before it is kept for errors."""
        deadline = time.monotonic() + _BOOT_SECONDS
        noise: list[str] = []
        while True:
            try:
                line = self._read_line(deadline)
            except WorkerDied as died:
                said = " ".join([*noise, self._errors()]).strip() or str(died)
                raise EnvironmentFailure(f"The WordPress worker did not start: {said[-2000:]}") from died
            if line.startswith(b'{"event":"ready"'):
                ready: Mapping[str, Any] = json.loads(line)
                if ready.get("protocol") != PROTOCOL:
                    raise EnvironmentFailure(
                        f"The worker speaks protocol {ready.get('protocol')}, this refcompare {PROTOCOL}: "
                        "use a grader of the same release."
                    )
                return ready
            noise.append(line.decode("utf-8", "replace").strip())

    def _errors(self) -> str:
        assert self._process.stderr is not None
        try:
            return (os.read(self._process.stderr.fileno(), 65536) or b"").decode("utf-8", "replace").strip()
        except BlockingIOError:
            return ""

    def _ended(self) -> WorkerDied:
        return WorkerDied("the worker ended", cause=self._runtime.ended_from_outside(self._process))

    def _send(self, line: bytes, deadline: float) -> None:
        assert self._process.stdin is not None
        descriptor = self._process.stdin.fileno()
        os.set_blocking(descriptor, False)
        data = memoryview(line)
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_WRITE)
            while data:
                if not selector.select(deadline - time.monotonic()):
                    raise WorkerDied("the worker stopped reading", stuck=True)
                try:
                    data = data[os.write(descriptor, data) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError as error:
                    raise self._ended() from error

    def _receive(self, deadline: float) -> dict[str, Any]:
        try:
            message = json.loads(self._read_line(deadline))
        except ValueError as error:
            raise WorkerDied(f"the worker answered nonsense: {error}") from error
        if not isinstance(message, dict) or message.get("id") != self._count:
            raise WorkerDied("the worker answered another request")
        return message

    def _read_line(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while (end := self._buffer.find(b"\n")) < 0:
                if len(self._buffer) > _MAX_LINE:
                    raise WorkerDied("the worker sent an endless line")
                if not selector.select(deadline - time.monotonic()):
                    raise WorkerDied("the worker stopped answering", stuck=True)
                try:
                    chunk = os.read(descriptor, 262144)
                except BlockingIOError:
                    continue
                if not chunk:
                    raise self._ended()
                self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line


def _line(message: Mapping[str, Any]) -> bytes:
    """Encode a message; halves of surrogate pairs, which PHP could not decode, become question marks."""
    line = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    if len(line) > _MAX_REQUEST:
        raise TooLarge(f"{len(line)} bytes are more than the {_MAX_REQUEST} that a worker takes at once")
    return line


_ABORT = b'{"abort": true}\n'


def _first_request(
    number: int, nonce: str, test: ExecutionTest, candidate: Candidate, limits: Limits
) -> Mapping[str, Any]:
    """What the child knows while the candidate runs: no assertion, no teardown, no secret."""
    return {
        "id": number,
        "nonce": nonce,
        "setup": test.setup,
        "code": candidate.code,
        "files": None if candidate.files is None else dict(candidate.files),
        "limits": {"seconds": limits.seconds, "memory": limits.memory, "output": limits.output},
    }


def _second_request(test: ExecutionTest, secret: str) -> Mapping[str, Any]:
    return {
        "static_checks": dict(test.static_checks),
        "assertions": [dict(assertion) for assertion in effective_assertions(test)],
        "teardown": test.teardown,
        "secret": secret,
    }


def effective_assertions(test: ExecutionTest) -> tuple[Mapping[str, Any], ...]:
    """Give the assertions that run: an unscored check of the entry point first, then the authored ones."""
    if test.gateway is None:
        return test.assertions
    entry = {
        "type": "function_exists",
        "target": test.gateway,
        "description": f"The entry point {test.gateway}() is defined",
        "weight": 0,
    }
    return (entry, *test.assertions)


def _proves(data: object, nonce: str) -> bool:
    """Whether a child's first line carries the nonce that only the grading function holds."""
    message = _object(data)
    told = None if message is None else message.get("nonce")
    return isinstance(told, str) and hmac.compare_digest(_bytes(told), nonce.encode())


def _authentic(data: object, secret: str) -> Mapping[str, Any] | None:
    """Give the verdict where its signature holds."""
    message = _object(data)
    if message is None:
        return None
    verdict, mac = message.get("verdict"), message.get("mac")
    if not isinstance(verdict, str) or not isinstance(mac, str):
        return None
    expected = hmac.new(secret.encode(), _bytes(verdict), hashlib.sha256).hexdigest()
    return _object(verdict) if hmac.compare_digest(_bytes(mac), expected.encode()) else None


def _bytes(text: str) -> bytes:
    """Encode what a child said; JSON can name halves of surrogate pairs, which UTF-8 has no bytes for."""
    return text.encode("utf-8", "surrogatepass")


def _object(text: object) -> Mapping[str, Any] | None:
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
