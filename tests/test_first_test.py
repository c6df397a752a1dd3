"""The page about the first test, followed: each command is run, and prints what the page says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from refcompare.wordpress.site import Site

PAGE = (Path(__file__).parents[1] / "docs" / "first-test.md").read_text(encoding="utf-8")
FILE = "datasets/suites/shop/execution/prices.json"


def blocks(language: str) -> list[str]:
    """Give the blocks of the page in a language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def repository(tmp_path: Path, site: Site) -> Path:
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=tmp_path, check=True)
    (tmp_path / FILE).parent.mkdir(parents=True)
    return tmp_path


def shown(repository: Path, command: str) -> str:
    """Give what a command of the page prints, without the table of the environment at its end."""
    words = command.removeprefix("refcompare ").split()
    quiet = ["--quiet"] if words[0] in {"run", "audit"} else []
    done = subprocess.run(
        [sys.executable, "-m", "refcompare", *words, *quiet], cwd=repository, capture_output=True, text=True
    )
    return done.stdout.partition("\n\nref  ")[0].rstrip()


def test_the_page_is_what_happens(repository: Path) -> None:
    first, contrast = blocks("json")
    suite: dict[str, Any] = json.loads(first)
    checks = suite["tests"][0]["runtime_checks"]
    (member,) = re.findall(r"`(\"teardown\": .*?)`, and:", PAGE)
    console = blocks("console")
    assert len(console) == 5
    for number, block in enumerate(console):
        if number == 3:
            checks["assertions"].append(json.loads(contrast))
        elif number == 4:
            checks |= json.loads(f"{{{member}}}")
        (repository / FILE).write_text(json.dumps(suite, indent=2) if number > 2 else first)
        for told in block.split("$ ")[1:]:
            command, _, wanted = told.partition("\n")
            found = shown(repository, command)
            # The last block shows of a table only what is said above it.
            assert found == wanted.rstrip() or (
                block is console[-1] and found.startswith(wanted.rstrip() + "\n")
            ), command
    test = suite["tests"][0]
    for digits in "013":
        reference = test["reference_solution"].replace("/ 100, 2 )", f"/ 100, {digits} )")
        assert reference != test["reference_solution"]
        wrong = {"tests": [{**test, "reference_solution": reference}]}
        (repository / FILE).write_text(json.dumps(wrong))
        assert shown(repository, "refcompare run").startswith("1 test: 1 fail"), digits
