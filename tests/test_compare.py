"""How two results become one row for each test, and which candidates are run again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refcompare.compare import Change, ChangeKind, Comparison, compare, suspects
from refcompare.results import Audit, ErrorKind, Record, RunResult, TestEntry, Verdict
from tests.result_builders import (
    DETERMINISTIC,
    ENVIRONMENT,
    FAIL,
    PASS,
    a_bit_of_everything,
    audit,
    entry,
    error,
    infrastructure,
    many,
    record,
    run,
)

K = ChangeKind


def only(base: RunResult, head: RunResult) -> Change:
    (change,) = compare(base, head).changes
    return change


def one(base_records=(), head_records=(), base_audits=(), head_audits=(), **fields) -> Change:
    """Compare one test that both arms have."""
    return only(
        run("base", [entry()], base_records, base_audits),
        run("head", [entry(digest=fields.pop("digest", "d1"))], head_records, head_audits, **fields),
    )


# ----------------------------------------------------------------- the reference


@pytest.mark.parametrize(
    "head",
    [record(verdict=FAIL), *(error(kind=kind) for kind in ErrorKind if kind is not ErrorKind.INFRASTRUCTURE)],
    ids=lambda item: item.error_kind or "fail",
)
def test_a_pass_that_becomes_anything_but_a_pass_is_a_regression(head):
    change = one([record()], [head])
    assert change.kinds == (K.REGRESSED,)
    assert change.head and change.head.error_kind == head.error_kind


def test_a_test_that_can_no_longer_be_loaded_regresses_without_any_record():
    base = run("base", [entry()], [record()])
    head = run("head", [entry(invalid="unknown assertion type 'foo'")])
    change = only(base, head)
    assert change.kind is K.REGRESSED
    assert change.head
    assert (change.head.verdict, change.head.error_kind) == (Verdict.ERROR, ErrorKind.INVALID)
    assert change.head.message == "unknown assertion type 'foo'"


def test_a_fail_that_becomes_a_pass_is_fixed():
    assert one([record(verdict=FAIL)], [record()]).kinds == (K.FIXED,)


def test_a_fail_that_becomes_a_timeout_is_no_change_of_the_verdict():
    assert one([record(verdict=FAIL)], [error()]).kinds == (K.UNCHANGED,)


@pytest.mark.parametrize("ungraded", [(), (infrastructure(),)], ids=["no record", "infrastructure error"])
@pytest.mark.parametrize("other", [record(), record(verdict=FAIL)], ids=["pass", "fail"])
def test_without_a_verdict_on_either_arm_a_test_is_not_graded(ungraded, other):
    assert one(ungraded, [other]).kinds == (K.NOT_GRADED,)
    assert one([other], ungraded).kinds == (K.NOT_GRADED,)


def test_an_infrastructure_error_counts_for_nothing_beside_an_attempt_that_was_graded():
    change = one([record()], [infrastructure(attempt=1), record(verdict=FAIL, attempt=2)])
    assert change.kinds == (K.REGRESSED,)
    assert change.head and change.head.verdicts == (FAIL,)


def test_a_verdict_that_flips_is_unstable_and_not_a_regression():
    change = one([record()], [record(verdict=FAIL), record(attempt=2), record(verdict=FAIL, attempt=3)])
    assert change.kinds == (K.UNSTABLE,)
    assert change.head and change.head.verdicts == (FAIL, PASS, FAIL)
    assert change.head.failure and change.head.failure.message == "Title was not filtered."


def test_a_reference_that_never_passes_any_more_regressed_however_it_ends():
    change = one([record()], [record(verdict=FAIL), error(attempt=2)])
    assert change.kinds == (K.REGRESSED, K.UNSTABLE)


def test_a_flip_on_the_base_is_not_blamed_on_the_head():
    change = one([record(), record(verdict=FAIL, attempt=2)], [record(verdict=FAIL)])
    assert change.kinds == (K.UNSTABLE,)


# ------------------------------------------------------------------ added, removed, edited


def added(records, audits=(), **fields) -> Change:
    return only(run("base", audited=bool(audits)), run("head", [entry()], records, audits, **fields))


def test_a_new_test_is_named_by_what_its_reference_does():
    assert added([record()]).kinds == (K.ADDED,)
    assert added([record(verdict=FAIL)]).kinds == (K.BROKEN_WHEN_ADDED,)
    assert added([]).kinds == (K.NOT_GRADED, K.ADDED)
    assert added([record(), record(verdict=FAIL, attempt=2)]).kinds == (K.UNSTABLE, K.ADDED)


def test_a_new_test_that_a_cheat_passes_is_exploitable_when_added():
    assert added([record()], [audit("t", "return-1")]).kinds == (K.EXPLOITABLE_WHEN_ADDED,)
    both = added([record(verdict=FAIL)], [audit("t", "return-1")])
    assert both.kinds == (K.BROKEN_WHEN_ADDED, K.EXPLOITABLE_WHEN_ADDED)


def test_a_new_test_is_exploitable_whether_or_not_the_base_was_audited():
    head = run("head", [entry()], [record()], [audit("t", "return-1")])
    assert only(run("base"), head).kind is K.EXPLOITABLE_WHEN_ADDED


def test_a_test_that_only_the_base_has_is_removed():
    change = only(run("base", [entry()], [record()]), run("head"))
    assert change.kinds == (K.REMOVED,)
    assert change.head is None
    assert change.reasons == ()


def test_a_definition_that_changed_without_any_verdict_is_edited():
    assert one([record()], [record()], digest="d2").kinds == (K.EDITED,)
    assert one([record()], [record(verdict=FAIL)], digest="d2").kinds == (K.REGRESSED,)


# ------------------------------------------------------------------------- exposure


def audited(base, head, base_records=(), head_records=(), **fields) -> Change:
    return one([record(), *base_records], [record(), *head_records], [base], [head], **fields)


def cheat(label: str, verdict: Verdict, *, attempt: int = 1) -> Record:
    return record(verdict=verdict, candidate=f"exploit:{label}", attempt=attempt)


def test_a_cheat_that_starts_to_pass_makes_a_test_newly_exploitable():
    assert audited(audit(), audit("t", "return-1")).kinds == (K.NEWLY_EXPLOITABLE,)


def test_a_cheat_that_stops_passing_hardens_a_test():
    assert audited(audit("t", "return-1"), audit()).kinds == (K.HARDENED,)


def test_a_test_is_not_hardened_by_a_reference_that_passes_no_more():
    """Where nothing can pass, that no cheat does proves nothing."""
    before = audit("t", "return-1")
    change = one([record()], [record(verdict=FAIL)], [before], [audit()])
    assert change.kinds == (K.REGRESSED, K.EXPOSURE_CHANGED)
    change = one([record(verdict=FAIL)], [record(verdict=FAIL)], [before], [audit()])
    assert change.kinds == (K.EXPOSURE_CHANGED,)


def test_a_mended_test_that_a_cheat_passes_is_newly_exploitable():
    change = one([record(verdict=FAIL)], [record()], [audit()], [audit("t", "return-1")])
    assert change.kinds == (K.NEWLY_EXPLOITABLE, K.FIXED)


def test_a_regression_is_the_first_word_of_a_test_that_also_became_exploitable():
    change = one([record()], [record(verdict=FAIL)], [audit()], [audit("t", "return-1")])
    assert change.kinds == (K.REGRESSED, K.NEWLY_EXPLOITABLE)


def test_exposure_is_compared_only_when_both_arms_were_audited():
    change = one([record()], [record()], (), [audit("t", "return-1")])
    assert change.kinds == (K.UNCHANGED,)


def test_other_passing_cheats_than_before_are_an_exposure_change():
    assert audited(audit("t", "a"), audit("t", "b")).kinds == (K.EXPOSURE_CHANGED,)
    assert audited(audit("t", "a"), audit("t", "a", "b")).kinds == (K.EXPOSURE_CHANGED,)
    assert audited(audit("t", "a", "b"), audit("t", "b", "a")).kinds == (K.UNCHANGED,)


def test_a_cheat_left_untried_after_another_passed_is_no_exposure_change():
    base, head = audit("t", "a", stopped_early=True), audit("t", "b", stopped_early=True)
    assert audited(base, head).kinds == (K.UNCHANGED,)
    assert audited(base, head, head_records=[cheat("a", FAIL)]).kinds == (K.EXPOSURE_CHANGED,)


def test_a_test_that_could_not_be_audited_before_is_not_called_newly_exploitable():
    blind = audit(auditable=False, reason="no function to replace")
    change = audited(blind, audit("t", "a"))
    assert change.kinds == (K.EXPOSURE_CHANGED,)
    assert change.base and change.base.audit_reason == "no function to replace"
    assert audited(blind, audit()).kinds == (K.UNCHANGED,)


def test_a_cheat_whose_attempts_disagree_makes_its_test_unstable():
    change = audited(audit(), audit("t", "a"), head_records=[cheat("a", PASS), cheat("a", FAIL, attempt=2)])
    assert change.kinds == (K.UNSTABLE,)
    assert change.head and change.head.exploits == ()
    assert change.head.unstable_exploits == ("a",)


def test_a_cheat_that_turns_out_to_pass_on_the_base_too_is_not_new():
    change = audited(audit(), audit("t", "a"), base_records=[cheat("a", FAIL), cheat("a", PASS, attempt=2)])
    assert change.kinds == (K.UNSTABLE,)


def test_a_cheat_that_could_not_be_graded_is_not_taken_for_one_that_failed():
    lost = infrastructure(candidate="exploit:a")
    assert audited(audit(), audit(), head_records=[lost]).kinds == (K.NOT_GRADED,)
    assert audited(audit("t", "b"), audit(), head_records=[lost]).kinds == (K.NOT_GRADED,)
    assert audited(audit(), audit("t", "b"), head_records=[lost]).kinds == (K.NEWLY_EXPLOITABLE,)


def test_an_audit_that_a_stopped_run_did_not_reach_is_not_taken_for_a_clean_one():
    stopped = run("head", [entry()], [record()], audited=True, partial=True)
    assert only(run("base", [entry()], [record()], [audit()]), stopped).kinds == (K.NOT_GRADED,)


def test_more_surviving_mutants_weaken_a_test():
    assert audited(audit(survivors=1, mutants=10), audit(survivors=2, mutants=10)).kinds == (K.WEAKENED,)
    assert audited(audit(survivors=2, mutants=10), audit(survivors=1, mutants=10)).kinds == (K.UNCHANGED,)


def test_mutants_are_compared_by_their_share_where_different_numbers_were_tried():
    assert audited(audit(survivors=2, mutants=10), audit(survivors=5, mutants=40)).kinds == (K.UNCHANGED,)
    assert audited(audit(survivors=0, mutants=0), audit(survivors=5, mutants=40)).kinds == (K.UNCHANGED,)
    assert audited(audit(survivors=2, mutants=10), audit(survivors=9, mutants=40)).kinds == (K.WEAKENED,)


# -------------------------------------------------------------------------- reasons


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("wordpress", "7.2", "WordPress 7.1.1 -> 7.2"),
        ("wordpress_digest", "f" * 64, "WordPress 7.1.1 with other files"),
        ("php", "8.3.0", "PHP 8.2.29 -> 8.3.0"),
        ("php_digest", "f" * 64, "another build of PHP 8.2.29"),
        ("sqlite", "3.45.0", "SQLite 3.40.1 -> 3.45.0"),
        ("grader_digest", "f" * 64, "grader differs"),
        ("runtime", "docker", "runtime native -> docker"),
        ("database", "mariadb", "database sqlite -> mariadb"),
    ],
)
def test_every_row_says_what_differs_between_the_arms(field, value, text):
    changed = replace(ENVIRONMENT, **{field: value})
    assert [reason.text for reason in one([record()], [record()], environment=changed).reasons] == [text]


def test_an_edited_test_is_the_first_reason():
    changed = replace(ENVIRONMENT, php="8.3.0")
    change = one([record()], [record(verdict=FAIL)], digest="d2", environment=changed)
    assert [reason.text for reason in change.reasons] == ["test edited", "PHP 8.2.29 -> 8.3.0"]


def test_an_unknown_environment_is_no_reason():
    assert one([record()], [record()], environment=None).reasons == ()


# --------------------------------------------------------------------- the whole comparison


def test_every_kind_of_change_is_told_apart():
    comparison = compare(*a_bit_of_everything())
    assert [change.kind for change in comparison.changes] == list(ChangeKind)
    assert all(change.kind.value.replace(" ", "-") == change.test_id[2:] for change in comparison.changes)
    assert comparison.totals == dict.fromkeys(ChangeKind, 1)


def test_rows_are_ordered_by_severity_then_category_then_id():
    tests = [entry("z", category="a"), entry("b", category="b"), entry("a", category="b"), entry("y")]
    base = run("base", tests, [record(test.test_id) for test in tests])
    head = run("head", tests, [record(test.test_id, FAIL if test.test_id == "y" else PASS) for test in tests])
    assert [change.test_id for change in compare(base, head).changes] == ["y", "z", "a", "b"]


def test_a_category_counts_what_each_arm_has_in_it():
    base = run(
        "base",
        [entry("a"), entry("b"), entry("c", category="rest")],
        [record("a"), record("b", FAIL), record("c")],
        [audit("a", "return-1"), audit("b"), audit("c", auditable=False)],
    )
    head = run(
        "head",
        [entry("a"), entry("b", invalid="no reference"), entry("d")],
        [record("a"), record("a", FAIL, attempt=2), infrastructure("d")],
    )
    hooks, rest = compare(base, head).categories
    assert (hooks.category, rest.category) == ("hooks", "rest")
    assert (hooks.base.tests, hooks.base.passing, hooks.base.exploitable) == (2, 1, 1)
    assert (hooks.head.tests, hooks.head.passing, hooks.head.invalid, hooks.head.not_graded) == (3, 0, 1, 1)
    assert (rest.base.not_auditable, rest.head.tests) == (1, 0)


def test_reused_verdicts_notes_and_partial_runs_are_carried_over():
    base = run("base", [entry()], [record(reused=True)], notes=("same", "only base"))
    head = run("head", [entry()], [record()], notes=("same",), partial=True)
    comparison = compare(base, head)
    assert (comparison.base_run.reused, comparison.head_run.reused) == (1, 0)
    assert comparison.notes == ("same", "base: only base")
    assert comparison.partial
    assert not comparison.audited


def test_of_two_entries_with_one_id_the_invalid_one_is_believed():
    twice = [entry(), entry(invalid="id 't' is used twice", line=9)]
    change = only(run("base", [entry()], [record()]), run("head", twice, []))
    assert change.kind is K.REGRESSED


# --------------------------------------------------------------------------- suspects


def test_changes_for_the_worse_are_run_again_on_both_arms():
    again = suspects(*a_bit_of_everything())
    assert again == (
        ("base", "a-regressed", "reference"),
        ("head", "a-regressed", "reference"),
        ("base", "b-newly-exploitable", "exploit:return-1"),
        ("base", "b-newly-exploitable", "exploit:literal-2"),
        ("head", "b-newly-exploitable", "exploit:return-1"),
        ("head", "b-newly-exploitable", "exploit:literal-2"),
        ("head", "c-broken-when-added", "reference"),
        ("head", "d-exploitable-when-added", "exploit:empty-stub"),
    )


def test_nothing_is_run_again_when_nothing_got_worse():
    assert suspects(*many(20)) == ()


# -------------------------------------------------------------------------- properties

IDS = st.sampled_from(["a", "b", "c", "d"])
ATTEMPTS = st.lists(st.sampled_from([PASS, FAIL, *ErrorKind]), max_size=3)
LABELS = st.lists(st.sampled_from(["return-1", "return-0", "literal"]), unique=True, max_size=3)


@st.composite
def sides(draw, test_id):
    """One arm's entry, records and audit of one test, or None for all where the arm has it not."""
    tests = [entry(test_id, digest=draw(st.sampled_from(["d1", "d2"])), category=draw(st.sampled_from("xy")))]
    records = []
    for candidate in ("reference", "exploit:return-1"):
        for number, outcome in enumerate(draw(ATTEMPTS), 1):
            kind = outcome if isinstance(outcome, ErrorKind) else None
            verdict = Verdict.ERROR if kind else outcome
            records.append(record(test_id, verdict, error_kind=kind, attempt=number, candidate=candidate))
    audits = []
    if draw(st.booleans()):
        survivors = draw(st.integers(0, 3))
        auditable, stopped = draw(st.booleans()), draw(st.booleans())
        labels = draw(LABELS) if auditable else []
        audits = [
            audit(
                test_id, *labels, survivors=survivors, mutants=5, auditable=auditable, stopped_early=stopped
            )
        ]
    return tests, records, audits


