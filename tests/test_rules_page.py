"""docs/rules.md: every rule has a section, and its examples show what the rule objects to and what not."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from refcompare.execution.model import Limits
from refcompare.rules import ALL, BY_NAME, Chosen, Finding, Suites, check, check_suites
from refcompare.rules.state import leftovers
from refcompare.wordpress.graders import installed_grader
from refcompare.wordpress.native import NativeRuntime
from refcompare.wordpress.php import Php
from refcompare.wordpress.site import Site
from refcompare.wordpress.symbols import Symbols
from tests.rule_files import GOOD, a_release
from tests.suite_files import MemoryTree

PLACE = Path(__file__).parent.parent / "docs/rules.md"
PAGE = PLACE.read_text(encoding="utf-8") if PLACE.is_file() else ""
SUITE = "datasets/suites/shop/execution/hooks.json"
EVAL = "datasets/suites/shop/agent/writes-a-test.yaml"
AROUND = {
    "docs/tests.md": b"# Tests\n",
    ".agents/skills/tests/SKILL.md": b"---\nname: tests\n---\n",
}

INTRODUCTION = {"Leaving a rule aside", "Before a commit"}

NOT_TEXT = {"encoding", "file-size", "unreadable", "no-suites"}
"""Rules about what no example in a page can be; test_check.py and test_loader.py hold them."""

pytestmark = pytest.mark.skipif(not PAGE, reason="only a checkout has the page")


@dataclass(frozen=True)
class Example:
    rule: str
    good: bool
    language: str
    text: str


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def examples() -> list[Example]:
    found = []
    for rule, text in sections().items():
        for kind, language, body in re.findall(r"^(Bad|Good):\n\n```(\w+)\n(.*?)^```", text, re.M | re.S):
            found.append(Example(rule, kind == "Good", language, body))
    return found


EXAMPLES = examples()


def merged(fragment: dict[str, Any]) -> dict[str, Any]:
    test = copy.deepcopy(GOOD)
    for name, value in fragment.items():
        if isinstance(value, dict) and isinstance(test.get(name), dict) and name != "reference_files":
            test[name] |= value
        else:
            test[name] = value
    return test


def tree_of(example: Example) -> MemoryTree:
    if example.language == "yaml":
        return MemoryTree(
            {**AROUND, SUITE: json.dumps({"tests": [GOOD]}).encode(), EVAL: example.text.encode()}
        )
    try:
        fragment = json.loads(example.text, object_pairs_hook=_whole)
    except _Repeated:
        return MemoryTree({**AROUND, SUITE: example.text.encode()})
    if isinstance(fragment.get("tests"), list):
        file: dict[str, Any] = {"tests": [merged(item) for item in fragment["tests"]]}
    else:
        file = fragment if "tests" in fragment else {"tests": [merged(fragment)]}
    return MemoryTree({**AROUND, SUITE: json.dumps(file, indent=2).encode()})


class _Repeated(Exception):
    """The example names a key twice, which no decoder would give back."""


def _whole(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise _Repeated
    return dict(pairs)


@pytest.fixture(scope="module")
def symbols(tmp_path_factory: pytest.TempPathFactory) -> Symbols:
    return a_release(tmp_path_factory.mktemp("release"))


def test_every_rule_has_a_section_and_every_section_a_rule():
    listed = [name for name in sections() if name not in INTRODUCTION]
    assert sorted(listed) == sorted(BY_NAME)
    assert len(listed) == len(set(listed)) == len(ALL)


def test_every_rule_is_shown_by_a_bad_and_a_good_example():
    for name in BY_NAME.keys() - NOT_TEXT:
        assert [example.good for example in EXAMPLES if example.rule == name] == [False, True], name


def test_the_test_that_examples_start_from_has_no_finding(symbols: Symbols):
    tree = MemoryTree({SUITE: json.dumps({"tests": [GOOD]}).encode()})
    assert check_suites(tree, symbols=symbols).findings == ()


@pytest.mark.parametrize(
    "example",
    [item for item in EXAMPLES if item.rule != "leftover-state"],
    ids=lambda item: f"{item.rule}-{'good' if item.good else 'bad'}",
)
def test_an_example_is_what_the_page_says(example: Example, symbols: Symbols):
    found = check_suites(tree_of(example), symbols=symbols).findings
    if example.good:
        assert found == (), "a good example is good by every rule"
        return
    mine = [finding for finding in found if finding.rule == example.rule]
    assert mine, found
    assert all(finding.message and finding.line > 0 for finding in mine)
    assert {finding.severity for finding in mine} == {BY_NAME[example.rule].severity}
    alone = check_suites(tree_of(example), chosen=Chosen(only=frozenset({example.rule})), symbols=symbols)
    assert {finding.rule for finding in alone.findings} == {example.rule}


@pytest.mark.wordpress
def test_the_examples_of_what_is_left_on_the_site_are_what_the_page_says(site: Site, php: Php):
    runtime = NativeRuntime(site, php, installed_grader())
    for example in (item for item in EXAMPLES if item.rule == "leftover-state"):
        suites = Suites(tree_of(example))
        measured = leftovers(suites.subjects, runtime, Limits(seconds=60), 1)
        assert measured.unjudged == ()
        found: tuple[Finding, ...] = check(suites, Chosen(), measured.findings).findings
        assert [finding.rule for finding in found] == ([] if example.good else ["leftover-state"])
