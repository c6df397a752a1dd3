"""Which changes fail the build. Pure: a comparison in, a conclusion with its exit code out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from refcompare.changes import Change, ChangeKind, Comparison, Side
from refcompare.errors import UsageError
from refcompare.metrics import CaseRow, CaseSide, MetricChange
from refcompare.results import ErrorKind
from refcompare.statistics import MetricVerdict
from refcompare.wording import did_you_mean, quoted

DEFAULT_FAIL_ON = frozenset(
    {
        ChangeKind.REGRESSED,
        ChangeKind.NEWLY_EXPLOITABLE,
        ChangeKind.BROKEN_WHEN_ADDED,
        ChangeKind.NOT_GRADED,
    }
)
"""What fails the build where nothing else was asked for."""

Conclusion = Literal["success", "failure", "error"]


@dataclass(frozen=True, slots=True)
class GateResult:
    """Whether the build fails, and why.

    ``conclusion`` is ``error`` where nothing could be graded, so that there is no verdict.
    ``gated`` are the rows that fail the build, the most severe first. ``exit_code`` is 0 for
    success, 1 for failure, 3 for error. ``sentence`` says the same to a reader; ``fail_on``
    are the kinds that were asked for. ``metrics`` regressed and ``cases`` could not be graded on an
    arm, where that fails the build.
    """

    conclusion: Conclusion
    gated: tuple[Change, ...]
    exit_code: Literal[0, 1, 3]
    sentence: str
    fail_on: frozenset[ChangeKind] = DEFAULT_FAIL_ON
    metrics: tuple[MetricChange, ...] = ()
    cases: tuple[CaseRow, ...] = ()


def gate(comparison: Comparison, fail_on: frozenset[ChangeKind] = DEFAULT_FAIL_ON) -> GateResult:
    """Judge a comparison. A row counts by everything that holds of it, not by its first word alone."""
    failed = _failed_arms(comparison)
    if failed:
        where = " and ".join(failed)
        what = "trial" if comparison.trials and not comparison.changes else "test"
        sentence = (
            f"The run was stopped before a {what} was graded on {where}, so there is no verdict."
            if comparison.partial
            else f"No {what} could be graded on {where}, so there is no verdict; refcompare doctor says more."
        )
        return GateResult("error", (), 3, sentence, fail_on)
    gated = tuple(change for change in comparison.changes if fail_on & set(change.kinds))
    metrics, cases = _gated_metrics(comparison, fail_on), _ungraded_cases(comparison, fail_on)
    if gated or metrics or cases:
        said = [count_kinds(_worst(change, fail_on) for change in gated)] if gated else []
        said += (
            [f"{len(metrics):,} {'metric' if len(metrics) == 1 else 'metrics'} regressed"] if metrics else []
        )
        said += [f"{len(cases):,} {'eval' if len(cases) == 1 else 'evals'} not graded"] if cases else []
        sentence = f"The build fails: {', '.join(said)}."
        return GateResult("failure", gated, 1, sentence, fail_on, metrics, cases)
    return GateResult("success", (), 0, _success(comparison, fail_on), fail_on)


def parse_fail_on(text: str) -> frozenset[ChangeKind]:
    """Read a list such as ``regressed,newly-exploitable``, in words with hyphens or spaces.

    ``none`` alone lets everything pass; ``any`` alone fails on every kind of change. Raises
    UsageError for an unknown word, naming those that are near.
    """
    words = ["-".join(word.lower().replace("-", " ").replace("_", " ").split()) for word in text.split(",")]
    words = [word for word in words if word]
    if words == ["none"]:
        return frozenset()
    if words == ["any"]:
        return frozenset(_GATEABLE.values())
    if not words:
        raise UsageError(
            f"--fail-on needs at least one kind of change, or none, or any: {', '.join(_GATEABLE)}."
        )
    for word in words:
        if word in {"none", "any"}:
            raise UsageError(f"--fail-on takes {word!r} alone, not together with other words.")
        if word not in _GATEABLE:
            hint = did_you_mean(word, _GATEABLE) or f"the kinds are {', '.join(_GATEABLE)}."
            raise UsageError(f"--fail-on: {quoted(word)} is no kind of change; {hint}")
    return frozenset(_GATEABLE[word] for word in words)


def count_kinds(kinds: Iterable[ChangeKind]) -> str:
    """Put counts in words, the most severe first: ``2 regressed, 1 fixed``."""
    counts = Counter(kinds)
    return ", ".join(f"{counts[kind]:,} {kind.value}" for kind in ChangeKind if counts[kind])


_GATEABLE = {kind.value.replace(" ", "-"): kind for kind in ChangeKind if kind is not ChangeKind.UNCHANGED}


def _worst(change: Change, fail_on: frozenset[ChangeKind]) -> ChangeKind:
    return next(kind for kind in change.kinds if kind in fail_on)


def _gated_metrics(comparison: Comparison, fail_on: frozenset[ChangeKind]) -> tuple[MetricChange, ...]:
    if ChangeKind.REGRESSED not in fail_on:
        return ()
    return tuple(item for item in comparison.trials.metrics if item.verdict is MetricVerdict.REGRESSED)


def _ungraded_cases(comparison: Comparison, fail_on: frozenset[ChangeKind]) -> tuple[CaseRow, ...]:
    """Give the cases of which an arm has trials and none that says anything; one that failed is bad luck."""
    if ChangeKind.NOT_GRADED not in fail_on:
        return ()
    return tuple(
        row
        for row in comparison.trials.cases
        if any(side.trials and not side.graded for side in (row.base, row.head))
    )


def _success(comparison: Comparison, fail_on: frozenset[ChangeKind]) -> str:
    ending = " The run was stopped before its end." if comparison.partial else ""
    if not comparison.changes and not comparison.trials:
        return f"There was no test to compare.{ending}"
    if not fail_on:
        return f"Nothing fails the build, as was asked.{ending}"
    return f"Nothing that fails the build changed.{ending}"


def _failed_arms(comparison: Comparison) -> list[str]:
    """Name the arms that have tests or trials of which their environment graded none.

    An invalid test is known without grading, and a removed one is not compared, so neither counts.
    """
    base = [change.base for change in comparison.changes if change.base and change.head]
    head = [change.head for change in comparison.changes if change.head]
    cases = comparison.trials.cases
    return [
        arm.name
        for arm, tests, trials in (
            (comparison.base, base, [row.base for row in cases]),
            (comparison.head, head, [row.head for row in cases]),
        )
        if _all_ungraded(tests, trials)
    ]


def _all_ungraded(tests: list[Side], trials: list[CaseSide]) -> bool:
    graded = [side.graded for side in tests if side.error_kind is not ErrorKind.INVALID]
    graded += [bool(side.graded) for side in trials if side.trials]
    return bool(graded) and not any(graded)
