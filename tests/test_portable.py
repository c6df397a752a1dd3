"""What compares, gates and reports needs no Linux: it is imported and collected as on Windows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
CI = ROOT / ".github" / "workflows" / "ci.yml"
LINUX = ("refcompare.agents.", "refcompare.evaluation", "refcompare.__main__")
"""What runs agents, which is imported where one is asked for, and what runs when it is imported."""

IMPORT = """
import tests.as_windows
import importlib, pkgutil, refcompare
for module in pkgutil.walk_packages(refcompare.__path__, "refcompare."):
    if not module.name.startswith(%r):
        importlib.import_module(module.name)
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=200
    )


def test_every_module_but_those_of_agents_can_be_imported() -> None:
    done = run("-W", "ignore::UserWarning", "-c", IMPORT % (LINUX,))
    assert done.returncode == 0, done.stderr


def test_the_command_line_explains_itself() -> None:
    done = run("-c", "import tests.as_windows; from refcompare.cli import main; main()", "--help")
    assert done.returncode == 0, done.stderr
    assert "refcompare main HEAD" in done.stdout


@pytest.mark.skipif(not CI.is_file(), reason="only a checkout has workflows")
def test_the_tests_that_other_systems_run_can_be_collected_there() -> None:
    steps = yaml.safe_load(CI.read_text(encoding="utf-8"))["jobs"]["portable"]["steps"]
    files = re.findall(r"tests/\w+\.py", steps[-1]["run"])
    assert len(files) > 10 and all((ROOT / name).is_file() for name in files)
    words = ("-p", "tests.as_windows", "-p", "no:cacheprovider", "-p", "no:randomly", "--collect-only", "-q")
    done = run("-m", "pytest", *words, *files)
    assert done.returncode == 0, done.stdout
