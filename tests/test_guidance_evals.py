"""The evals of this repository's guidance, proven without a model: each mistake is caught by its check."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from refcompare.agents.evals import Eval, load_evals
from refcompare.agents.programs.standin import StandInAgent
from refcompare.agents.sandbox.bubblewrap import BubblewrapBoundary
from refcompare.agents.shared import WordPressBench
from refcompare.agents.trial import ArmEvals, TrialPlan, Workshop, run_trials
from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.pipeline import reference_candidate
from refcompare.results import Record, Verdict
from refcompare.rules import check_suites
from refcompare.sandbox import probe
from refcompare.suites import load_suites
from refcompare.trials import MetricOutcome, Trial
from refcompare.wordpress.graders import installed_grader
from refcompare.wordpress.native import NativeRuntime
from refcompare.wordpress.php import Php
from refcompare.wordpress.site import Site
from tests.guidance.judging import CUT, OUTCOME, SHARPENED, UNFAIR, WRONG
from tests.guidance.other import AGENT_EVAL, DESCRIPTION, FORK, OPTION
from tests.guidance.steps import ROOT, Run
from tests.guidance.writing import DAYS, EXECUTION_TEST, PLUGIN_TEST, STAMP
from tests.test_agents_trial import Hands, Heard
from tests.test_agents_workspaces import Linked

pytestmark = [
    pytest.mark.skipif(
        not (ROOT / "datasets/suites/guidance").is_dir(), reason="only a checkout has the suites"
    ),
    pytest.mark.skipif(not probe().works, reason="no sandbox works here"),
]

RUNS: Mapping[str, tuple[Run, ...]] = {
    "guidance-adds-an-option": OPTION,
    "guidance-cuts-a-test-that-cannot-be-fair": CUT,
    "guidance-describes-a-pull-request": DESCRIPTION,
    "guidance-judges-a-model-that-is-wrong": WRONG,
    "guidance-judges-a-test-that-is-unfair": UNFAIR,
    "guidance-names-the-outcome": OUTCOME,
    "guidance-refuses-a-fork-unsafe-workflow": FORK,
    "guidance-sharpens-a-weak-test": SHARPENED,
    "guidance-writes-a-plugin-test": PLUGIN_TEST,
    "guidance-writes-an-agent-eval": AGENT_EVAL,
    "guidance-writes-an-execution-test": EXECUTION_TEST,
}
IDLE = Run("does nothing", ())
FOLDERS = (".agents", ".github", "datasets", "docs", "refcompare/report")
FILES = ("AGENTS.md", "README.md", "refcompare/cli.py", "tests/conftest.py", "php/worker.php")


def tree() -> Linked:
    """Give this checkout as an arm, without the code that no eval looks at."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    found += [ROOT / name for name in FILES]
    return Linked(
        {
            path.relative_to(ROOT).as_posix(): path.read_bytes()
            for path in found
            if "__pycache__" not in path.parts
        },
        targets={"CLAUDE.md": "AGENTS.md"},
    )


EVALS: dict[str, Eval] = {item.id: item for item in load_evals(tree()).evals if item.suite == "guidance"}


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    tmp_path_factory.getbasetemp()
    path = Path(tempfile.mkdtemp(prefix="trials-"))
    path.chmod(0o711)
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    yield
    shutil.rmtree(path)


