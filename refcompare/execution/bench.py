"""The threads that grade: each keeps a worker for every environment that it is asked to grade in."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Generic, TypeVar

from refcompare.cache import VerdictCache
from refcompare.cache.entries import verdict_keys
from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.results import Record
from refcompare.wordpress.runtime import Runtime

T = TypeVar("T")
R = TypeVar("R")


class Memory:
    """What is already known: verdicts of this run, shared by its threads, over the verdict cache.

    With ``fresh`` nothing is looked up, so that everything is graded.
    """

    def __init__(self, cache: VerdictCache | None, *, fresh: bool = False) -> None:
        self._cache = cache
        self._fresh = fresh
        self._seen: dict[bytes, Record] = {}

    def recall(
        self, test: ExecutionTest, candidate: Candidate, runtime: Runtime, limits: Limits
    ) -> Record | None:
        """Give the record of the same candidate under the same test in the same environment."""
        if self._fresh:
            return None
        [key] = verdict_keys([(test, candidate)], runtime.environment, limits)
        seen = self._seen.get(key)
        if seen is not None:
            return replace(seen, test_id=test.id, candidate=candidate.name)
        return self._cache.get(test, candidate, runtime.environment, limits) if self._cache else None

    def keep(
        self, test: ExecutionTest, candidate: Candidate, runtime: Runtime, limits: Limits, record: Record
    ) -> None:
        """Remember a record for this run, and for later ones.

        Later attempts go to the cache too: it forgets a verdict that it is told in two ways.
        """
        if record.attempt == 1:
            [key] = verdict_keys([(test, candidate)], runtime.environment, limits)
            self._seen[key] = record
        if self._cache is not None:
            self._cache.put(test, candidate, runtime.environment, limits, replace(record, attempt=1))


class Bench:
    """One thread's workers. Grading asks the memory first, and a worker only where it must."""

    def __init__(self, memory: Memory, limits: Limits) -> None:
        self._memory = memory
        self._limits = limits
        self._graders: dict[int, GradingThread] = {}

    def grade(
        self,
        runtime: Runtime,
        test: ExecutionTest,
        candidate: Candidate,
        attempt: int = 1,
        limits: Limits | None = None,
    ) -> Record:
        """Grade a candidate within ``limits``, else the bench's own; a later attempt is always graded anew.

        Raises EnvironmentFailure where the first worker of an environment cannot be started.
        """
        limits = limits or self._limits
        if attempt == 1:
            known = self._memory.recall(test, candidate, runtime, limits)
            if known is not None:
                return known
        grader = self._graders.get(id(runtime))
        if grader is None:
            grader = self._graders[id(runtime)] = GradingThread(runtime)
            grader.prepare()
        record = grader.grade(test, candidate, limits, attempt)
        self._memory.keep(test, candidate, runtime, limits, record)
        return record

    def close(self) -> None:
        """End this thread's workers."""
        for grader in self._graders.values():
            grader.close()

    def abort(self) -> None:
        """Stop what is being graded, from any thread."""
        for grader in list(self._graders.values()):
            grader.abort()


class Floor(Generic[T, R]):
    """A floor of benches that work through pieces of work; results come back as they are done."""

    def __init__(self, jobs: int, make_bench: Callable[[], Bench]) -> None:
        self._jobs = jobs
        self._make_bench = make_bench

    def work(self, pieces: Sequence[T], task: Callable[[Bench, T], R]) -> Iterator[R]:
        """Give each piece's result, in the order in which they finish.

        An exception of a task ends the work and is raised here. Leaving the iterator early, by an
        interrupt too, stops the threads and their workers.
        """
        todo: queue.SimpleQueue[T] = queue.SimpleQueue()
        for piece in pieces:
            todo.put(piece)
        done: queue.SimpleQueue[R | BaseException] = queue.SimpleQueue()
        stop = threading.Event()
        benches = [self._make_bench() for _ in range(min(self._jobs, len(pieces)))]
        threads = [
            threading.Thread(target=_keep_busy, args=(bench, task, todo, done, stop), daemon=True)
            for bench in benches
        ]
        with _stopping(threads, benches, stop):
            for thread in threads:
                thread.start()
            for _ in pieces:
                result = _next(done)
                if isinstance(result, BaseException):
                    raise result
                yield result


def _keep_busy(
    bench: Bench,
    task: Callable[[Bench, T], R],
    todo: queue.SimpleQueue[T],
    done: queue.SimpleQueue[R | BaseException],
    stop: threading.Event,
) -> None:
    try:
        while not stop.is_set():
            try:
                piece = todo.get_nowait()
            except queue.Empty:
                return
            done.put(task(bench, piece))
    except BaseException as error:  # noqa: BLE001 (it is raised again in the thread that waits)
        done.put(error)
    finally:
        bench.close()


@contextmanager
def _stopping(
    threads: Sequence[threading.Thread], benches: Sequence[Bench], stop: threading.Event
) -> Iterator[None]:
    try:
        yield
    except BaseException:
        stop.set()
        for bench in benches:
            bench.abort()
        raise
    finally:
        for thread in threads:
            if thread.ident is not None:
                thread.join()


def _next(done: queue.SimpleQueue[R | BaseException]) -> R | BaseException:
    """Wait for a result in slices, so that an interrupt is seen on every platform."""
    while True:
        try:
            return done.get(timeout=0.5)
        except queue.Empty:
            continue
