"""The agent evals of a comparison: chosen from the refs, run on both arms, compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refcompare import store
from refcompare.agents.crew import DEFAULT_AGENT, ModelCrew
from refcompare.agents.evals import Eval, EvalSet, load_evals
from refcompare.agents.harness import run_harness, run_trusted
from refcompare.agents.model.cassettes import Cassettes, Conversation
from refcompare.agents.programs.interface import Agent
from refcompare.agents.promptfoo import read_promptfoo
from refcompare.agents.sandbox.boundary import find_boundary
from refcompare.agents.trial import (
    CAPS,
    ArmEvals,
    TrialPlan,
    TrialsInterrupted,
    Workshop,
    agents_of,
    planned,
    run_trials,
)
from refcompare.arms import Side
from refcompare.errors import UsageError
from refcompare.metrics import TrialComparison, compare_trials
from refcompare.progress import Reporter
from refcompare.report.words import plural
from refcompare.results import JSON
from refcompare.trials import Trial, kept
from refcompare.wording import did_you_mean, printable, quoted
from refcompare.wordpress.runtime import Runtime

SOURCES = ("head", "base", "each")
"""Whose definitions both arms are held to, by default head's; or each arm to its own."""

_MOST_REASONS = 3
"""Evals that cannot be used which a message names."""


