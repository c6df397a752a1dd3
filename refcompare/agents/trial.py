"""Runs the trials of two arms, in turn and side by side, and holds what each agent did to its checks.

Trials are ordered base, head, base, head, so that whatever drifts meanwhile hits both arms alike. Every
trial has a thread, a workspace and a way to its model of its own. What one trial fails at costs no other.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Protocol

from refcompare.agents.checks.interface import CheckResult, CommandResult, Evidence
from refcompare.agents.checks.rubric import LIMITS, Judge, grade_rubric
from refcompare.agents.evals import RUBRIC, Case, Eval, Rubric, WorkspaceSpec, cases
from refcompare.agents.model.cassettes import Conversation
from refcompare.agents.model.gateway import GatewayHandle
from refcompare.agents.programs.interface import Agent, AgentLimits, Task
from refcompare.agents.programs.redaction import Redactor
from refcompare.agents.programs.trajectory import Ending, Trajectory
from refcompare.agents.sandbox.boundary import Boundary, View
from refcompare.agents.sandbox.confined import run_confined
from refcompare.agents.shared import OnceRuntime, StoppableBoundary, WordPressBench, Workspaces
from refcompare.agents.workspace.capture import WorkspaceChange
from refcompare.agents.workspace.workspaces import ArmWorkspace, LinkedTree, TrialWorkspace
from refcompare.errors import RefcompareError
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.results import Record
from refcompare.trials import Metric, MetricOutcome, Trial, TrialCaps, kept
from refcompare.wordpress.runtime import Runtime

CAPS = TrialCaps()
RUN_BUDGET = "the run's budget"
"""How a gateway's refusal begins that is no fault of the trial."""

_END_SECONDS = 60.0


class Crew(Protocol):
    """Makes agents from their specs, and gives each trial its way to a model. Thread-safe."""

    def agent(self, spec: str | None) -> Agent:
        """Give an agent, or without a spec the one to use where nobody says who works.

        Raises UsageError for a spec that nobody knows, and what is missing to run it.
        """

    def door(
        self, agent: Agent, limits: AgentLimits, conversation: Conversation
    ) -> AbstractContextManager[GatewayHandle | None]:
        """Open a trial's way to the agent's model; None for an agent that needs none.

        ``conversation`` tells this way from the others of a run.
        """


class Listener(Protocol):
    """Hears what happens. Called in the main thread."""

    def begin(self, phase: str, total: int) -> None:
        """Trials are about to start, so many in all."""

    def tried(self, arm: str, trial: Trial) -> None:
        """A trial ended."""

    def advance(self) -> None:
        """One more of the total is done."""


@dataclass(frozen=True, slots=True)
class ArmEvals:
    """One arm before any agent works on it: its tree, and the evals that it is held to."""

    name: str
    tree: LinkedTree
    evals: tuple[Eval, ...]


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """How trials are run: so many at once, ``repeat`` on each arm and by these ``agents`` where given."""

    jobs: int = 1
    repeat: int | None = None
    agents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workshop:
    """What trials are run with. ``runtime`` gives what hosts WordPress; it is asked once, when needed."""

    crew: Crew
    boundary: Boundary
    runtime: Callable[[], Runtime]
    redactor: Redactor = field(default_factory=Redactor.from_environment)


class TrialsInterrupted(Exception):
    """Trials were stopped; ``trials`` has those that had ended, by arm."""

    def __init__(self, trials: dict[str, tuple[Trial, ...]]) -> None:
        super().__init__("the trials were stopped")
        self.trials = trials


@dataclass(frozen=True, slots=True)
class _Job:
    arm: ArmEvals
    case: Case
    number: int
    agent: Agent

    def conversation(self, with_whom: str = "") -> Conversation:
        """Name what is said to the model in this trial, by the agent or by another."""
        return Conversation(self.arm.name, self.case.key, f"{self.number}{with_whom}")


def planned(arms: Sequence[ArmEvals], plan: TrialPlan) -> tuple[tuple[str, Case, int], ...]:
    """Give every trial that a plan comes to, as the arm's name, the case and the trial's number, in order."""
    points = {
        arm.name: {case.key: case for item in arm.evals for case in cases(item, plan.agents)} for arm in arms
    }
    # The order is head's, then what only another arm has.
    keys = dict.fromkeys(key for arm in reversed(arms) for key in points[arm.name])
    found = []
    for key in keys:
        having = [(arm.name, points[arm.name][key]) for arm in arms if key in points[arm.name]]
        repeat = plan.repeat or max(case.eval.repeat for _, case in having)
        found += [(name, case, number) for number in range(1, repeat + 1) for name, case in having]
    return tuple(found)


