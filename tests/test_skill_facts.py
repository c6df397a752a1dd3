"""What the skill for execution tests says of WordPress is so: in the release's source, and in the grader."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.results import ErrorKind, Verdict
from refcompare.wordpress.graders import installed_grader
from refcompare.wordpress.native import NativeRuntime
from refcompare.wordpress.php import Php
from refcompare.wordpress.releases import Release
from refcompare.wordpress.site import Site

FACTS = Path(__file__).resolve().parent.parent / ".agents/skills/execution-tests/references/runtime.md"

pytestmark = pytest.mark.skipif(not FACTS.is_file(), reason="only a checkout has the skills")

_SOURCE = re.compile(r"^Source: `([^`]+)`: `(.+)`$", re.MULTILINE)
_BLOCK = re.compile(r"^```php ?(\w*)\n(.*?)\n```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Fact:
    """One fact of the page: its heading, what it cites, and its code by kind, in order."""

    title: str
    sources: tuple[tuple[str, str], ...]
    blocks: tuple[tuple[str, str], ...]


def facts() -> Iterator[Fact]:
    text = FACTS.read_text("utf-8") if FACTS.is_file() else ""
    for section in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        yield Fact(title, tuple(_SOURCE.findall(body)), tuple(_BLOCK.findall(body)))


ALL = tuple(facts())
by_title = pytest.mark.parametrize("fact", ALL, ids=lambda fact: fact.title)


@pytest.fixture(scope="module")
def grader(site: Site, php: Php) -> Iterator[GradingThread]:
    thread = GradingThread(NativeRuntime(site, php, installed_grader()))
    yield thread
    thread.close()


def test_the_page_has_facts_and_each_a_heading_of_its_own():
    assert len(ALL) >= 25
    assert len({fact.title for fact in ALL}) == len(ALL)


def cited(path: str, release: Release) -> bytes:
    """Give the bytes of a file of the release: WordPress's, or those of what it is installed with."""
    if path == "wp-cli.phar":
        return release.wp_cli.read_bytes()
    folder, _, rest = path.partition("/")
    whole = release.sqlite_plugin / rest if folder == "sqlite-database-integration" else release.core / path
    assert ".." not in path
    return whole.read_bytes()


@by_title
def test_a_fact_cites_what_stands_in_the_release(fact: Fact, release: Release):
    assert fact.sources, "each names its source"
    for path, wanted in fact.sources:
        assert wanted.encode() in cited(path, release), (path, wanted)


@pytest.mark.wordpress
@by_title
def test_a_fact_holds_in_the_grader(fact: Fact, grader: GradingThread):
    assert fact.blocks, "each is shown by code"
    plugin: str | None = None
    for kind, code in fact.blocks:
        if kind == "plugin":
            plugin = code
            continue
        candidate = Candidate("reference", code="" if kind == "" else code)
        if plugin is not None:
            candidate = Candidate("reference", files={"acme.php": plugin})
        shown = code if kind == "" else "return true;"
        record = grader.grade(a_test(shown), candidate, Limits(seconds=30))
        said = (kind, code, record.message, record.first_failure)
        match kind:
            case "":
                assert record.verdict is Verdict.PASS, said
            case "aborts":
                assert (record.verdict, record.assertions) == (Verdict.FAIL, ()), said
            case "exits":
                assert record.error_kind is ErrorKind.TAMPERED, said
            case _:
                raise AssertionError(f"no such kind of block: {kind}")


def a_test(code: str) -> ExecutionTest:
    return ExecutionTest(
        id="fact",
        suite="facts",
        category="facts",
        path="",
        line=1,
        digest="",
        assertions=({"type": "returns_value", "target": code, "expected": True},),
    )