@pytest.fixture(autouse=True)
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grade the same candidate once for all runs: most of them write the same test."""
    known: dict[tuple[str, str], Record] = {}
    real = WordPressBench.grade

    def grade(self: WordPressBench, test: ExecutionTest, candidate: Candidate, limits: Limits) -> Record:
        key = (test.digest, repr(candidate))
        if key not in known:
            known[key] = real(self, test, candidate, limits)
        return known[key]

    monkeypatch.setattr(WordPressBench, "grade", grade)


def failed(trial: Trial) -> dict[str, str]:
    """Give what a trial failed, with why. What was not graded is no proof of anything."""
    assert trial.graded, trial.trajectory.error
    for metric in trial.metrics:
        assert metric.outcome in (MetricOutcome.PASSED, MetricOutcome.FAILED), (metric.name, metric.message)
    return {item.name: item.message for item in trial.metrics if item.outcome is MetricOutcome.FAILED}


def test_every_eval_has_runs_that_prove_it():
    assert RUNS.keys() == EVALS.keys()
    assert len(EVALS) >= 8


@pytest.mark.parametrize("name", sorted(RUNS))
def test_each_check_is_there_for_some_wrong_run(name: str):
    caught = {metric for run in RUNS[name] for metric in run.fails}
    assert caught == {check.name for check in EVALS[name].checks}


def suites_of(name: str) -> dict[str, bytes]:
    """Give the suite files that an eval puts into the workspace."""
    files = EVALS[name].workspace.files
    return {path: text.encode() for path, text in files.items() if path.endswith(".json")}


def found_by_the_rules(files: Mapping[str, bytes]) -> set[str]:
    return {finding.rule for finding in check_suites(Linked(files)).findings}


def test_what_the_guidance_leads_to_is_what_the_rules_want():
    files = {
        f"datasets/suites/wp-core/execution/{test['category']}.json": json.dumps({"tests": [test]}).encode()
        for test in (DAYS, STAMP)
    }
    assert found_by_the_rules(files) == set()


PLANTED = {
    "guidance-cuts-a-test-that-cannot-be-fair": {"clock"},
    "guidance-judges-a-model-that-is-wrong": set(),
    "guidance-judges-a-test-that-is-unfair": set(),
    "guidance-names-the-outcome": {"prompt-names-helper"},
    "guidance-sharpens-a-weak-test": {"constant-answer"},
}


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_the_tests_that_are_to_be_mended_have_the_planted_fault_and_no_other(name: str):
    assert found_by_the_rules(suites_of(name)) == PLANTED[name]


@pytest.mark.wordpress
@pytest.mark.parametrize(
    "name", ["guidance-judges-a-model-that-is-wrong", "guidance-judges-a-test-that-is-unfair"]
)
def test_the_failure_that_is_to_be_judged_is_a_real_one(name: str, site: Site, php: Php):
    (test,) = load_suites(Linked(suites_of(name))).tests
    notes = EVALS[name].workspace.files
    grader = GradingThread(NativeRuntime(site, php, installed_grader()))
    try:
        reference = grader.grade(test, reference_candidate(test), Limits(seconds=30))
        completion = Candidate("completion:a-model", notes["notes/completion.php"])
        record = grader.grade(test, completion, Limits(seconds=30))
    finally:
        grader.close()
    assert reference.verdict is Verdict.PASS, reference.first_failure
    assert record.verdict is Verdict.FAIL
    assert record.first_failure is not None
    said = f"{record.first_failure.description}: {record.first_failure.message}"
    assert said in notes["notes/failure.txt"]


@pytest.mark.wordpress
@pytest.mark.parametrize("name", sorted(RUNS))
def test_right_runs_pass_and_wrong_ones_fail_by_the_check_that_is_meant_for_them(
    name: str, site: Site, php: Php
):
    runs = {run.name: run for run in (*RUNS[name], IDLE)}
    assert len(runs) == len(RUNS[name]) + 1
    # What a model would have to judge is left out: no script can stand in for an opinion.
    item = replace(EVALS[name], rubric=None)
    hands = Hands({title: StandInAgent(run.script) for title, run in runs.items()})
    workshop = Workshop(hands, BubblewrapBoundary(), lambda: NativeRuntime(site, php, installed_grader()))
    plan = TrialPlan(jobs=2, repeat=1, agents=tuple(runs))
    trials = run_trials([ArmEvals("head", tree(), (item,))], plan, workshop, Heard())["head"]
    found = dict(zip(runs, trials, strict=True))
    wrong = {
        title: said
        for title, run in runs.items()
        if run is not IDLE and set(said := failed(found[title])) != run.fails
    }
    assert wrong == {}
    assert failed(found[IDLE.name]), "an agent that does nothing has not done it"
