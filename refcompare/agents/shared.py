"""What the trials of a run share: workspaces, a boundary that can be ended, what grades plugins."""

from __future__ import annotations

import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from refcompare.agents.evals import WorkspaceSpec
from refcompare.agents.sandbox.boundary import Boundary, View
from refcompare.agents.workspace.workspaces import ArmWorkspace, LinkedTree, build_workspace
from refcompare.errors import EnvironmentFailure, RefcompareError
from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.results import Record
from refcompare.wordpress.runtime import Runtime

_Key = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...], tuple[str, ...]]


class Workspaces:
    """Builds each arm's workspace when its first trial wants it, and removes it after its last one.

    ``trials`` names the arm and the spec of every trial that will ask. Thread-safe.
    """

    def __init__(self, trials: Iterable[tuple[str, WorkspaceSpec]], boundary: Boundary) -> None:
        self._boundary = boundary
        self._left = Counter(_key(arm, spec) for arm, spec in trials)
        self._locks = {key: threading.Lock() for key in self._left}
        self._built: dict[_Key, ArmWorkspace | RefcompareError] = {}
        self._open: dict[_Key, ExitStack] = {}

    @contextmanager
    def of(self, trial: tuple[str, WorkspaceSpec], tree: LinkedTree) -> Iterator[ArmWorkspace]:
        """Give the workspace of a trial's arm. Raises what building it raised, for every trial alike."""
        key = _key(*trial)
        try:
            with self._locks[key]:
                if key not in self._built:
                    self._built[key] = self._build(key, tree, trial[1])
                built = self._built[key]
            if isinstance(built, RefcompareError):
                raise built
            yield built
        finally:
            with self._locks[key]:
                self._left[key] -= 1
                if not self._left[key]:
                    self._close(key)

    def close(self) -> None:
        """Remove what is left."""
        for key in list(self._open):
            self._close(key)

    def _build(self, key: _Key, tree: LinkedTree, spec: WorkspaceSpec) -> ArmWorkspace | RefcompareError:
        stack = ExitStack()
        try:
            built = stack.enter_context(build_workspace(tree, spec, self._boundary))
        except RefcompareError as error:
            return error
        self._open[key] = stack
        return built

    def _close(self, key: _Key) -> None:
        stack = self._open.pop(key, None)
        if stack is not None:
            stack.close()


def _key(arm: str, spec: WorkspaceSpec) -> _Key:
    return arm, spec.hide, tuple(sorted(spec.files.items())), spec.setup


class StoppableBoundary:
    """A boundary that can end everything behind it, from any thread."""

    def __init__(self, boundary: Boundary) -> None:
        self.name = boundary.name
        self._boundary = boundary
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def start(self, command: Sequence[str], view: View) -> subprocess.Popen[bytes]:
        """Start a program; see Boundary. Raises EnvironmentFailure after ``abort``."""
        with self._lock:
            if self._stopped:
                raise EnvironmentFailure("The trials were stopped.")
        process = self._boundary.start(command, view)
        with self._lock:
            self._running.add(process)
            if self._stopped:
                process.kill()
        return process

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """End a program; see Boundary."""
        self._boundary.stop(process)
        with self._lock:
            self._running.discard(process)

    def abort(self) -> None:
        """Kill what runs, and start nothing more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.kill()


class WordPressBench:
    """Grades plugins for one thread, on a worker that is started when the first check wants it."""

    def __init__(self, runtime: Callable[[], Runtime]) -> None:
        self._runtime = runtime
        self._grader: GradingThread | None = None

    def grade(self, test: ExecutionTest, candidate: Candidate, limits: Limits) -> Record:
        """Grade a plugin. Raises EnvironmentFailure where WordPress cannot be had."""
        if self._grader is None:
            self._grader = GradingThread(self._runtime())
        return self._grader.grade(test, candidate, limits)

    def close(self) -> None:
        """End the worker, if there is one."""
        if self._grader is not None:
            self._grader.close()
            self._grader = None

    def abort(self) -> None:
        """Stop what is being graded, from any thread."""
        grader = self._grader
        if grader is not None:
            grader.abort()


class OnceRuntime:
    """Asks for what hosts WordPress once, for all threads, and remembers a failure too."""

    def __init__(self, runtime: Callable[[], Runtime]) -> None:
        self._make = runtime
        self._lock = threading.Lock()
        self._made: Runtime | RefcompareError | None = None

    def __call__(self) -> Runtime:
        """Give the runtime. Raises what making it raised."""
        with self._lock:
            if self._made is None:
                try:
                    self._made = self._make()
                except RefcompareError as error:
                    self._made = error
            if isinstance(self._made, RefcompareError):
                raise self._made
            return self._made
