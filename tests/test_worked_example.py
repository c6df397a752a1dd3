"""The worked example of the docs, worked: the diff is applied, and what it says is what is printed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from refcompare.wordpress.site import Site

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "worked-example.md").read_text(encoding="utf-8")
SUITE = "datasets/suites/wp-core"
FILE = f"{SUITE}/execution/security.json"


def block(language: str) -> str:
    """Give the one block of the page in a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    return str(found)


@pytest.fixture
def repository(tmp_path: Path, site: Site) -> Path:
    """Give a repository with the shipped suite on its branch main."""
    shutil.copytree(ROOT / SUITE, tmp_path / SUITE)
    author = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*author, "commit", "-q", "-m", "The suite")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    subprocess.run(["git", "apply"], cwd=tmp_path, input=block("diff"), text=True, check=True)
    return tmp_path


def refcompare(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "refcompare", "main", "--changed", "--quiet", *arguments]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True)


def test_the_weak_edit_is_caught_and_shown_as_the_page_says(repository: Path) -> None:
    done = refcompare(repository)
    assert done.returncode == 1, done.stderr
    table, _, sentence = block("text").rstrip().rpartition("\n\n")
    assert done.stdout.startswith(table + "\n")
    assert done.stdout.rstrip().endswith(sentence)


def test_the_mend_of_the_page_mends_it(repository: Path) -> None:
    path = repository / FILE
    suite = json.loads(path.read_text())
    suite["tests"][0]["runtime_checks"]["assertions"].append(json.loads(block("json")))
    path.write_text(json.dumps(suite))
    done = refcompare(repository, "--json")
    assert done.returncode == 0, done.stdout
    assert [change["kind"] for change in json.loads(done.stdout)["changes"]] == ["edited"]
