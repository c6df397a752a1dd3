"""The measurements, each a function that gives a line or two of numbers."""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from refcompare.compare import compare
from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.execution.worker import effective_assertions
from refcompare.gate import gate
from refcompare.git import Repository
from refcompare.pipeline import reference_candidate
from refcompare.report import json as json_report
from refcompare.report import markdown, terminal
from refcompare.results import Arm, Record, RunResult, TestEntry, Verdict
from refcompare.suites import load_suites
from refcompare.wordpress.graders import installed_grader
from refcompare.wordpress.native import NativeRuntime
from refcompare.wordpress.php import find_php
from refcompare.wordpress.releases import ensure_release
from refcompare.wordpress.site import ADMIN_EMAIL, ADMIN_USER, HOME_URL, Site, ensure_site

FRESH_SCRIPT = Path(__file__).with_name("fresh.php")


def tests_of(repository: Path, ref: str) -> tuple[ExecutionTest, ...]:
    """Give the gradable tests of a ref."""
    with Repository.discover(repository) as found:
        return load_suites(found.resolve(ref)).tests


def per_reference(tests: Sequence[ExecutionTest], sample: int) -> Iterator[str]:
    """Median milliseconds per reference: the product, an empty candidate, a site made anew each time."""
    php = find_php()
    site = ensure_site(ensure_release(), php)
    runtime = NativeRuntime(site, php, installed_grader())
    grader = GradingThread(runtime)
    snippets = [test for test in tests if test.artifact_kind == "php_snippet"]
    step = max(1, len(snippets) // sample)
    product: list[float] = []
    empty: list[float] = []
    fresh: list[float] = []
    passed = 0
    with _scratch_site(site) as scratch:
        grader.prepare()
        for index, test in enumerate(tests):
            record = grader.grade(test, reference_candidate(test), Limits())
            passed += record.verdict is Verdict.PASS
            product.append(record.ms)
            bare = ExecutionTest(
                "empty", "", "", "", 1, "", assertions=({"type": "custom_assertion", "code": "return 1;"},)
            )
            empty.append(grader.grade(bare, Candidate("empty"), Limits()).ms)
            if test.artifact_kind == "php_snippet" and index % step == 0 and len(fresh) < sample:
                fresh.append(_anew(scratch, site, str(php.binary), test))
    rss = _worker_memory(grader)
    grader.close()
    one, none, anew = (statistics.median(times) for times in (product, empty, fresh))
    yield f"references          {len(tests)} tests, {passed} pass"
    yield f"per reference       {one:8.1f} ms median, {statistics.mean(product):.1f} ms mean (sandboxed)"
    yield f"empty candidate     {none:8.1f} ms median      ratio {one / none:.2f} (at most 3)"
    times = f"{anew:8.1f} ms median of {len(fresh)}"
    yield f"reset and reinstall {times}      ratio {anew / one:.0f} (at least 40)"
    yield f"worker memory       {rss:8.1f} MiB resident  (at most 150)"


def _worker_memory(grader: GradingThread) -> float:
    """Resident memory of the PHP parent, found below the sandbox's process, in MiB."""
    worker = grader.process_id()
    largest = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        if fields.get("Name", "").strip().startswith("php") and _descends(int(status.parent.name), worker):
            largest = max(largest, int(fields["VmRSS"].split()[0]))
    return largest / 1024


def _descends(process: int, ancestor: int) -> bool:
    while process > 1:
        if process == ancestor:
            return True
        try:
            process = int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            return False
    return False


@contextmanager
def _scratch_site(site: Site) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="refcompare-bench-site-") as directory:
        root = Path(directory) / "wordpress"
        shutil.copytree(site.root, root)
        yield root


def _anew(root: Path, site: Site, php: str, test: ExecutionTest) -> float:
    """Milliseconds to delete the database, install WordPress, and run one test, each in a process."""
    database = root.parent / "database"
    payload = root.parent / "test.json"
    payload.write_text(
        json.dumps(
            {
                "setup": test.setup,
                "code": test.reference_solution or "",
                "assertions": [dict(item) for item in effective_assertions(test)],
            }
        )
    )
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(root.parent),
        "REFCOMPARE_DB_DIR": str(database),
        "REFCOMPARE_TEST": str(payload),
        "REFCOMPARE_GRADER": str(installed_grader().path),
    }
    wp = [php, str(site.release.wp_cli), f"--path={root}", "--skip-packages"]
    if os.geteuid() == 0:
        wp.append("--allow-root")
    started = time.perf_counter()
    shutil.rmtree(database, ignore_errors=True)
    database.mkdir()
    _quiet([*wp, "core", "install", f"--url={HOME_URL}", "--title=t", f"--admin_user={ADMIN_USER}",
            "--admin_password=p", f"--admin_email={ADMIN_EMAIL}", "--skip-email"], environment)  # fmt: skip
    _quiet([*wp, "eval-file", str(FRESH_SCRIPT), "--use-include"], environment)
    return (time.perf_counter() - started) * 1000


def _quiet(command: Sequence[str], environment: dict[str, str]) -> None:
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)


def comparison_seconds(repository: Path, base: str, head: str) -> Iterator[str]:
    """Wall seconds of comparing two refs, WordPress cached, without and with the audit."""
    for title, arguments in (
        ("compare, no audit", ["--no-audit", "--fresh"]),
        ("compare, audit", ["--mutants", "0", "--fresh"]),
        ("compare, known", ["--mutants", "0"]),
        ("compare, known again", ["--mutants", "0"]),
    ):
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "refcompare", base, head, "--quiet", "--format", "json", *arguments],
            cwd=repository,
            capture_output=True,
            text=True,
        )
        seconds = time.perf_counter() - started
        document: dict[str, Any] = json.loads(done.stdout)
        verdicts = sum(document[arm]["records"] for arm in ("base", "head"))
        yield f"{title:20}{seconds:8.1f} s      {verdicts} verdicts"


def audit_rate(repository: Path, head: str) -> Iterator[str]:
    """Candidates a second of a full audit without mutants, and what it caught, cheat by cheat."""
    started = time.perf_counter()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "refcompare",
            "audit",
            head,
            "--json",
            "--mutants",
            "0",
            "--fresh",
            "--exhaustive",
        ],
        cwd=repository,
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


def ten_thousand() -> Iterator[str]:
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
