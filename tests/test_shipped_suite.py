"""The execution tests that ship: graded in a real WordPress, and cheated by their own exploits."""

from __future__ import annotations

from pathlib import Path

import pytest

from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.pipeline import reference_candidate
from refcompare.results import Verdict
from refcompare.rules import check_suites
from refcompare.suites import load_suites
from refcompare.wordpress.graders import installed_grader
from refcompare.wordpress.native import NativeRuntime
from refcompare.wordpress.php import Php
from refcompare.wordpress.site import Site
from tests.suite_files import MemoryTree

ROOT = Path(__file__).parent.parent
TREE = MemoryTree(
    {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for path in sorted((ROOT / "datasets/suites").glob("*/execution/*.json"))
    }
)
SUITE = load_suites(TREE)
LIMITS = Limits(seconds=60)


@pytest.fixture(scope="module")
def grader(site: Site, php: Php):
    thread = GradingThread(NativeRuntime(site, php, installed_grader()))
    yield thread
    thread.close()


def test_the_suite_is_valid_and_as_wide_as_it_says():
    assert not SUITE.invalid
    assert not [finding for finding in check_suites(TREE).findings if finding.severity == "error"]
    assert len(SUITE.tests) >= 80
    assert len({test.category for test in SUITE.tests}) >= 20
    assert sum(test.artifact_kind == "wp_plugin_files" for test in SUITE.tests) >= 12
    modern = [test for test in SUITE.tests if test.metadata["release_focus"] in {"6.9", "7.0", "7.1"}]
    assert len(modern) >= 28
    assert all(test.exploit_solutions for test in SUITE.tests), "each has a shortcut that somebody would try"


def test_the_sources_that_tests_refer_to_exist(site: Site):
    for test in SUITE.tests:
        for source in test.metadata["source_refs"]:
            assert (site.root / source).is_file(), (test.id, source)


@pytest.mark.wordpress
@pytest.mark.parametrize("test", SUITE.tests, ids=lambda test: test.id)
def test_the_reference_passes_and_its_authored_exploits_fail(test: ExecutionTest, grader: GradingThread):
    reference = grader.grade(test, reference_candidate(test), LIMITS)
    assert reference.verdict is Verdict.PASS, (reference.message, reference.first_failure)
    for number, code in enumerate(test.exploit_solutions):
        cheat = grader.grade(test, Candidate(f"exploit:authored-{number}", code=code), LIMITS)
        assert cheat.verdict is Verdict.FAIL, (number, cheat.verdict, cheat.message)
    nothing = grader.grade(test, Candidate("exploit:empty-candidate"), LIMITS)
    assert nothing.verdict is Verdict.FAIL
