"""Which tests of two arms take part."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refcompare.errors import UsageError
from refcompare.selection import Selection, select
from refcompare.suites import SuiteSet, load_suites
from tests.suite_files import MemoryTree, a_file, a_test


def suites(**files: list[dict[str, Any]]) -> SuiteSet:
    """Give an arm. A file ``acme__hooks`` is the category hooks of the suite acme."""
    contents = {
        f"datasets/suites/{name.replace('__', '/execution/')}.json": a_file(*tests)
        for name, tests in files.items()
    }
    return load_suites(MemoryTree(contents))


def a(test_id: str, **changed):
    return a_test(test_id, category=..., **changed)


BASE = suites(acme__hooks=[a("h1"), a("h2")], acme__rest=[a("r1")], other__hooks=[a("o1")])
HEAD = suites(
    acme__hooks=[a("h1"), a("h2", prompt="New."), a("h3")], acme__rest=[a("r1", reference_solution=...)]
)


def ids(arm: SuiteSet) -> list[str]:
    return sorted([test.id for test in arm.tests] + [test.id for test in arm.invalid])


def chosen(
    base: SuiteSet | None = BASE, head: SuiteSet | None = HEAD, **asked
) -> tuple[list[str], list[str]]:
    narrowed = select(base, head, Selection(**asked))
    return ids(narrowed[0]), ids(narrowed[1])


def test_everything_takes_part_unless_something_was_asked_for():
    assert select(BASE, HEAD) == (BASE, HEAD)


def test_an_arm_that_there_is_not_is_empty():
    assert select(None, HEAD) == (SuiteSet(), HEAD)
    assert select(BASE, None) == (BASE, SuiteSet())


def test_a_suite_and_a_category_narrow_one_another():
    assert chosen(suites=("acme",)) == (["h1", "h2", "r1"], ["h1", "h2", "h3", "r1"])
    assert chosen(categories=("hooks",)) == (["h1", "h2", "o1"], ["h1", "h2", "h3"])
    assert chosen(suites=("acme",), categories=("hooks",)) == (["h1", "h2"], ["h1", "h2", "h3"])


def test_ids_may_be_repeated_and_joined_by_commas():
    assert chosen(test_ids=("h1, r1", "h3")) == (["h1", "r1"], ["h1", "h3", "r1"])


def test_a_test_that_cannot_be_graded_takes_part():
    assert chosen(test_ids=("r1",)) == (["r1"], ["r1"])
    assert not select(BASE, HEAD, Selection(test_ids=("r1",)))[1].tests


def test_an_id_with_a_comma_can_be_chosen_as_it_stands():
    arm = suites(acme__hooks=[a("x,y"), a("x")])
    assert chosen(arm, None, test_ids=("x,y",)) == (["x,y"], [])


@pytest.mark.parametrize(
    ("asked", "near"),
    [({"suites": ("acm",)}, "acme"), ({"categories": ("hook",)}, "hooks"), ({"test_ids": ("h1,h22",)}, "h2")],
)
def test_a_name_that_neither_arm_has_is_an_error_that_names_its_neighbours(asked, near):
    with pytest.raises(UsageError, match=f"did you mean '{near}'"):
        chosen(**asked)


def test_a_name_that_is_like_no_other_is_an_error_that_says_what_there_is():
    with pytest.raises(
        UsageError, match="--suite: no suite is called 'zzz' on either arm; there is 'acme' or 'other'"
    ):
        chosen(suites=("zzz",))
    many = suites(acme__hooks=[a(f"h{index}") for index in range(30)])
    with pytest.raises(UsageError, match="there are 30, which --dry-run lists without --test-id"):
        chosen(many, None, test_ids=("zzz",))


def test_a_name_that_one_arm_has_is_no_error():
    assert chosen(test_ids=("o1", "h3")) == (["o1"], ["h3"])


@pytest.mark.parametrize("asked", [("",), (" , ",)])
def test_an_option_that_names_nothing_is_an_error(asked):
    with pytest.raises(UsageError, match="--test-id names no test"):
        chosen(test_ids=asked)


def test_a_limit_counts_ids_over_both_arms_in_the_order_of_their_places():
    assert chosen(limit=3) == (["h1", "h2"], ["h1", "h2", "h3"])
    assert chosen(limit=99) == (ids(BASE), ids(HEAD))
    with pytest.raises(UsageError, match="--limit is 0"):
        chosen(limit=0)


def test_a_test_that_only_base_has_stands_at_its_own_place():
    base, head = suites(a__x=[a("gone"), a("kept")]), suites(a__x=[a("kept")], b__x=[a("late")])
    assert chosen(base, head, limit=2) == (["gone", "kept"], ["kept"])


def test_changed_keeps_what_was_edited_added_removed_or_made_invalid():
    assert chosen(changed=True) == (["h2", "o1", "r1"], ["h2", "h3", "r1"])


def test_changed_needs_two_arms():
    with pytest.raises(UsageError, match="--changed"):
        chosen(None, HEAD, changed=True)


def test_a_file_that_broke_takes_part_with_the_tests_that_it_may_have_lost():
    path = "datasets/suites/acme/execution/hooks.json"
    broken = load_suites(
        MemoryTree({path: b"{", "datasets/suites/acme/execution/rest.json": a_file(a("r1"))})
    )
    assert chosen(BASE, broken, test_ids=("h1",)) == (["h1"], [path])
    assert chosen(BASE, broken, test_ids=("r1",)) == (["r1"], ["r1"])


names = st.sampled_from(["a", "b", "c", "d", "e"])


@settings(deadline=None)
@given(st.sets(names), st.sets(names), st.integers(1, 6))
def test_both_arms_are_always_asked_for_the_same_ids(base, head, limit):
    arms = suites(s__x=[a(name) for name in sorted(base)]), suites(s__x=[a(name) for name in sorted(head)])
    left, right = chosen(*arms, limit=limit)
    picked = {*left, *right}
    assert len(picked) == min(limit, len(base | head))
    assert left == sorted(base & picked)
    assert right == sorted(head & picked)
