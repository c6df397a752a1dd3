"""Is a difference between two arms real? Pure: numbers in, intervals and verdicts out.

Agents are stochastic, so an arm is a handful of trials and not one. A pass/fail metric is compared by
its rate: 95 % Wilson intervals, Newcombe's interval for the difference, Boschloo's exact test. A score is
compared by its mean: percentile bootstrap intervals and a permutation test. Over all metrics of a
comparison the Benjamini-Hochberg procedure keeps the share of false alarms at 5 %.

Everything that draws random numbers takes a seed, so the same trials always give the same report.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

CONFIDENCE = 0.95
ALPHA = 1 - CONFIDENCE
POWER = 0.8
"""How often a difference has to be seen for these many trials to count as able to see it."""

LARGE_EFFECT = 0.5
"""A difference of rates or scores that nobody would want to miss. Where trials could not have seen even
this one, that none was seen says nothing."""

_RESAMPLES = 9_999
_Z = 1.959963984540054  # the 97.5th percentile of the normal distribution
_Z_POWER = 0.8416212335729143  # the 80th
_EXACT = 10_000
"""Pairs of trials up to which every possible outcome is looked at."""


class MetricVerdict(StrEnum):
    """What a comparison says of one metric."""

    REGRESSED = "regressed"
    IMPROVED = "improved"
    TOO_FEW_TRIALS = "too few trials"
    NO_DIFFERENCE = "no difference seen"


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % confidence interval, both ends included."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """One arm's rate or mean score, from 0 to 1, over ``trials`` graded trials.

    ``value`` and ``interval`` are None without a trial.
    """

    trials: int
    value: float | None = None
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class MetricDifference:
    """One metric on both arms. ``difference`` is head minus base, None where an arm has no trial.

    ``p_value`` is two-sided and not yet adjusted. ``detectable`` is the smallest true difference, from 0 to
    1, that this many trials see in four of five comparisons; None where they could see none at all.
    """

    base: Estimate
    head: Estimate
    difference: float | None
    interval: Interval | None
    p_value: float
    detectable: float | None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one metric, and its p-value adjusted for all metrics of the comparison."""

    verdict: MetricVerdict
    adjusted: float


# ------------------------------------------------------------------------------- verdicts


def compare_rates(base_passes: int, base_trials: int, head_passes: int, head_trials: int) -> MetricDifference:
    """Compare how often a metric passed on each arm."""
    base, head = _rate(base_passes, base_trials), _rate(head_passes, head_trials)
    if base.value is None or head.value is None:
        return MetricDifference(base, head, None, None, 1.0, None)
    counts = (base_passes, base_trials, head_passes, head_trials)
    return MetricDifference(
        base,
        head,
        head.value - base.value,
        newcombe(*counts),
        boschloo(*counts),
        detectable_rate(base_passes, base_trials, head_trials),
    )


def compare_scores(base: Sequence[float], head: Sequence[float], *, seed: int = 0) -> MetricDifference:
    """Compare the mean of a score, each from 0 to 1, on each arm."""
    before, after = _mean(base, seed), _mean(head, seed)
    if before.value is None or after.value is None:
        return MetricDifference(before, after, None, None, 1.0, None)
    return MetricDifference(
        before,
        after,
        after.value - before.value,
        bootstrap_difference(base, head, seed=seed),
        permutation(base, head, seed=seed),
        detectable_score(base, head),
    )


def judge(differences: Sequence[MetricDifference], alpha: float = ALPHA) -> tuple[Judgement, ...]:
    """Say of each metric of one comparison whether it changed, in their order.

    Metrics that one of the arms has no trial for are ``too few trials`` and do not count as comparisons.
    """
    compared = [index for index, item in enumerate(differences) if item.difference is not None]
    adjusted = dict(
        zip(compared, benjamini_hochberg([differences[index].p_value for index in compared]), strict=True)
    )
    return tuple(_judgement(item, adjusted.get(index, 1.0), alpha) for index, item in enumerate(differences))


