"""What a whole comparison costs: seconds, candidates a second, memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.place import Place
from refcompare.compare import compare
from refcompare.gate import gate
from refcompare.report import json as json_report
from refcompare.report import markdown, terminal
from refcompare.results import Arm, Record, RunResult, TestEntry, Verdict


def comparison_seconds(place: Place) -> Iterator[str]:
    """Wall seconds of comparing two refs, WordPress cached, without and with the audit."""
    for title, arguments in (
        ("compare, no audit", ["--no-audit", "--fresh"]),
        ("compare, audit", ["--mutants", "0", "--fresh"]),
        ("compare, known", ["--mutants", "0"]),
        ("compare, known again", ["--mutants", "0"]),
    ):
        started = time.perf_counter()
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "refcompare",
                place.base,
                place.head,
                "--quiet",
                "--format",
                "json",
                *arguments,
            ],
            cwd=place.repository,
            capture_output=True,
            text=True,
        )
        seconds = time.perf_counter() - started
        document: dict[str, Any] = json.loads(done.stdout)
        verdicts = sum(document[arm]["records"] for arm in ("base", "head"))
        yield f"{title:20}{seconds:8.1f} s      {verdicts} verdicts"


def audit_rate(place: Place) -> Iterator[str]:
    """Candidates a second of a full audit without mutants, and what it caught, cheat by cheat."""
    started = time.perf_counter()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "refcompare",
            "audit",
            place.head,
            "--json",
            "--mutants",
            "0",
            "--fresh",
            "--exhaustive",
        ],
        cwd=place.repository,
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - started
    tests = json.loads(done.stdout)["tests"]
    tried = sum(test["candidates_tried"] for test in tests)
    generic = [test for test in tests if any(e["class"] == "generic" for e in test["passing_exploits"])]
    caught = [test for test in tests if test["exploitable"]]
    yield f"full audit          {seconds:8.1f} s      {tried} candidates, {tried / seconds:.0f} a second"
    yield f"generic cheats catch {len(generic)} of {len(tests)} tests, the whole battery {len(caught)}:"
    for test in caught:
        cheats = ", ".join(f"{e['label']} ({e['class']})" for e in test["passing_exploits"])
        yield f"  {test['test_id']}: {cheats}"


def ten_thousand(_place: Place) -> Iterator[str]:
    """Seconds and memory of comparing and rendering 10,000 synthetic records."""
    base, head = (_synthetic(name, 10_000) for name in ("base", "head"))
    started = time.perf_counter()
    comparison = compare(base, head)
    result = gate(comparison)
    renderers: tuple[Callable[..., str], ...] = (terminal.render, markdown.render, json_report.render)
    sizes = [len(render(comparison, result)) for render in renderers]
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield f"10,000 records      {seconds:8.2f} s      {peak:.0f} MiB peak (at most 200)"
    yield f"their comment       {sizes[1]:8,} characters (at most 65,536)"


def _synthetic(name: str, count: int) -> RunResult:
    tests = tuple(
        TestEntry(f"t-{n:05}", "s", f"c-{n % 40}", "datasets/suites/s/execution/x.json", n, f"{n:064x}")
        for n in range(count)
    )
    records = tuple(
        Record(
            test.test_id, "reference", Verdict.FAIL if name == "head" and n % 9 == 0 else Verdict.PASS, 10.0
        )
        for n, test in enumerate(tests)
    )
    return RunResult(Arm(name, name, "0" * 40, "0" * 40), tests, records)
