"""What the trials of two arms say of each metric. Pure: trials in, one comparison out.

A trial that ended by an error of the API or the environment says nothing and is counted apart. A metric is
compared by how often it passed, and by its mean score too where that is ever between 0 and 1. Where an
arm's own tree has not what a metric is about, the metric is absent there: said, and not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from refcompare.agents.programs.trajectory import Ending
from refcompare.statistics import (
    Estimate,
    Interval,
    MetricDifference,
    MetricVerdict,
    compare_rates,
    compare_scores,
    judge,
)
from refcompare.trials import Metric, MetricOutcome, Trial

Measure = Literal["rate", "score"]


@dataclass(frozen=True, slots=True)
class MetricChange:
    """One metric of one case on both arms.

    ``verdict`` is None where the metric is ``absent`` on an arm, which are named. ``adjusted`` is the
    p-value after all metrics of the comparison were taken into account. ``examples`` are reasons why it did
    not pass on head, or else on base, each once.
    """

    case: str
    eval_id: str
    suite: str
    metric: str
    measure: Measure
    difference: MetricDifference
    verdict: MetricVerdict | None
    adjusted: float
    absent: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    @property
    def base(self) -> Estimate:
        """The rate or mean score on base."""
        return self.difference.base

    @property
    def head(self) -> Estimate:
        """The rate or mean score on head."""
        return self.difference.head

    @property
    def interval(self) -> Interval | None:
        """The interval of the difference."""
        return self.difference.interval


@dataclass(frozen=True, slots=True)
class CaseSide:
    """One arm's trials of a case: how many there are, how many say something, and how they ended.

    ``seconds``, ``cost`` (US dollars) and ``tokens`` are means over the trials that know them, None where
    none does. ``errors`` are why trials were not graded, each once.
    """

    trials: int = 0
    graded: int = 0
    endings: tuple[tuple[str, int], ...] = ()
    seconds: float | None = None
    cost: float | None = None
    tokens: float | None = None
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One case of an eval on both arms, and who worked on it."""

    case: str
    eval_id: str
    suite: str
    agents: tuple[str, ...]
    base: CaseSide
    head: CaseSide