def _judgement(item: MetricDifference, adjusted: float, alpha: float) -> Judgement:
    if item.difference and adjusted <= alpha:
        better = item.difference > 0
        return Judgement(MetricVerdict.IMPROVED if better else MetricVerdict.REGRESSED, adjusted)
    blind = item.difference is None or item.detectable is None or item.detectable > LARGE_EFFECT
    return Judgement(MetricVerdict.TOO_FEW_TRIALS if blind else MetricVerdict.NO_DIFFERENCE, adjusted)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjust p-values so that calling those up to 5 % a difference is wrong in 5 % of such calls at most.

    Benjamini and Hochberg 1995. None is smaller than it was.
    """
    if not p_values:
        return ()
    from scipy.stats import false_discovery_control

    return tuple(float(value) for value in false_discovery_control(p_values, method="bh"))


# ---------------------------------------------------------------------------------- rates


def wilson(passes: int, trials: int) -> Interval:
    """Give the 95 % score interval of a rate (Wilson 1927). Raises ValueError for impossible counts."""
    _check(passes, trials)
    rate, square = passes / trials, _Z * _Z / trials
    middle = (rate + square / 2) / (1 + square)
    half = _Z / (1 + square) * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials))
    # At the ends the formula gives 0 and 1 exactly, but for rounding.
    low = 0.0 if passes == 0 else max(0.0, middle - half)
    high = 1.0 if passes == trials else min(1.0, middle + half)
    return Interval(low, high)


def newcombe(base_passes: int, base_trials: int, head_passes: int, head_trials: int) -> Interval:
    """Give the 95 % interval of the difference of two rates, head minus base (Newcombe 1998, method 10)."""
    base, head = wilson(base_passes, base_trials), wilson(head_passes, head_trials)
    before, after = base_passes / base_trials, head_passes / head_trials
    difference = after - before
    low = difference - math.hypot(after - head.low, base.high - before)
    high = difference + math.hypot(head.high - after, before - base.low)
    return Interval(max(-1.0, low), min(1.0, high))


@functools.lru_cache(maxsize=4096)
def boschloo(base_passes: int, base_trials: int, head_passes: int, head_trials: int) -> float:
    """Give the two-sided p-value of Boschloo's exact test that both rates are the same."""
    _check(base_passes, base_trials)
    _check(head_passes, head_trials)
    if base_passes * head_trials == head_passes * base_trials:
        return 1.0  # scipy gives NaN where every trial, or none, passed
    from scipy.stats import boschloo_exact

    table = [[base_passes, head_passes], [base_trials - base_passes, head_trials - head_passes]]
    return min(1.0, float(boschloo_exact(table).pvalue))


def detectable_rate(base_passes: int, base_trials: int, head_trials: int) -> float | None:
    """Give the smallest difference from the base's rate that Boschloo's test sees with a power of 80 %.

    The base's rate is taken to be a little nearer to one half than it was seen, since few trials that all
    pass do not make it 1. None where not even the largest difference would be seen.
    """
    import numpy as np
    from scipy.stats import binom

    rate = (base_passes + 0.5) / (base_trials + 1)
    if base_trials * head_trials > _EXACT:
        return _detectable_approximately(rate, base_trials, head_trials)
    others = np.linspace(0, 1, 201)
    rejected = binom.pmf(np.arange(base_trials + 1), base_trials, rate) @ _rejected(base_trials, head_trials)
    seen = rejected @ binom.pmf(np.arange(head_trials + 1)[:, None], head_trials, others[None, :])
    differences = np.abs(others - rate)[seen >= POWER]
    return float(differences.min()) if differences.size else None


def _detectable_approximately(rate: float, base_trials: int, head_trials: int) -> float:
    """Give the same for many trials, by Cohen's arcsine transformation."""
    effect = (_Z + _Z_POWER) * math.sqrt(1 / base_trials + 1 / head_trials)
    middle = 2 * math.asin(math.sqrt(rate))
    found = [
        abs(math.sin(angle / 2) ** 2 - rate)
        for angle in (middle - effect, middle + effect)
        if 0 <= angle <= math.pi
    ]
    return min(found, default=1.0)


@functools.lru_cache(maxsize=64)
def _rejected(base_trials: int, head_trials: int) -> Numbers:
    """Say for each pair of pass counts whether Boschloo's test calls it a difference: 1 or 0.

    All tables are judged at once, with the nuisance parameter on a grid; scipy judges one at a time.
    """
    import numpy as np
    from scipy.stats import hypergeom

    base, head = np.arange(base_trials + 1)[:, None], np.arange(head_trials + 1)[None, :]
    both = base_trials + head_trials
    more = _tail_probability(hypergeom.sf(head - 1, both, base + head, head_trials), base_trials, head_trials)
    less = _tail_probability(hypergeom.cdf(head, both, base + head, head_trials), base_trials, head_trials)
    return (2 * np.minimum(more, less) <= ALPHA).astype(float)


