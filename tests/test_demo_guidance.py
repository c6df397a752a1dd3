"""The repository of the demo about guidance, and that its evals show what the demo says."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from refcompare.commands.demo import run_demo
from refcompare.demo.guidance import build_guidance_repository, guidance_files
from refcompare.rules import check_suites
from refcompare.sandbox import probe
from refcompare.wordpress.site import Site
from tests.suite_files import MemoryTree


def test_both_states_have_the_same_plugin_and_evals_and_other_guidance(tmp_path):
    base, head = guidance_files("base"), guidance_files("head")
    differing = {path for path in base.keys() | head.keys() if base.get(path) != head.get(path)}
    assert differing == {
        "AGENTS.md",
        ".agents/skills/release-notes/SKILL.md",
        ".agents/skills/shortcodes/SKILL.md",
    }
    place = tmp_path / "demo"
    commits = build_guidance_repository(place)
    listed = subprocess.run(
        ["git", "-C", str(place), "ls-tree", "-r", "--name-only", commits[1]],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(listed.stdout.split()) == head.keys()


@pytest.mark.parametrize("state", ["base", "head"])
def test_its_evals_can_be_used(state):
    assert check_suites(MemoryTree(guidance_files(state))).errors == 0


@pytest.mark.wordpress
@pytest.mark.skipif(not probe().works, reason="no sandbox works here")
def test_a_stand_in_shows_what_the_change_of_guidance_does(site: Site, tmp_path: Path):
    out = io.StringIO()
    options: dict[str, Any] = {"keep": None, "agent": True, "jobs": 2, "timeout": None, "fresh": False}
    status = run_demo({**options, "form": "json", "output": tmp_path / "out", "quiet": True}, out)
    assert status == 0
    found = {item["metric"]: item.get("verdict") for item in json.loads(out.getvalue())["metrics"]}
    assert found == {
        "ran php -l acme-notes.php": "regressed",
        "escapes": "improved",
        "skill-used release-notes": "improved",
        "read docs/release-notes.md": "improved",
        "changed CHANGELOG.md": "improved",
        "diff-contains - Changed:": "improved",
        "skill-used shortcodes": "too few trials",
        "greets": "too few trials",
        "not-changed acme-notes.php": "too few trials",
    }
