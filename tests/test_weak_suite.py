"""The audit, end to end in a real WordPress: it finds each planted weakness by name, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from refcompare.execution.audit import audit_test
from refcompare.execution.exploits import battery
from refcompare.execution.grading import GradingThread
from refcompare.execution.model import ExecutionTest, Limits
from refcompare.pipeline import reference_candidate
from refcompare.results import Verdict
from refcompare.suites import load_suites
from refcompare.wordpress.graders import installed_grader
from refcompare.wordpress.native import NativeRuntime
from refcompare.wordpress.php import Php
from refcompare.wordpress.site import Site
from tests.suite_files import MemoryTree

pytestmark = pytest.mark.wordpress

ROOT = Path(__file__).parent / "weak_suite"
SUITE = load_suites(
    MemoryTree(
        {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in sorted(ROOT.rglob("*.json"))}
    )
)
LIMITS = Limits(seconds=30)


@pytest.fixture(scope="module")
def grader(site: Site, php: Php):
    thread = GradingThread(NativeRuntime(site, php, installed_grader()))
    yield thread
    thread.close()


def test_the_suite_is_whole():
    assert not SUITE.invalid
    assert sum(bool(test.metadata.get("planted")) for test in SUITE.tests) >= 12
    assert sum(not test.metadata.get("planted") for test in SUITE.tests) >= 3


@pytest.mark.parametrize("test", SUITE.tests, ids=lambda test: test.id)
def test_each_planted_weakness_is_found_by_name_and_an_honest_test_has_none(
    test: ExecutionTest, grader: GradingThread
):
    assert grader.grade(test, reference_candidate(test), LIMITS).verdict is Verdict.PASS
    audit, records = audit_test(
        test, battery(test, mutants=40), lambda test, candidate: grader.grade(test, candidate, LIMITS)
    )
    found = {exploit.label for exploit in audit.passing_exploits}
    planted = set(test.metadata.get("planted", ()))
    assert planted <= found
    assert bool(planted) == audit.exploitable
    kinds = {re.sub(r"-\d+(-\w+)?$", "", spot.label) for spot in audit.weak_spots}
    for kind in test.metadata.get("planted_weak_spots", ()):
        assert any(kind in label for label in kinds), (kind, audit.weak_spots)
    if not planted and not test.metadata.get("planted_weak_spots"):
        assert not audit.weak_spots
    assert all(record.verdict is not Verdict.ERROR for record in records), "an error is no answer"
