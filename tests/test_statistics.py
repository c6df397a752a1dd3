"""When a difference between two arms is real, held to published values and to laws that always hold."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import boschloo_exact

from refcompare import statistics
from refcompare.statistics import (
    Estimate,
    Interval,
    MetricDifference,
    MetricVerdict,
    benjamini_hochberg,
    boschloo,
    compare_rates,
    compare_scores,
    detectable_rate,
    detectable_score,
    judge,
    newcombe,
    permutation,
    wilson,
)

EXAMPLES = settings(deadline=None, derandomize=True, max_examples=60)
FEW_EXAMPLES = settings(EXAMPLES, max_examples=15)

scores = st.lists(st.floats(0, 1, allow_nan=False), min_size=1, max_size=8)


@st.composite
def counts(draw: st.DrawFn, most: int = 12) -> tuple[int, int]:
    trials = draw(st.integers(1, most))
    return draw(st.integers(0, trials)), trials


def rounded(interval: Interval | None) -> tuple[float, float]:
    assert interval is not None
    return round(interval.low, 4), round(interval.high, 4)


# ------------------------------------------------------------------------ published values


@pytest.mark.parametrize(
    ("passes", "trials", "low", "high"),
    # Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I, method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_the_wilson_interval_is_the_published_one(passes, trials, low, high):
    assert rounded(wilson(passes, trials)) == (low, high)


@pytest.mark.parametrize(
    ("one", "other", "low", "high"),
    # Newcombe 1998, "Interval estimation for the difference between independent proportions", table II,
    # method 10; there the difference is one minus other.
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((0, 10), (0, 20), -0.1611, 0.2775),
        ((10, 10), (0, 20), 0.6791, 1.0),
    ],
)
def test_the_interval_of_a_difference_is_the_published_one(one, other, low, high):
    assert rounded(newcombe(*other, *one)) == (low, high)


def test_boschloos_test_of_three_against_three_is_what_can_be_counted_by_hand():
    # Only the two extreme tables are as extreme, each with the chance rate^3 (1 - rate)^3 <= 1/64.
    assert boschloo(0, 3, 3, 3) == pytest.approx(2 / 64)


def test_a_permutation_test_counts_every_way_to_deal_the_scores():
    assert permutation([0.1, 0.2, 0.3], [0.7, 0.8, 0.9]) == pytest.approx(2 / math.comb(6, 3))


def test_many_scores_are_dealt_at_random_and_always_alike():
    base, head = [i / 40 for i in range(20)], [0.5 + i / 40 for i in range(20)]
    assert permutation(base, head, seed=3) == permutation(base, head, seed=3) < 0.001


def test_benjamini_and_hochbergs_own_example_keeps_four_of_fifteen():
    p_values = [
        *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344),
        *(0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0),
    ]
    assert sum(value <= 0.05 for value in benjamini_hochberg(p_values)) == 4


# ------------------------------------------------------------------------------- verdicts


def verdicts(*differences: MetricDifference) -> list[MetricVerdict]:
    return [judgement.verdict for judgement in judge(differences)]


@pytest.mark.parametrize(
    ("difference", "verdict"),
    [
        (compare_rates(1, 10, 9, 10), MetricVerdict.IMPROVED),
        (compare_rates(9, 10, 1, 10), MetricVerdict.REGRESSED),
        (compare_rates(15, 20, 16, 20), MetricVerdict.NO_DIFFERENCE),
        (compare_rates(1, 3, 2, 3), MetricVerdict.TOO_FEW_TRIALS),
        (compare_rates(0, 2, 2, 2), MetricVerdict.TOO_FEW_TRIALS),
        (compare_rates(0, 0, 5, 5), MetricVerdict.TOO_FEW_TRIALS),
        (compare_scores([0.1, 0.2, 0.15, 0.2], [0.9, 0.8, 1.0, 0.95]), MetricVerdict.IMPROVED),
        (compare_scores([0.9, 0.8, 1.0, 0.95], [0.1, 0.2, 0.15, 0.2]), MetricVerdict.REGRESSED),
        (compare_scores([0.5] * 10, [0.5] * 10), MetricVerdict.NO_DIFFERENCE),
        (compare_scores([0.5, 0.6], [0.9, 0.9]), MetricVerdict.TOO_FEW_TRIALS),
        (compare_scores([0.5], [0.9, 0.9, 0.8]), MetricVerdict.TOO_FEW_TRIALS),
        (compare_scores([], [0.9]), MetricVerdict.TOO_FEW_TRIALS),
    ],
)
def test_a_metric_gets_the_verdict_that_its_trials_support(difference, verdict):
    assert verdicts(difference) == [verdict]


def test_one_small_p_value_among_many_metrics_is_not_believed():
    lucky, dull = compare_rates(2, 10, 7, 10), compare_rates(5, 10, 5, 10)
    assert lucky.p_value <= 0.05
    assert verdicts(lucky) == [MetricVerdict.IMPROVED]
    assert verdicts(lucky, *[dull] * 9)[0] is not MetricVerdict.IMPROVED


def test_a_metric_that_one_arm_has_no_trial_for_costs_the_others_nothing():
    real, absent = compare_rates(2, 10, 7, 10), compare_rates(0, 0, 5, 5)
    assert absent == MetricDifference(
        Estimate(0), Estimate(5, 1.0, wilson(5, 5)), None, None, 1.0, detectable=None
    )
    assert verdicts(real, *[absent] * 9)[0] is MetricVerdict.IMPROVED


def test_more_trials_see_a_smaller_effect_and_three_see_none_reliably():
    found = [detectable_rate(trials, trials, trials) for trials in (5, 10, 20, 40)]
    assert found == sorted((item for item in found if item is not None), reverse=True)
    assert detectable_rate(3, 3, 3) is None
    few, many = detectable_score([0.5] * 5, [0.5] * 5), detectable_score([0.5] * 40, [0.5] * 40)
    assert few is not None and many is not None and few > many > 0


def test_with_many_trials_the_detectable_effect_is_approximated_without_a_jump():
    exact, approximate = detectable_rate(50, 100, 100), detectable_rate(51, 101, 101)
    assert exact is not None and approximate is not None
    assert approximate == pytest.approx(exact, abs=0.03)
    assert 0 < (detectable_rate(500, 1_000, 1_000) or 0) < 0.07
    assert 0 < (detectable_rate(1_000, 1_000, 1_000) or 0) < 0.02


def test_an_effect_of_the_detectable_size_is_seen_in_four_of_five_comparisons():
    from scipy.stats import binom

    base, trials = 6, 12
    found = detectable_rate(base, trials, trials)
    assert found is not None
    rate = (base + 0.5) / (trials + 1)
    power = sum(
        float(binom.pmf(a, trials, rate) * binom.pmf(b, trials, rate - found))
        for a in range(trials + 1)
        for b in range(trials + 1)
        if boschloo_exact([[a, b], [trials - a, trials - b]]).pvalue <= 0.05
    )
    assert power == pytest.approx(0.8, abs=0.03)


# ---------------------------------------------------------------------- laws that always hold


@EXAMPLES
@given(counts(most=200))
def test_a_wilson_interval_holds_the_rate_and_stays_between_0_and_1(count):
    passes, trials = count
    found = wilson(passes, trials)
    assert 0 <= found.low <= passes / trials <= found.high <= 1
    mirrored = wilson(trials - passes, trials)
    assert found.low == pytest.approx(1 - mirrored.high)


@EXAMPLES
@given(counts(), counts())
def test_swapping_the_arms_turns_a_difference_of_rates_round(base, head):
    there, back = newcombe(*base, *head), newcombe(*head, *base)
    assert -1 <= there.low <= head[0] / head[1] - base[0] / base[1] <= there.high <= 1
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))


@FEW_EXAMPLES
@given(counts(most=6), counts(most=6))
def test_boschloos_test_does_not_care_which_arm_is_which_or_what_counts_as_passing(base, head):
    value = boschloo(*base, *head)
    assert 0 < value <= 1
    assert boschloo(*head, *base) == pytest.approx(value, abs=1e-6)
    failed = boschloo(base[1] - base[0], base[1], head[1] - head[0], head[1])
    assert failed == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize(("base_trials", "head_trials"), [(3, 3), (4, 7)])
def test_all_tables_are_judged_at_once_as_scipy_judges_each(base_trials, head_trials):
    rejected = statistics._rejected(base_trials, head_trials)
    for a in range(base_trials + 1):
        for b in range(head_trials + 1):
            value = boschloo(a, base_trials, b, head_trials)
            assert abs(value - 0.05) < 0.002 or bool(rejected[a, b]) == (value <= 0.05), (a, b)


@FEW_EXAMPLES
@given(scores, scores)
def test_scores_give_intervals_within_their_range_and_the_same_ones_every_time(base, head):
    found = compare_scores(base, head, seed=1)
    assert found == compare_scores(base, head, seed=1)
    assert found.difference is not None and found.interval is not None
    assert 0 < found.p_value <= 1
    assert -1 <= found.interval.low <= found.interval.high <= 1
    for estimate in (found.base, found.head):
        assert estimate.interval is not None and estimate.value is not None
        assert -1e-9 <= estimate.interval.low <= estimate.interval.high <= 1 + 1e-9
        assert -1e-9 <= estimate.value <= 1 + 1e-9


@EXAMPLES
@given(st.lists(st.floats(0, 1), max_size=12))
def test_adjusting_never_makes_a_p_value_smaller_or_changes_the_order(p_values):
    adjusted = benjamini_hochberg(p_values)
    assert all(after >= before - 1e-12 for before, after in zip(p_values, adjusted, strict=True))
    ranked = [value for _, value in sorted(zip(p_values, adjusted, strict=True))]
    assert ranked == sorted(ranked)


@pytest.mark.parametrize(("passes", "trials"), [(0, 0), (-1, 3), (4, 3)])
def test_impossible_counts_are_refused(passes, trials):
    with pytest.raises(ValueError, match="cannot have passed"):
        wilson(passes, trials)
