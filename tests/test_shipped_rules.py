"""What ships is held to the rules that it ships with: suites, evals and what each test leaves on a site."""

from __future__ import annotations

from pathlib import Path

import pytest

from refcompare.errors import RefcompareError
from refcompare.execution.model import Limits
from refcompare.git import Repository
from refcompare.rules import Chosen, Finding, Suites, check
from refcompare.rules.state import leftovers
from refcompare.wordpress.graders import installed_grader
from refcompare.wordpress.native import NativeRuntime
from refcompare.wordpress.php import Php
from refcompare.wordpress.releases import Release
from refcompare.wordpress.site import Site
from refcompare.wordpress.symbols import symbols_of

ROOT = Path(__file__).parent.parent


def shown(findings: tuple[Finding, ...]) -> list[str]:
    return [f"{item.path}:{item.line}: {item.owner}: {item.message} [{item.rule}]" for item in findings]


@pytest.fixture(scope="module")
def suites(release: Release) -> Suites:
    """The suites and evals of this repository as they lie."""
    try:
        with Repository.discover(ROOT) as repository:
            return Suites(repository.resolve("WORKTREE"), symbols=symbols_of(release))
    except RefcompareError as error:
        pytest.skip(f"this is no checkout: {error}")


@pytest.mark.wordpress
def test_no_rule_has_anything_against_what_ships(suites: Suites):
    checked = check(suites, Chosen())
    assert shown(checked.findings) == []
    assert checked.tests >= 80
    assert checked.evals >= 8
    assert [name for name, _ in checked.unasked] == ["leftover-state"]


@pytest.mark.wordpress
def test_no_shipped_test_leaves_anything_on_the_site(suites: Suites, site: Site, php: Php):
    measured = leftovers(suites.subjects, NativeRuntime(site, php, installed_grader()), Limits(seconds=60), 2)
    assert measured.unjudged == ()
    assert shown(measured.findings) == []
