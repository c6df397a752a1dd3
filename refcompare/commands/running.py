"""Runs the arms of a command, writing every record and trial as it comes."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refcompare import store
from refcompare.arms import Choice, Side, Workbench
from refcompare.cache import VerdictCache
from refcompare.config import Config
from refcompare.errors import UsageError
from refcompare.execution.bench import Memory
from refcompare.metrics import TrialComparison
from refcompare.newest import note_output
from refcompare.pipeline import Interrupted, Plan, begun, run_arms
from refcompare.progress import Reporter
from refcompare.results import Record, RunResult
from refcompare.selection import Selection

if TYPE_CHECKING:
    from refcompare.evaluation import Evaluation

INTERRUPTED = 130


LONGEST_SECONDS = 3600
"""The most that one candidate may be given, as in ``refcompare.yml``."""


def choice(options: Mapping[str, Any]) -> Choice:
    """Give what the command line chose of a repository: its tests, and what grades them."""
    selection = Selection(
        suites=tuple(options["suite"]),
        categories=tuple(options["category"]),
        test_ids=tuple(options["test_id"]),
        limit=options["limit"],
        changed=options.get("changed", False),
    )
    return Choice(
        config=options["config"],
        suites=tuple(options["suites"]),
        # Where no test is run, a suite may have agent evals alone.
        selection=Selection() if options.get("only") == "agent" else selection,
        wordpress=options["wordpress"],
        runtime=options["runtime"],
        grader=options["grader"],
    )


def processors() -> int:
    """Give the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def plan_of(config: Config, options: Mapping[str, Any], *, audit: bool) -> Plan:
    """Join the command line with the configuration: what is typed wins."""

    def typed(name: str, otherwise: Any) -> Any:
        value = options.get(name)
        return otherwise if value is None else value

    timeout = options["timeout"]
    if timeout is not None and not 0 < timeout <= LONGEST_SECONDS:
        raise UsageError(
            f"--timeout is {timeout:g}; give a number of seconds above 0, at most {LONGEST_SECONDS:,}."
        )
    return Plan(
        limits=config.limits if timeout is None else replace(config.limits, seconds=timeout),
        jobs=typed("jobs", config.jobs or processors()),
        confirm=typed("confirm", config.confirm),
        audit=audit and typed("audit", config.audit.enabled),
        exhaustive=typed("exhaustive", config.audit.exhaustive),
        mutants=typed("mutants", config.audit.mutants),
        seed=typed("seed", config.audit.seed),
        fresh=options["fresh"],
    )


def ready_agents(
    workbench: Workbench, sides: tuple[Side, Side], plan: Plan, options: Mapping[str, Any]
) -> Evaluation:
    """Say what agents will do, having seen that they can. Raises what is missing."""
    from refcompare import evaluation

    prepared = evaluation.prepare(sides, options, plan.jobs, workbench.config.eval_command)
    evaluation.see_to(prepared)
    return prepared


def run_agents(
    workbench: Workbench,
    sides: tuple[Side, Side],
    prepared: Evaluation,
    options: Mapping[str, Any],
    runs: tuple[RunResult, ...],
) -> tuple[tuple[RunResult, ...], TrialComparison, bool]:
    """Run the agent evals of both arms, and give the arms' runs, made anew where no test was graded."""
    from refcompare import evaluation

    directory = options.get("output") or workbench.results_directory
    started = time.monotonic()
    with Reporter(quiet=options["quiet"]) as reporter:
        if not runs:
            store.clear(directory)
            note_output(workbench.kept_results, options.get("output"))
            runs = tuple(RunResult(side.arm, (), (), notes=workbench.notes) for side in sides)
        trials, interrupted = evaluation.run_evals(
            prepared,
            directory=directory,
            runtime=lambda: workbench.runtime(reporter.say),
            reporter=reporter,
        )
    seconds = time.monotonic() - started
    runs = tuple(
        replace(run, seconds=round(run.seconds + seconds, 3), partial=run.partial or interrupted)
        for run in runs
    )
    for run in runs:
        store.write_run(directory, run)
    return runs, trials, interrupted


def run_tests(
    workbench: Workbench, sides: tuple[Side, ...], plan: Plan, options: Mapping[str, Any]
) -> tuple[tuple[RunResult, ...], bool]:
    """Run the arms, writing every record as it comes; say whether the run was interrupted."""
    directory = options.get("output") or workbench.results_directory
    if not any(side.suites.tests or side.suites.invalid for side in sides):
        if not (options.get("changed") and any(side.found for side in sides)):
            raise UsageError(nothing_found(workbench.globs, sides))
        return _nothing_changed(sides, directory, workbench, options), False
    with Reporter(quiet=options["quiet"]) as reporter, VerdictCache() as cache:
        for note in workbench.notes:
            reporter.say(note)
        arms = workbench.inputs(sides, reporter.say)
        store.clear(directory)
        note_output(workbench.kept_results, options.get("output"))
        writers = {arm.arm.name: store.RecordWriter(directory, begun(arm, plan)) for arm in arms}
        listener = _Recording(reporter, writers)
        try:
            runs, interrupted = run_arms(arms, plan, Memory(cache, fresh=plan.fresh), listener), False
        except Interrupted as stopped:
            runs, interrupted = stopped.results, True
            reporter.say("stopped: what there is so far is kept, marked partial")
        finally:
            for writer in writers.values():
                writer.close()
        for run in runs:
            writers[run.arm.name].finish(run)
        cache.prune()
        if problem := cache.stats().problem:
            reporter.say(f"verdicts are not kept for the next run: {problem}")
    return runs, interrupted


def _nothing_changed(
    sides: tuple[Side, ...], directory: Path, workbench: Workbench, options: Mapping[str, Any]
) -> tuple[RunResult, ...]:
    """Write and give what ``--changed`` finds where no test differs: nothing, and no need of WordPress."""
    store.clear(directory)
    note_output(workbench.kept_results, options.get("output"))
    notes = (*workbench.notes, "no test has a definition that differs between the refs (--changed)")
    runs = tuple(RunResult(side.arm, (), (), notes=notes) for side in sides)
    for run in runs:
        store.write_run(directory, run)
    return runs


class _Recording:
    """Tells the reporter what happens, and puts every record down at once."""

    def __init__(self, reporter: Reporter, writers: Mapping[str, store.RecordWriter]) -> None:
        self._writers = writers
        self.begin = reporter.begin
        self.advance = reporter.advance
        self._count = reporter.recorded

    def recorded(self, arm: str, record: Record) -> None:
        self._writers[arm].append(record)
        self._count(arm, record)


def nothing_found(globs: Sequence[str], sides: tuple[Side, ...]) -> str:
    """Say why there is no test to run, and what to do."""
    from refcompare.agents.evals import eval_files

    advice = "give --suites GLOB, or `suites:` in refcompare.yml."
    if any(True for side in sides for _ in eval_files(side.tree)):
        advice += " There are agent evals: `refcompare compare BASE HEAD --only agent` runs them."
    if any(side.suites.notes for side in sides):
        notes = dict.fromkeys(note for side in sides for note in side.suites.notes)
        return f"No test is left to run: {' '.join(notes)} For other files, {advice}"
    labels = dict.fromkeys(side.tree.ref.label for side in sides)
    return f"No test was found at {', '.join(globs)} in {' or '.join(labels)}: {advice}"