def agents_of(arms: Sequence[ArmEvals], plan: TrialPlan, crew: Crew) -> dict[str | None, Agent]:
    """Give every agent that a plan needs, by its spec; those that judge are seen to as well.

    Raises UsageError or EnvironmentFailure where one cannot be had.
    """
    agents: dict[str | None, Agent] = {}
    for _, case, _ in planned(arms, plan):
        judge = None if case.eval.rubric is None else case.eval.rubric.agent
        for spec in (case.agent, *([] if judge is None else [judge])):
            if spec not in agents:
                agents[spec] = crew.agent(spec)
    return agents


def run_trials(
    arms: Sequence[ArmEvals], plan: TrialPlan, workshop: Workshop, listener: Listener
) -> dict[str, tuple[Trial, ...]]:
    """Run every trial of a plan and give the trials of each arm, by case and number.

    An agent that cannot work on a trial makes that trial ungraded. Raises UsageError or EnvironmentFailure
    where an agent cannot be had at all, before anything has run, and TrialsInterrupted on Ctrl-C.
    """
    by_name = {arm.name: arm for arm in arms}
    agents = agents_of(arms, plan, workshop.crew)
    jobs = [
        _Job(by_name[name], case, number, agents[case.agent]) for name, case, number in planned(arms, plan)
    ]
    order = {(job.arm.name, job.case.key, job.number): place for place, job in enumerate(jobs)}
    ended: dict[str, list[Trial]] = {arm.name: [] for arm in arms}

    def results() -> dict[str, tuple[Trial, ...]]:
        return {
            name: tuple(sorted(trials, key=lambda trial: order[name, trial.case, trial.number]))
            for name, trials in ended.items()
        }

    listener.begin("trials", len(jobs))
    try:
        with _Floor(jobs, plan.jobs, workshop) as floor:
            for job, trial in floor.results():
                ended[job.arm.name].append(trial)
                listener.tried(job.arm.name, trial)
                listener.advance()
    except KeyboardInterrupt:
        raise TrialsInterrupted(results()) from None
    return results()


# ------------------------------------------------------------------------------ one trial


class _Tools:
    """What checks run a result with: the boundary, and WordPress."""

    def __init__(self, boundary: Boundary, workspace: Path, wordpress: WordPressBench) -> None:
        self._boundary = boundary
        self._workspace = workspace
        self._wordpress = wordpress

    def command(self, command: str, seconds: float) -> CommandResult:
        return run_confined(self._boundary, command, View(self._workspace), seconds)

    def wordpress(self, test: ExecutionTest, candidate: Candidate, limits: Limits) -> Record:
        return self._wordpress.grade(test, candidate, limits)


def _run(
    job: _Job, workspaces: Workspaces, workshop: Workshop, boundary: Boundary, wordpress: WordPressBench
) -> Trial:
    """Run one trial to its end and judge it; a failure of the environment is a trial that says nothing."""
    item = job.case.eval
    trial = Trial(
        item.id,
        job.case.key,
        item.suite,
        job.number,
        Trajectory(job.agent.name),
        variables=job.case.variables,
    )
    try:
        with workspaces.of(_key(job), job.arm.tree) as arm, arm.trial() as place:
            with workshop.crew.door(job.agent, item.limits, job.conversation()) as gateway:
                task = Task(job.case.prompt, place.path, item.limits, variables=job.case.variables)
                trajectory = job.agent.run(task, boundary, gateway)
                trial = replace(trial, trajectory=_unless_broke(trajectory, gateway))
            trial = _judged(trial, job, arm, place, workshop, boundary, wordpress)
    except RefcompareError as error:
        broken = replace(trial.trajectory, ending=Ending.CRASH, error=str(error))
        trial = replace(trial, trajectory=broken)
    return kept(trial, workshop.redactor.text, CAPS)


def _unless_broke(trajectory: Trajectory, gateway: GatewayHandle | None) -> Trajectory:
    """Say nothing of a trial that had to end because the others had used up the budget of the run."""
    refused = () if gateway is None else gateway.refusals
    if trajectory.ending is Ending.MONEY and any(RUN_BUDGET in said for said in refused):
        return replace(trajectory, ending=Ending.CRASH, error="the run's budget was used up before its end")
    return trajectory


