"""The audit of one test, driven through a grader."""

from __future__ import annotations

import random
from collections.abc import Set

import pytest

from refcompare.execution.audit import AuditPlan, Grade, audit_test, patience
from refcompare.execution.exploits import Battery, battery
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.results import REFERENCE, ErrorKind, Record, Verdict
from tests.support_exploits import labels, make_test

TEST = make_test(
    "function acme( $a ) { if ( ! current_user_can( 'x' ) ) { return 'no'; } return esc_html( $a ); }",
    "return 'gold' === acme( 'x' ) && 'silver' === acme( 'y' );",
    exploit_solutions=("function acme() {}", "function acme() { return 1; }"),
    static_checks={"required_patterns": ["acme"]},
)
PLAN = battery(TEST)


def verdicts(passing: Set[str], failed: Set[str] = frozenset()) -> Grade:
    """A grader that passes the candidates of these labels, and could not grade those."""

    def grade(test: ExecutionTest, candidate: Candidate) -> Record:
        label = candidate.name.partition(":")[2]
        if label in failed:
            return Record(test.id, candidate.name, Verdict.ERROR, 1.0, ErrorKind.INFRASTRUCTURE)
        return Record(test.id, candidate.name, Verdict.PASS if label in passing else Verdict.FAIL, 1.0)

    return grade


@pytest.mark.parametrize(
    ("milliseconds", "seconds"), [(0.0, 5), (60.0, 5), (250.0, 5), (251.0, 15), (2250.0, 45), (4000.0, 90)]
)
def test_a_cheat_may_take_many_times_as_long_as_the_reference_and_no_more(milliseconds, seconds):
    reference = Record("t", REFERENCE, Verdict.PASS, milliseconds)
    assert patience(Limits(), reference) == Limits(seconds=seconds)


def test_a_cheat_never_gets_more_than_the_limit_and_all_of_it_where_no_reference_passes():
    assert patience(Limits(seconds=2), Record("t", REFERENCE, Verdict.PASS, 60.0)).seconds == 2
    assert patience(Limits(), Record("t", REFERENCE, Verdict.FAIL, 60.0)) == Limits()
    assert patience(Limits(), None) == Limits()


def test_where_nothing_passes_everything_is_tried():
    audit, records = audit_test(TEST, PLAN, verdicts(set()))
    assert not audit.exploitable
    assert (audit.candidates_tried, audit.mutants_tried) == (len(PLAN.exploits), len(PLAN.mutants))
    assert len(records) == len(PLAN.exploits) + len(PLAN.mutants)
    assert (audit.auditable, audit.gateway, audit.inferred) == (True, "acme", True)
    assert not audit.stopped_early
    assert audit.reason is None


def test_by_default_a_class_ends_with_its_first_passing_cheat_and_that_is_said():
    generic, harvested = labels(PLAN, "generic"), labels(PLAN, "harvested")
    audit, records = audit_test(TEST, PLAN, verdicts({generic[1], generic[3], harvested[0], "authored-1"}))
    assert [(item.label, item.exploit_class) for item in audit.passing_exploits] == [
        (generic[1], "generic"),
        (harvested[0], "harvested"),
        ("authored-1", "authored"),
    ]
    assert audit.stopped_early
    assert audit.candidates_tried == 2 + 1 + 2 + 1
    assert audit.mutants_tried == len(PLAN.mutants)
    assert len(records) == audit.candidates_tried + audit.mutants_tried


def test_a_passing_cheat_is_shown_as_code():
    audit, _ = audit_test(TEST, PLAN, verdicts({"return-gold"}))
    (passing,) = audit.passing_exploits
    assert passing.code == "<?php\nfunction acme( ...$args ) { return 'gold'; }\n"


def test_exhaustive_tries_every_cheat():
    generic = labels(PLAN, "generic")
    audit, _ = audit_test(TEST, PLAN, verdicts({generic[0], generic[2]}), exhaustive=True)
    assert [item.label for item in audit.passing_exploits] == [generic[0], generic[2]]
    assert audit.candidates_tried == len(PLAN.exploits)
    assert not audit.stopped_early


def test_a_class_whose_last_cheat_passes_was_not_stopped_early():
    audit, _ = audit_test(TEST, PLAN, verdicts({"patterns-only"}))
    assert audit.exploitable
    assert not audit.stopped_early


