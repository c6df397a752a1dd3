"""What the shipped suite costs: both refs with the full audit, first cold, then with five edited tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.place import Place
from refcompare.demo import build_from
from refcompare.paths import cache_directory

SUITE = Path(__file__).parents[1] / "datasets" / "suites" / "wp-core" / "execution"
FOLDER = "datasets/suites/wp-core/execution"
EDITED = 5
"""Tests that the warm comparison edits, spread over the suite."""

SHARED = ("releases", "sites", "graders", "images.lock")
"""What of the cache is no verdict, and is taken from the real one."""


def shipped_suite(_place: Place) -> Iterator[str]:
    """Wall seconds and candidates of comparing two refs of the shipped suite, cold and warm."""
    before = {f"{FOLDER}/{path.name}": path.read_bytes() for path in sorted(SUITE.glob("*.json"))}
    with tempfile.TemporaryDirectory(prefix="refcompare-bench-shipped-") as scratch:
        Path(scratch).chmod(0o755)  # workers of another uid read the site
        cache = Path(scratch) / "cache"
        cache.mkdir()
        for name in SHARED:
            if (kept := cache_directory() / name).exists():
                (cache / name).symlink_to(kept)
        repository = Path(scratch) / "repository"
        states = {"base": before, "head": _edited(before, 0)}
        base, head = build_from(repository, states, {"base": "The suite", "head": "Five edits"})
        yield f"shipped suite       {_count(before)} tests"
        yield _line("  cold, full audit", 360, *_compare(repository, cache, base, head))
        for path, text in _edited(before, 1).items():
            (repository / path).write_bytes(text)
        yield _line("  warm, five edited", 20, *_compare(repository, cache, base, "WORKTREE"))


def _line(title: str, most: int, seconds: float, base: int, head: int) -> str:
    return f"{title:20}{seconds:8.1f} s      {base:,} + {head:,} candidates graded (at most {most} s)"


def _edited(files: dict[str, bytes], first: int) -> dict[str, bytes]:
    """Give the suite with another setup in five tests, from the one at ``first``, that nobody has graded."""
    total = _count(files)
    chosen = {first + index * total // EDITED for index in range(EDITED)}
    seen, edited = 0, {}
    for path, text in files.items():
        suite = json.loads(text)
        for test in suite["tests"]:
            if seen in chosen:
                checks = test["runtime_checks"]
                checks["setup"] = f"{checks.get('setup') or ''}\n// Edited {first}.\n"
            seen += 1
        edited[path] = json.dumps(suite, indent=1, ensure_ascii=False).encode()
    return edited


def _count(files: dict[str, bytes]) -> int:
    return sum(len(json.loads(text)["tests"]) for text in files.values())


def _compare(repository: Path, cache: Path, base: str, head: str) -> tuple[float, int, int]:
    """Compare two refs: wall seconds, and the verdicts of each arm that were not known.

    What is the same on both arms is graded once, and counts for both.
    """
    command = [sys.executable, "-m", "refcompare", base, head, "--exhaustive", "--quiet", "--format", "json"]
    started = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=repository,
        env={**os.environ, "REFCOMPARE_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} gave {done.returncode}: {done.stdout[-2000:]}{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    edited = sum(change["kind"] != "unchanged" for change in found["changes"])
    if edited != EDITED:
        raise SystemExit(f"{edited} tests are said to have changed, and {EDITED} were edited")
    base_graded, head_graded = (found[arm]["records"] - found[arm]["reused"] for arm in ("base", "head"))
    return seconds, base_graded, head_graded