def _key(job: _Job) -> tuple[str, WorkspaceSpec]:
    return job.arm.name, job.case.eval.workspace


def _judged(
    trial: Trial,
    job: _Job,
    arm: ArmWorkspace,
    place: TrialWorkspace,
    workshop: Workshop,
    boundary: Boundary,
    wordpress: WordPressBench,
) -> Trial:
    """Capture what changed, then run the checks in their order, and the rubric last."""
    item = job.case.eval
    change = place.change()
    trial = replace(trial, change=change, notes=(*trial.notes, *arm.tree.notes))
    if not trial.graded:
        return trial
    tools = _Tools(boundary, place.path, wordpress)
    evidence = Evidence(trial.trajectory, change, place.path, arm, tools)
    metrics = [_metric(check.name, partial(check.check.grade, evidence)) for check in item.checks]
    if item.rubric is not None:
        grade = partial(_rubric, item.rubric, job, change, place.path, workshop, boundary)
        metrics.append(_metric(RUBRIC, grade))
    return replace(trial, metrics=tuple(metrics))


def _rubric(
    rubric: Rubric,
    job: _Job,
    change: WorkspaceChange,
    workspace: Path,
    workshop: Workshop,
    boundary: Boundary,
) -> CheckResult:
    agent = workshop.crew.agent(rubric.agent) if rubric.agent else job.agent
    with workshop.crew.door(agent, LIMITS, job.conversation("-rubric")) as gateway:
        return grade_rubric(rubric, job.case.prompt, change, workspace, Judge(agent, boundary, gateway))


def _metric(name: str, grade: Callable[[], CheckResult]) -> Metric:
    try:
        result = grade()
    except RefcompareError as error:
        result = CheckResult.ungraded(str(error))
    if result.passed is None:
        outcome = MetricOutcome.ABSENT if result.absent else MetricOutcome.NOT_GRADED
    else:
        outcome = MetricOutcome.PASSED if result.passed else MetricOutcome.FAILED
    score = None if result.score is None else min(1.0, max(0.0, result.score))
    return Metric(name, outcome, score, result.message)


# ----------------------------------------------------------------------------- all of them


class _Floor:
    """Threads that work through the jobs in their order. Leaving it early ends what is under way."""

    def __init__(self, jobs: Sequence[_Job], count: int, workshop: Workshop) -> None:
        self._total = len(jobs)
        self._workshop = workshop
        self._boundary = StoppableBoundary(workshop.boundary)
        self._workspaces = Workspaces(map(_key, jobs), self._boundary)
        self._todo: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        for job in jobs:
            self._todo.put(job)
        self._done: queue.SimpleQueue[tuple[_Job, Trial] | BaseException] = queue.SimpleQueue()
        self._stop = threading.Event()
        runtime = OnceRuntime(workshop.runtime)
        self._wordpress = [WordPressBench(runtime) for _ in range(max(1, min(count, len(jobs))))]
        self._threads = [
            threading.Thread(target=self._keep_busy, args=(wordpress,), name="trial", daemon=True)
            for wordpress in self._wordpress
        ]

    def __enter__(self) -> _Floor:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if kind is not None:
            self._boundary.abort()
            for wordpress in self._wordpress:
                wordpress.abort()
        for thread in self._threads:
            thread.join(_END_SECONDS)
        self._workspaces.close()

    def results(self) -> Iterator[tuple[_Job, Trial]]:
        """Give each job's trial, in the order in which they end. Raises what a thread raised."""
        for _ in range(self._total):
            result = self._next()
            if isinstance(result, BaseException):
                raise result
            yield result

    def _next(self) -> tuple[_Job, Trial] | BaseException:
        while True:
            try:
                return self._done.get(timeout=0.5)  # in slices, so that an interrupt is seen everywhere
            except queue.Empty:
                continue

    def _keep_busy(self, wordpress: WordPressBench) -> None:
        try:
            while not self._stop.is_set():
                try:
                    job = self._todo.get_nowait()
                except queue.Empty:
                    return
                trial = _run(job, self._workspaces, self._workshop, self._boundary, wordpress)
                self._done.put((job, trial))
        except BaseException as error:  # noqa: BLE001 (it is raised again in the thread that waits)
            self._done.put(error)
        finally:
            wordpress.close()