def test_surviving_mutants_are_weak_spots_and_no_cheats():
    mutant = next(item for item in PLAN.mutants if item.label.startswith("check"))
    audit, _ = audit_test(TEST, PLAN, verdicts({mutant.label}))
    assert not audit.exploitable
    (spot,) = audit.weak_spots
    assert (spot.line, spot.label) == (1, mutant.label)
    assert spot.mutation == "the check `current_user_can( 'x' )` was removed"


def test_what_the_environment_failed_to_grade_is_neither_tried_nor_silently_harmless():
    generic = labels(PLAN, "generic")
    audit, records = audit_test(TEST, PLAN, verdicts(set(), {generic[0], PLAN.mutants[0].label}))
    assert not audit.exploitable
    assert audit.candidates_tried == len(PLAN.exploits) - 1
    assert audit.mutants_tried == len(PLAN.mutants) - 1
    assert audit.reason == "the environment failed to grade 2 of the candidates"
    assert sum(record.verdict is Verdict.ERROR for record in records) == 2


@pytest.mark.parametrize("kind", [ErrorKind.TIMEOUT, ErrorKind.CRASH, ErrorKind.TAMPERED, ErrorKind.INVALID])
def test_an_error_of_the_candidates_own_is_no_pass_and_counts_as_tried(kind):
    audit, _ = audit_test(
        TEST, PLAN, lambda test, candidate: Record(test.id, candidate.name, Verdict.ERROR, 1.0, kind)
    )
    assert not audit.exploitable
    assert audit.candidates_tried == len(PLAN.exploits)
    assert audit.reason is None


def test_a_test_that_cannot_be_audited_is_still_tried_with_no_code():
    test = make_test("register_post_type( 'a' );", "return true;")
    audit, _ = audit_test(test, battery(test), verdicts({"empty-stub"}))
    assert not audit.auditable
    assert audit.reason is not None and audit.reason.startswith("the test names no function")
    assert [item.label for item in audit.passing_exploits] == ["empty-stub"]


def test_notes_of_the_battery_are_part_of_the_reason():
    test = make_test("function f() { return g(); }", "return f();", exploit_solutions=("{",))
    audit, _ = audit_test(test, battery(test), verdicts(set()))
    assert audit.reason == "exploit_solutions[0] cannot be parsed: syntax error on line 1"


# ------------------------------------------------------------------------------ step by step


def drive(plan: AuditPlan, passing: set[str], workers: int, seed: int) -> None:
    """Keep several candidates under way and let their records come back in any order."""
    order = random.Random(seed)
    under_way: list[Candidate] = []
    grade = verdicts(passing)
    while True:
        while len(under_way) < workers and (candidate := plan.next()) is not None:
            under_way.append(candidate)
        if not under_way:
            return
        plan.record(grade(TEST, under_way.pop(order.randrange(len(under_way)))))


@pytest.mark.parametrize("workers", [1, 2, 7, 100])
def test_how_many_work_at_once_does_not_change_what_is_said(workers):
    generic, harvested = labels(PLAN, "generic"), labels(PLAN, "harvested")
    passing = {generic[2], generic[3], generic[6], harvested[1], "patterns-only", PLAN.mutants[2].label}
    expected, expected_records = audit_test(TEST, PLAN, verdicts(passing))
    for seed in range(5):
        plan = AuditPlan(TEST.id, PLAN)
        drive(plan, passing, workers, seed)
        assert plan.finished
        assert plan.result() == expected
        assert plan.records() == expected_records


def test_a_candidate_under_way_keeps_the_audit_unfinished():
    plan = AuditPlan(TEST.id, PLAN)
    candidate = plan.next()
    assert candidate is not None
    drive(plan, set(), 2, 0)
    assert plan.next() is None
    assert not plan.finished
    assert plan.result().reason == "the audit was stopped before every candidate was tried"
    plan.record(verdicts(set())(TEST, candidate))
    assert plan.finished
    assert plan.result().reason is None


def test_a_record_that_nobody_asked_for_is_refused():
    plan = AuditPlan(TEST.id, PLAN)
    with pytest.raises(ValueError, match="'exploit:never' of acme-test is under way"):
        plan.record(Record(TEST.id, "exploit:never", Verdict.PASS, 1.0))
    candidate = plan.next()
    assert candidate is not None
    record = Record(TEST.id, candidate.name, Verdict.FAIL, 1.0)
    plan.record(record)
    with pytest.raises(ValueError, match="under way"):
        plan.record(record)


def test_an_empty_battery_is_finished_at_once():
    plan = AuditPlan("x", Battery(None, False, False, "nothing to try", (), ()))
    assert plan.next() is None
    assert plan.finished
    assert plan.result().reason == "nothing to try"