@dataclass(frozen=True, slots=True)
class Harness:
    """A repository's own harness: a shell command, and whether the user trusts it to run unconfined."""

    command: str
    trusted: bool = False


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is to run: the evals that each arm is held to, how, and sentences for the reader.

    ``budget`` is in US dollars for all trials together, None for no limit. ``cassettes`` are recorded, or
    played instead of asking a model.
    """

    arms: tuple[ArmEvals, ArmEvals]
    plan: TrialPlan
    harness: Harness | None = None
    budget: float | None = None
    cassettes: Cassettes | None = None
    notes: tuple[str, ...] = ()


def prepare(
    sides: tuple[Side, Side], options: Mapping[str, Any], jobs: int, eval_command: str | None
) -> Evaluation:
    """Say what is to run, from the command line, both trees and the configuration that holds.

    Raises UsageError for an id that no eval has, and where there is nothing to run at all.
    """
    harness = None
    if eval_command is not None and not options.get("eval"):
        harness = Harness(eval_command, trusted=bool(options.get("trust")))
    arms, notes = _choose(sides, options, needed=harness is None)
    plan = TrialPlan(jobs, options.get("repeat"), tuple(options.get("agent") or ()))
    cassettes = _cassettes(options)
    if cassettes is not None and cassettes.played:
        notes = (*notes, "no model was asked: what models said was recorded, and was played again")
    return Evaluation(arms, plan, harness, options.get("budget"), cassettes, notes)


def _cassettes(options: Mapping[str, Any]) -> Cassettes | None:
    record, replay = options.get("record"), options.get("replay")
    if record is not None and replay is not None:
        raise UsageError("--record and --replay exclude each other: record first, then replay.")
    if replay is not None and not replay.is_dir():
        raise UsageError(f"--replay: {replay} is no directory; give one that --record wrote.")
    directory = record or replay
    return None if directory is None else Cassettes(directory, played=replay is not None)


def _choose(
    sides: tuple[Side, Side], options: Mapping[str, Any], *, needed: bool
) -> tuple[tuple[ArmEvals, ArmEvals], tuple[str, ...]]:
    """Give each arm with the evals that it is held to, and sentences about those that cannot be used."""
    loaded = {side.name: load_evals(side.tree) for side in sides}
    source = options.get("suites_from") or SOURCES[0]
    sets = [loaded[side.name if source == "each" else source] for side in sides]
    wanted, suites = tuple(options.get("eval") or ()), tuple(options.get("suite") or ())
    known = {item.id: item.reason for found in sets for item in found.invalid}
    known |= {item.id: "" for found in sets for item in found.evals}
    for name in wanted:
        if known.get(name):
            raise UsageError(f"--eval: {quoted(name)} cannot be used: {known[name]}")
        if name not in known:
            hint = did_you_mean(name, known) or "--dry-run without --eval lists them."
            raise UsageError(f"--eval: no eval is called {quoted(name)}; {hint}")
    chosen = [_chosen(found, wanted, suites) for found in sets]
    if needed and not any(chosen):
        where = "either ref" if source == "each" else source
        if known and all(known.values()):
            raise UsageError(f"No agent eval of {where} can be used: {_first(known.values())}")
        raise UsageError(
            f"No agent eval was found in {where}: define one at datasets/suites/SUITE/agent/ID.yaml."
        )
    arms = [ArmEvals(side.name, side.tree, evals) for side, evals in zip(sides, chosen, strict=True)]
    invalid = dict.fromkeys(item.reason for found in sets for item in found.invalid)
    return (arms[0], arms[1]), tuple(f"an eval cannot be used: {reason}" for reason in invalid)


def _first(reasons: Iterable[str]) -> str:
    """Join the first reasons why evals cannot be used, and count the rest."""
    listed = list(dict.fromkeys(reasons))
    more = len(listed) - _MOST_REASONS
    rest = [f"And {more:,} more: see refcompare check."] if more > 0 else []
    return " ".join([*listed[:_MOST_REASONS], *rest])


def _chosen(found: EvalSet, wanted: Sequence[str], suites: Sequence[str]) -> tuple[Eval, ...]:
    return tuple(
        item
        for item in found.evals
        if (not wanted or item.id in wanted) and (not suites or item.suite in suites)
    )


def dry_run_value(evaluation: Evaluation) -> dict[str, JSON]:
    """Give what would run on each arm, and run nothing: cases by arm, the harness, notes."""
    trials = planned(evaluation.arms, evaluation.plan)
    arms: dict[str, JSON] = {}
    for arm in evaluation.arms:
        repeats = Counter(case.key for name, case, _ in trials if name == arm.name)
        cases = {case.key: case for name, case, _ in trials if name == arm.name}
        arms[arm.name] = [
            {
                "case": key,
                "eval": case.eval.id,
                "path": case.eval.path,
                "line": case.eval.line,
                "agent": case.agent or DEFAULT_AGENT,
                "trials": repeats[key],
            }
            for key, case in cases.items()
        ]
    return {"arms": arms, "eval_command": None if evaluation.harness is None else evaluation.harness.command}


def dry_run(evaluation: Evaluation) -> str:
    """Say what would run on each arm, and run nothing."""
    lines = []
    arms: Any = dry_run_value(evaluation)["arms"]
    for arm in evaluation.arms:
        cases = arms[arm.name]
        trials = sum(case["trials"] for case in cases)
        lines.append(f"{arm.name}: {plural(trials, 'trial')} of {plural(len(arm.evals), 'agent eval')}")
        for case in cases:
            where = f"{case['case']}  {case['path']}:{case['line']}"
            lines.append(f"  {where}  {plural(case['trials'], 'time')} by {case['agent']}")
    if evaluation.harness is not None:
        how = "trusted" if evaluation.harness.trusted else "confined"
        lines.append(f"eval_command, once for each ref, {how}: {printable(evaluation.harness.command)}")
    return "\n".join([*lines, *evaluation.notes]) + "\n"


def see_to(evaluation: Evaluation) -> None:
    """See that every agent can work, and that nothing is missing to replay, before anything runs.

    Raises EnvironmentFailure where agents cannot be confined or a program is missing, and UsageError for an
    agent that nobody knows, a missing key and a trial that was not recorded.
    """
    find_boundary()
    with ModelCrew(usd=evaluation.budget, cassettes=evaluation.cassettes) as crew:
        agents = agents_of(evaluation.arms, evaluation.plan, crew)
        _see_that_all_was_recorded(evaluation, agents)


def run_evals(
    evaluation: Evaluation, *, directory: Path, runtime: Callable[[], Runtime], reporter: Reporter
) -> tuple[TrialComparison, bool]:
    """Run the trials of both arms, writing each as it ends; say whether the run was interrupted.

    Raises EnvironmentFailure where agents cannot be confined or a harness gives no results, and UsageError
    where an agent cannot be had.
    """
    boundary = find_boundary()
    arms = evaluation.arms
    writers = {arm.name: store.TrialWriter(directory, arm.name) for arm in arms}
    listener = _Recording(reporter, writers)
    trials: dict[str, tuple[Trial, ...]] = {arm.name: () for arm in arms}
    interrupted = False
    try:
        with ModelCrew(usd=evaluation.budget, cassettes=evaluation.cassettes) as crew:
            workshop = Workshop(crew, boundary, runtime)
            trials = run_trials(arms, evaluation.plan, workshop, listener)
            if evaluation.harness is not None:
                for arm in arms:
                    trials[arm.name] += _harnessed(arm, evaluation.harness, crew, workshop, listener)
    except TrialsInterrupted as stopped:
        trials, interrupted = stopped.trials, True
        reporter.say("stopped: the trials that had ended are kept")
    finally:
        for writer in writers.values():
            writer.close()
    base, head = (trials[arm.name] for arm in arms)
    return compare_trials(base, head, notes=evaluation.notes), interrupted


def _see_that_all_was_recorded(evaluation: Evaluation, agents: Mapping[str | None, Agent]) -> None:
    """Raise UsageError where there is no cassette of some trial."""
    cassettes = evaluation.cassettes
    if cassettes is None or not cassettes.played:
        return
    for arm, case, number in planned(evaluation.arms, evaluation.plan):
        path = cassettes.path(Conversation(arm, case.key, str(number)))
        if agents[case.agent].api is not None and not path.is_file():
            raise UsageError(
                f"--replay: trial {number} of {quoted(case.key)} on {arm} was not recorded, "
                f"since there is no {path}: record it with --record, or ask for fewer trials with --repeat."
            )


def _harnessed(
    arm: ArmEvals, harness: Harness, crew: ModelCrew, workshop: Workshop, listener: _Recording
) -> tuple[Trial, ...]:
    """Run the repository's own harness on an arm's tree, and give the trials that it wrote down."""
    listener.say(f"eval_command on {arm.name}")
    if harness.trusted:
        data = run_trusted(arm.tree, harness.command, workshop.boundary)
    else:
        with crew.any_door(Conversation(arm.name, "eval_command", "1")) as gateway:
            data = run_harness(arm.tree, harness.command, workshop.boundary, gateway)
    trials = read_promptfoo(data, f"what the eval_command wrote on {arm.name}")
    found = tuple(kept(trial, workshop.redactor.text, CAPS) for trial in trials)
    for trial in found:
        listener.tried(arm.name, trial)
    return found


class _Recording:
    """Tells the reporter what happens, and puts every trial down at once."""

    def __init__(self, reporter: Reporter, writers: Mapping[str, store.TrialWriter]) -> None:
        self._reporter = reporter
        self._writers = writers
        self.begin = reporter.begin
        self.say = reporter.say
        self.advance = reporter.advance

    def tried(self, arm: str, trial: Trial) -> None:
        self._writers[arm].append(trial)
        self._reporter.tried()
        if not trial.graded:
            why = trial.trajectory.error or trial.trajectory.ending.value
            self._reporter.say(
                f"not graded: {printable(trial.case)} on {arm}, trial {trial.number}: {printable(why)[:500]}"
            )
