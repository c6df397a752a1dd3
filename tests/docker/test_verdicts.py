"""A container gives the verdicts that the native runtime gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.pipeline import reference_candidate
from refcompare.results import ErrorKind, Record, Verdict
from refcompare.wordpress.docker import DockerRuntime
from refcompare.wordpress.graders import Grader
from refcompare.wordpress.native import NativeRuntime
from refcompare.wordpress.php import Php
from refcompare.wordpress.site import Site
from tests.docker.suite import OTHERS, SUITE, reference_of
from tests.docker.support import PASSES, grading, look
from tests.test_shipped_suite import SUITE as SHIPPED

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def native(site: Site, php: Php, grader: Grader) -> Iterator[GradingThread]:
    with grading(NativeRuntime(site, php, grader)) as thread:
        yield thread


def seen(record: Record) -> Record:
    return dataclasses.replace(record, ms=0.0)


@pytest.mark.parametrize("test", SUITE, ids=lambda test: test.id)
def test_a_reference_passes_with_the_same_record_in_both_runtimes(
    test: ExecutionTest, thread: GradingThread, native: GradingThread
) -> None:
    record = thread.grade(test, reference_of(test), Limits())
    assert record.verdict is Verdict.PASS, record
    assert seen(record) == seen(native.grade(test, reference_of(test), Limits()))


@pytest.mark.parametrize("candidate", OTHERS, ids=lambda candidate: candidate.name)
def test_what_does_not_pass_does_so_for_the_same_reason_in_both_runtimes(
    candidate: Candidate, thread: GradingThread, native: GradingThread
) -> None:
    record = thread.grade(SUITE[0], candidate, Limits(seconds=20))
    assert record.verdict is not Verdict.PASS
    assert seen(record) == seen(native.grade(SUITE[0], candidate, Limits(seconds=20)))


@pytest.mark.parametrize("test", SHIPPED.tests, ids=lambda test: test.id)
def test_the_shipped_suite_and_its_exploits_have_the_same_records_in_both_runtimes(
    test: ExecutionTest, thread: GradingThread, native: GradingThread
) -> None:
    authored = [
        Candidate(f"exploit:authored-{number}", code) for number, code in enumerate(test.exploit_solutions)
    ]
    for candidate in (reference_candidate(test), *authored):
        record = thread.grade(test, candidate, Limits())
        assert (record.verdict is Verdict.PASS) == (candidate.name == "reference"), record
        assert seen(record) == seen(native.grade(test, candidate, Limits()))


def test_a_candidate_that_does_not_end_is_a_timeout(thread: GradingThread) -> None:
    record = thread.grade(PASSES, Candidate("reference", "while ( true ) {}"), Limits(seconds=1))
    assert (record.verdict, record.error_kind) == (Verdict.ERROR, ErrorKind.TIMEOUT)
    assert thread.grade(PASSES, Candidate("reference"), Limits()).verdict is Verdict.PASS


def test_the_environment_is_what_the_worker_says_of_itself(
    runtime: DockerRuntime, thread: GradingThread, site: Site, grader: Grader
) -> None:
    environment = runtime.environment
    assert (environment.runtime, environment.database) == ("docker", "sqlite")
    assert environment.wordpress == look(thread, "return $GLOBALS['wp_version'];") == site.release.version
    assert environment.php == look(thread, "return PHP_VERSION;")
    assert environment.sqlite == look(thread, "return SQLite3::version()['versionString'];")
    assert (environment.wordpress_digest, environment.grader_digest) == (site.digest, grader.digest)
