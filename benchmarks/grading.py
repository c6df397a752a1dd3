"""What one candidate costs: the product, an empty candidate, a site made anew each time."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.place import Place
from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.execution.worker import effective_assertions
from refcompare.git import Repository
from refcompare.pipeline import reference_candidate
from refcompare.results import Verdict
from refcompare.suites import load_suites
from refcompare.wordpress.graders import installed_grader
from refcompare.wordpress.native import NativeRuntime
from refcompare.wordpress.php import find_php
from refcompare.wordpress.releases import ensure_release
from refcompare.wordpress.site import ADMIN_EMAIL, ADMIN_USER, HOME_URL, Site, ensure_site

FRESH_SCRIPT = Path(__file__).with_name("fresh.php")
SAMPLE = 12
"""Tests that are also run on a site made anew."""


def tests_of(repository: Path, ref: str) -> tuple[ExecutionTest, ...]:
    """Give the gradable tests of a ref."""
    with Repository.discover(repository) as found:
        return load_suites(found.resolve(ref)).tests


def per_reference(place: Place) -> Iterator[str]:
    """Median milliseconds per reference: the product, an empty candidate, a site made anew each time."""
    tests = tests_of(place.repository, place.head)
    php = find_php()
    site = ensure_site(ensure_release(), php)
    runtime = NativeRuntime(site, php, installed_grader())
    grader = GradingThread(runtime)
    snippets = [test for test in tests if test.artifact_kind == "php_snippet"]
    step = max(1, len(snippets) // SAMPLE)
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
            sampled = test.artifact_kind == "php_snippet" and index % step == 0 and len(fresh) < SAMPLE
            if sampled and record.verdict is Verdict.PASS:
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
    _quiet([*wp, "eval-file", str(FRESH_SCRIPT), "--use-include"], environment, says="pass")
    return (time.perf_counter() - started) * 1000


def _quiet(command: Sequence[str], environment: dict[str, str], says: str = "") -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode != 0 or says not in done.stdout:
        raise SystemExit(f"{' '.join(command)} gave {done.returncode}: {done.stdout}{done.stderr}")