def _tail_probability(fisher: Numbers, base_trials: int, head_trials: int) -> Numbers:
    """Give, for each table, the largest chance over all rates of one that Fisher's test finds as extreme."""
    import numpy as np
    from scipy.stats import binom

    # Rounded, so that tables which are equally extreme tie.
    values, rank = np.unique(np.round(fisher, 12), return_inverse=True)
    largest = np.zeros(values.size)
    for rate in np.linspace(0.01, 0.99, 99):
        chance = np.outer(
            binom.pmf(np.arange(base_trials + 1), base_trials, rate),
            binom.pmf(np.arange(head_trials + 1), head_trials, rate),
        )
        by_rank = np.bincount(rank.ravel(), weights=chance.ravel(), minlength=values.size)
        largest = np.maximum(largest, np.cumsum(by_rank))
    shaped: Numbers = largest[rank].reshape(fisher.shape)
    return shaped


def _rate(passes: int, trials: int) -> Estimate:
    return Estimate(trials, passes / trials, wilson(passes, trials)) if trials else Estimate(0)


def _check(passes: int, trials: int) -> None:
    if trials < 1 or not 0 <= passes <= trials:
        raise ValueError(f"{passes} of {trials} trials cannot have passed")


# --------------------------------------------------------------------------------- scores


def permutation(base: Sequence[float], head: Sequence[float], *, seed: int = 0) -> float:
    """Give the two-sided p-value of a permutation test that both arms' scores are exchangeable.

    Exact where there are fewer than 10,000 ways to deal the scores to the arms, seeded otherwise. An arm
    with a single score shows nothing, so that the p-value is 1.
    """
    if not base or not head:
        raise ValueError("a permutation test needs a score on each arm")
    if min(len(base), len(head)) < 2 or len({*base, *head}) == 1:
        return 1.0
    from scipy.stats import permutation_test

    result = permutation_test(
        (base, head),
        _difference_of_means,
        vectorized=True,
        n_resamples=_RESAMPLES,
        rng=_generator(seed),
    )
    return min(1.0, float(result.pvalue))


def _difference_of_means(base: Any, head: Any, axis: int) -> Any:
    return head.mean(axis=axis) - base.mean(axis=axis)


def bootstrap_mean(scores: Sequence[float], *, seed: int = 0) -> Interval:
    """Give the 95 % percentile bootstrap interval of a mean. Equal scores give a single point."""
    return _percentiles(lambda draw: draw(scores), seed)


def bootstrap_difference(base: Sequence[float], head: Sequence[float], *, seed: int = 0) -> Interval:
    """Give the 95 % percentile bootstrap interval of the difference of two means, head minus base."""
    return _percentiles(lambda draw: draw(head) - draw(base), seed)


def _percentiles(statistic: Callable[[Callable[[Sequence[float]], Numbers]], Numbers], seed: int) -> Interval:
    import numpy as np

    generator = _generator(seed)

    def draw(scores: Sequence[float]) -> Numbers:
        values = np.asarray(scores, dtype=float)
        means: Numbers = generator.choice(values, size=(_RESAMPLES, values.size)).mean(axis=1)
        return means

    low, high = np.percentile(statistic(draw), [100 * ALPHA / 2, 100 * (1 - ALPHA / 2)])
    return Interval(float(low), float(high))


def detectable_score(base: Sequence[float], head: Sequence[float]) -> float | None:
    """Give the smallest difference of means that is seen with a power of 80 %, by the t approximation.

    The spread is that of both arms and of one more observation as far from the mean as a score can be, so
    that a few equal scores do not pass for certainty. None where no outcome would be significant.
    """
    from scipy.stats import t

    sizes = (len(base), len(head))
    freedom = sum(sizes) - 2
    if freedom < 1 or 2 / math.comb(sum(sizes), sizes[0]) > ALPHA:
        return None
    squares = sum((score - _average(arm)) ** 2 for arm in (base, head) for score in arm)
    spread = math.sqrt((squares + 0.25) / (freedom + 1))
    factor = float(t.ppf(1 - ALPHA / 2, freedom) + t.ppf(POWER, freedom))
    found = factor * spread * math.sqrt(1 / sizes[0] + 1 / sizes[1])
    return found if found <= 1 else None


def _average(scores: Sequence[float]) -> float:
    return math.fsum(scores) / len(scores)


def _mean(scores: Sequence[float], seed: int) -> Estimate:
    if not scores:
        return Estimate(0)
    return Estimate(len(scores), _average(scores), bootstrap_mean(scores, seed=seed))


def _generator(seed: int) -> np.random.Generator:
    import numpy as np

    return np.random.default_rng(seed)
