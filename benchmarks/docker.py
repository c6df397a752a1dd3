"""What Docker costs over the native sandbox: the same references, one after the other, in both."""

from __future__ import annotations

import functools
import os
import statistics
from collections.abc import Iterator
from pathlib import Path

from benchmarks.grading import tests_of
from benchmarks.place import Place
from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Limits
from refcompare.pipeline import reference_candidate
from refcompare.wordpress.docker import DockerRuntime
from refcompare.wordpress.engine import docker, docker_available
from refcompare.wordpress.graders import installed_grader
from refcompare.wordpress.image import ensure_image
from refcompare.wordpress.native import NativeRuntime
from refcompare.wordpress.php import find_php
from refcompare.wordpress.releases import ensure_release
from refcompare.wordpress.runtime import Runtime
from refcompare.wordpress.site import ensure_site

ROUNDS = 3
"""How often each reference is graded in each runtime; the fastest counts."""

TICK_MS = 10
"""The unit of a process's times in /proc, in milliseconds."""


def docker_overhead(place: Place) -> Iterator[str]:
    """Milliseconds of wall and processor time per reference in Docker and natively, and their ratio."""
    engine = docker_available()
    if not engine.works:
        yield f"docker              not measured: {engine.message}"
        return
    load, processors = os.getloadavg()[0], os.cpu_count() or 1
    if load > processors:
        yield (
            f"busy machine        load {load:.1f} on {processors} processors: all containers together get "
            "one process's share, so only the processor times compare"
        )
    tests = tests_of(place.repository, place.head)
    release, grader, php = ensure_release(), installed_grader(), find_php()
    runtimes: dict[str, Runtime] = {
        "native": NativeRuntime(ensure_site(release, php), php, grader),
        "docker": DockerRuntime(ensure_image(release, grader)),
    }
    threads = {name: GradingThread(runtime) for name, runtime in runtimes.items()}
    wall: dict[str, list[float]] = {name: [] for name in runtimes}
    spent = dict.fromkeys(runtimes, 0.0)
    verdicts = {name: set[tuple[str, str]]() for name in runtimes}
    try:
        for thread in threads.values():
            thread.prepare()
        for test in tests:
            best: dict[str, float] = {}
            for turn in range(ROUNDS):
                # Whoever goes first finds colder caches, so they take turns.
                for name in sorted(threads, reverse=bool(turn % 2)):
                    before = _processor_ms(name, threads[name])
                    record = threads[name].grade(test, reference_candidate(test), Limits())
                    spent[name] += _processor_ms(name, threads[name]) - before
                    best[name] = min(record.ms, best.get(name, record.ms))
                    verdicts[name].add((test.id, str(record.error_kind or record.verdict)))
            for name, ms in best.items():
                wall[name].append(ms)
    finally:
        for thread in threads.values():
            thread.close()
    native, contained = (statistics.median(wall[name]) for name in ("native", "docker"))
    ratio = statistics.median(d / n for d, n in zip(wall["docker"], wall["native"], strict=True))
    per = {name: total / (len(tests) * ROUNDS) for name, total in spent.items()}
    differing = len({test for test, _ in verdicts["native"] ^ verdicts["docker"]})
    yield f"references          {len(tests)} tests, {ROUNDS} rounds interleaved, {differing} verdicts differ"
    yield f"native              {native:8.1f} ms median      {per['native']:.1f} ms of processor each"
    yield f"docker              {contained:8.1f} ms median      {per['docker']:.1f} ms of processor each"
    yield (
        f"docker over native  {ratio:8.2f} median of the tests' ratios (at most 1.3)      "
        f"{per['docker'] / per['native']:.2f} of processor time"
    )


def _processor_ms(name: str, thread: GradingThread) -> float:
    """Give the processor time of a worker and of the children that it has reaped, in milliseconds."""
    fields = Path(f"/proc/{_worker(name, thread.process_id())}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) * TICK_MS


@functools.cache
def _worker(name: str, outermost: int) -> int:
    """Give this machine's id of the PHP process that is a worker, from that of what started it."""
    if name == "docker":
        client = Path(f"/proc/{outermost}/cmdline").read_text().rstrip("\0").split("\0")
        return int(docker("inspect", "--format", "{{.State.Pid}}", client[-1]))
    process = outermost
    while children := Path(f"/proc/{process}/task/{process}/children").read_text().split():
        process = int(children[0])
    return process