@st.composite
def runs(draw, name):
    tests: list[TestEntry] = []
    records: list[Record] = []
    audits: list[Audit] = []
    for test_id in sorted(draw(st.sets(IDS))):
        more_tests, more_records, more_audits = draw(sides(test_id))
        tests += more_tests
        records += more_records
        audits += more_audits
    return run(name, tests, records, audits, audited=draw(st.booleans()), partial=draw(st.booleans()))


PAIRS = st.tuples(runs("base"), runs("head"))


def rows(comparison: Comparison) -> dict[str, tuple[ChangeKind, ...]]:
    return {change.test_id: change.kinds for change in comparison.changes}


@DETERMINISTIC
@given(PAIRS)
def test_every_test_of_either_arm_has_exactly_one_row(pair):
    ids = [change.test_id for change in compare(*pair).changes]
    assert sorted(ids) == sorted({test.test_id for result in pair for test in result.tests})


@DETERMINISTIC
@given(PAIRS)
def test_the_first_word_of_a_row_is_its_most_severe(pair):
    for change in compare(*pair).changes:
        ranks = [kind.severity for kind in change.kinds]
        assert ranks == sorted(set(ranks))
        assert (K.UNCHANGED in change.kinds or K.EDITED in change.kinds) <= (change.also == ())