@dataclass(frozen=True, slots=True)
class TrialComparison:
    """All metrics, what changed first, and all cases in the order in which they ran.

    ``notes`` are sentences for the reader, such as about evals that cannot be used.
    """

    metrics: tuple[MetricChange, ...] = ()
    cases: tuple[CaseRow, ...] = ()
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether any agent was to work."""
        return bool(self.cases)

    @property
    def totals(self) -> dict[MetricVerdict, int]:
        """How many metrics have each verdict; verdicts without one are left out."""
        counts = Counter(change.verdict for change in self.metrics)
        return {verdict: counts[verdict] for verdict in MetricVerdict if counts[verdict]}

    @property
    def headline(self) -> str:
        """Say it in one clause: ``1 metric improved, 3 with no difference seen``."""
        said: list[str] = []
        for verdict, count in self.totals.items():
            noun = "metric" if count == 1 else "metrics"
            first = f"{count:,} {noun}" if not said else f"{count:,}"
            said.append(f"{first} {_WORDS[verdict]}")
        for arms, where in ((1, "on one arm alone"), (2, "on neither arm")):
            if absent := sum(len(change.absent) == arms for change in self.metrics):
                said.append(f"{absent:,} {where}")
        return ", ".join(said) or "no metric to compare"


_WORDS = {
    MetricVerdict.REGRESSED: "regressed",
    MetricVerdict.IMPROVED: "improved",
    MetricVerdict.TOO_FEW_TRIALS: "with too few trials",
    MetricVerdict.NO_DIFFERENCE: "with no difference seen",
}
_MOST_EXAMPLES = 3

MOST_TRIALS = 1_000
"""Trials of a case on one arm that are compared: results may come from a stranger, and tests take time."""

MOST_METRICS = 2_000
"""Metrics of a comparison that are judged."""


def compare_trials(
    base: Sequence[Trial], head: Sequence[Trial], *, notes: tuple[str, ...] = (), seed: int = 0
) -> TrialComparison:
    """Pair the trials of two arms by case and metric, and say of each metric whether it changed."""
    before, after = _by_case(base), _by_case(head)
    names = list(dict.fromkeys(trial.case for trial in _in_turn(base, head)))
    by_case = {case: (before.get(case, []), after.get(case, [])) for case in names}
    measured = (item for case in names for item in _measured(*by_case[case], seed))
    pending = list(islice(measured, MOST_METRICS))
    if next(measured, None) is not None:
        notes = (*notes, f"only the first {MOST_METRICS:,} metrics are compared")
    judgements = judge([item.difference for item in pending])
    changes = [
        MetricChange(
            case=item.trial.case,
            eval_id=item.trial.eval_id,
            suite=item.trial.suite,
            metric=item.metric,
            measure=item.measure,
            difference=item.difference,
            verdict=None if item.absent else judgement.verdict,
            adjusted=judgement.adjusted,
            absent=item.absent,
            examples=item.examples,
        )
        for item, judgement in zip(pending, judgements, strict=True)
    ]
    order = list(MetricVerdict)
    changes.sort(key=lambda change: order.index(change.verdict) if change.verdict else len(order))
    return TrialComparison(tuple(changes), tuple(_row(*by_case[case]) for case in names), notes)


def _by_case(trials: Sequence[Trial]) -> dict[str, list[Trial]]:
    """Give the trials of each case, up to the number that is compared."""
    found: dict[str, list[Trial]] = {}
    for trial in trials:
        mine = found.setdefault(trial.case, [])
        if len(mine) < MOST_TRIALS:
            mine.append(trial)
    return found


def _in_turn(base: Sequence[Trial], head: Sequence[Trial]) -> Iterable[Trial]:
    return sorted((*base, *head), key=lambda trial: trial.number)


@dataclass(frozen=True, slots=True)
class _Measured:
    trial: Trial
    metric: str
    measure: Measure
    difference: MetricDifference
    absent: tuple[str, ...]
    examples: tuple[str, ...]


def _measured(base: Sequence[Trial], head: Sequence[Trial], seed: int) -> Iterable[_Measured]:
    """Give what is to be judged of one case, metric by metric in the order of the eval."""
    trial = (*head, *base)[0]
    old_metrics, new_metrics = _by_name(base), _by_name(head)
    for name in dict.fromkeys((*new_metrics, *old_metrics)):
        before, after = old_metrics.get(name, []), new_metrics.get(name, [])
        absent = tuple(
            arm
            for arm, metrics in (("base", before), ("head", after))
            if metrics and all(metric.outcome is MetricOutcome.ABSENT for metric in metrics)
        )
        examples = _examples(after) or _examples(before)
        old, new = _counted(before), _counted(after)
        rates = compare_rates(_passes(old), len(old), _passes(new), len(new))
        yield _Measured(trial, name, "rate", rates, absent, examples)
        scores = tuple([metric.score for metric in arm if metric.score is not None] for arm in (old, new))
        if any(0 < score < 1 for arm in scores for score in arm):
            yield _Measured(trial, name, "score", compare_scores(*scores, seed=seed), absent, examples)


def _by_name(arm: Sequence[Trial]) -> dict[str, list[Metric]]:
    """Give every metric of the trials that say something, by its name, in the order of the eval."""
    found: dict[str, list[Metric]] = {}
    for trial in arm:
        for metric in trial.metrics if trial.graded else ():
            found.setdefault(metric.name, []).append(metric)
    return found


def _counted(metrics: Sequence[Metric]) -> list[Metric]:
    return [item for item in metrics if item.outcome in (MetricOutcome.PASSED, MetricOutcome.FAILED)]


def _passes(metrics: Sequence[Metric]) -> int:
    return sum(metric.outcome is MetricOutcome.PASSED for metric in metrics)


def _examples(metrics: Sequence[Metric]) -> tuple[str, ...]:
    told = (item.message for item in metrics if item.outcome is not MetricOutcome.PASSED and item.message)
    return tuple(dict.fromkeys(told))[:_MOST_EXAMPLES]


def _row(base: Sequence[Trial], head: Sequence[Trial]) -> CaseRow:
    trial = (*head, *base)[0]
    who = (_who(item) for item in (*base, *head))
    return CaseRow(trial.case, trial.eval_id, trial.suite, tuple(sorted(set(who))), _side(base), _side(head))


def _who(trial: Trial) -> str:
    agent, model = trial.trajectory.agent, trial.trajectory.model
    return f"{agent} ({model})" if model else agent


def _side(trials: Sequence[Trial]) -> CaseSide:
    graded = [trial for trial in trials if trial.graded]
    endings = Counter(trial.trajectory.ending for trial in trials)
    errors = [trial.trajectory.error for trial in trials if not trial.graded]
    return CaseSide(
        trials=len(trials),
        graded=len(graded),
        endings=tuple((ending.value, endings[ending]) for ending in Ending if endings[ending]),
        seconds=_mean(trial.trajectory.seconds for trial in graded),
        cost=_mean(trial.trajectory.cost for trial in graded),
        tokens=_mean(_tokens(trial) for trial in graded),
        errors=tuple(dict.fromkeys(error for error in errors if error))[:_MOST_EXAMPLES],
    )


def _tokens(trial: Trial) -> float | None:
    usage = trial.trajectory.usage
    known = [
        count
        for count in (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
        )
        if count is not None
    ]
    return float(sum(known)) if known else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
