"""``refcompare demo``: builds a small repository with two commits, and compares them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from refcompare.commands.comparing import compare_refs
from refcompare.progress import Reporter


def run_demo(options: Mapping[str, Any], out: TextIO) -> int:
    """Build the demo's repository and compare its two commits; with ``agent``, the one about guidance."""
    from refcompare.demo import build_repository
    from refcompare.demo.guidance import build_guidance_repository

    keep: Path | None = options["keep"]
    scratch = Path(tempfile.mkdtemp(prefix="refcompare-demo-"))
    try:
        place = keep or scratch / "repository"
        base, head = build_guidance_repository(place) if options["agent"] else build_repository(place)
        what = "the guidance for agents" if options["agent"] else "a small suite of tests"
        with Reporter(quiet=options["quiet"]) as reporter:
            kept = f", kept in {keep}" if keep else ""
            reporter.say(f"two commits that change {what}, as a pull request would{kept}")
        who = {"only": "agent", "agent": ("scripted",)} if options["agent"] else {"agent": ()}
        chosen = {**NO_CHOICE, **options, **who, "base": base, "head": head}
        status = compare_refs(place, chosen, out)
        if status != 1:
            return status
        out.flush()
        with Reporter(quiet=options["quiet"]) as reporter:
            reporter.say("a check on that pull request would be red; the demo itself ends well")
        return 0
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


NO_CHOICE: Mapping[str, Any] = {
    "config": None, "suites": (), "suite": (), "category": (), "test_id": (), "limit": None,
    "changed": False, "wordpress": None, "runtime": None, "grader": "installed", "audit": None,
    "exhaustive": None, "mutants": None, "seed": None, "confirm": None, "fail_on": None,
    "dry_run": False, "form": "table",
}  # fmt: skip