@DETERMINISTIC
@given(runs("base"))
def test_a_run_compared_with_itself_shows_no_change_that_is_not_in_the_run(result):
    inherent = {K.UNCHANGED, K.UNSTABLE, K.NOT_GRADED}
    assert {kind for kinds in rows(compare(result, result)).values() for kind in kinds} <= inherent


MIRRORED = {
    K.REGRESSED: K.FIXED,
    K.FIXED: K.REGRESSED,
    K.NEWLY_EXPLOITABLE: K.HARDENED,
    K.HARDENED: K.NEWLY_EXPLOITABLE,
}
SYMMETRIC = {K.UNSTABLE, K.NOT_GRADED, K.EXPOSURE_CHANGED}


@DETERMINISTIC
@given(PAIRS)
def test_swapping_the_arms_mirrors_every_row(pair):
    base, head = pair
    there, back = compare(base, head), compare(head, base)
    mirrored = rows(back)
    for change in there.changes:
        kinds, other = set(change.kinds), set(mirrored[change.test_id])
        if change.head is None:
            assert kinds == {K.REMOVED}
            assert K.REMOVED not in other
        elif change.base is None:
            assert other == {K.REMOVED}
        else:
            assert {MIRRORED[kind] for kind in kinds & MIRRORED.keys()} == other & MIRRORED.keys()
            assert kinds & SYMMETRIC == other & SYMMETRIC


@DETERMINISTIC
@given(PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_tests_records_and_audits_does_not_matter(pair, random):
    def shuffled(result: RunResult) -> RunResult:
        orders: dict[str, Any] = {
            name: tuple(random.sample(getattr(result, name), len(getattr(result, name))))
            for name in ("tests", "records", "audits")
        }
        return replace(result, **orders)

    assert compare(*map(shuffled, pair)) == compare(*pair)


@DETERMINISTIC
@given(PAIRS, sides("unrelated"), st.sampled_from([(0,), (1,), (0, 1)]))
def test_an_unrelated_test_changes_no_other_row(pair, extra, arms):
    tests, records, audits = extra
    grown = [
        replace(
            result,
            tests=(*tests, *result.tests),
            records=(*records, *result.records),
            audits=(*audits, *result.audits),
        )
        if number in arms
        else result
        for number, result in enumerate(pair)
    ]
    others = [change for change in compare(*grown).changes if change.test_id != "unrelated"]
    assert others == list(compare(*pair).changes)


@DETERMINISTIC
@given(PAIRS)
def test_totals_add_up_to_the_rows_and_categories_to_the_tests(pair):
    comparison = compare(*pair)
    assert sum(comparison.totals.values()) == len(comparison.changes)
    for result, name in zip(pair, ("base", "head"), strict=True):
        assert sum(getattr(row, name).tests for row in comparison.categories) == len(result.tests)


@DETERMINISTIC
@given(PAIRS)
def test_only_what_got_worse_is_suspected_and_only_where_the_test_exists(pair):
    worse = {K.REGRESSED, K.NEWLY_EXPLOITABLE, K.BROKEN_WHEN_ADDED, K.EXPLOITABLE_WHEN_ADDED}
    comparison = compare(*pair)
    by_id = {change.test_id: change for change in comparison.changes}
    again = suspects(*pair)
    assert len(set(again)) == len(again)
    assert {test_id for _, test_id, _ in again} == {
        change.test_id for change in comparison.changes if worse & set(change.kinds)
    }
    assert all(getattr(by_id[test_id], arm_name) is not None for arm_name, test_id, _ in again)


def test_severity_is_a_total_order_in_the_order_of_the_words():
    assert sorted(ChangeKind, key=lambda kind: kind.severity) == list(ChangeKind)
    assert len({kind.severity for kind in ChangeKind}) == len(ChangeKind)


def test_an_edit_names_the_fields_that_were_edited():
    before = replace(entry(), fields={"prompt": "1", "runtime_checks.setup": "2", "test_function": "3"})
    after = replace(entry(digest="d2"), fields={**before.fields, "runtime_checks.setup": "4", "prompt": "5"})
    change = only(run("base", [before], [record()]), run("head", [after], [record()]))
    assert change.kind is K.EDITED
    assert [reason.text for reason in change.reasons] == ["test edited (prompt, setup)"]
    assert change.reasons[0].fields == ("prompt", "runtime_checks.setup")


def test_an_edit_names_no_field_that_only_one_arm_knows():
    after = replace(entry(digest="d2"), fields={"prompt": "5"})
    change = only(run("base", [entry()], [record()]), run("head", [after], [record()]))
    assert [reason.text for reason in change.reasons] == ["test edited"]
