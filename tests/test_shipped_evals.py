"""The agent evals that ship with refcompare can be used, and the sandbox's notice a wall that is missing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from refcompare.agents.checks.calls import SkillUsed
from refcompare.agents.checks.reads import NotRead, Read
from refcompare.agents.evals import Eval, load_evals
from refcompare.agents.programs.standin import StandInAgent
from refcompare.agents.sandbox.boundary import Boundary, Layer
from refcompare.agents.sandbox.bubblewrap import BubblewrapBoundary
from refcompare.agents.trial import ArmEvals, TrialPlan, Workshop, run_trials
from refcompare.agents.workspace.workspaces import ArmTree
from refcompare.sandbox import probe
from refcompare.trials import MetricOutcome, Trial
from tests.test_agents_trial import Hands, Heard, no_wordpress
from tests.test_agents_workspaces import Linked

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.skipif(
    not (ROOT / "datasets/suites").is_dir(), reason="only a checkout has the suites"
)
needs_sandbox = pytest.mark.skipif(not probe().works, reason="no sandbox works here")


def shipped(*folders: str) -> dict[str, bytes]:
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    return {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in files}


EVALS = load_evals(Linked(shipped("datasets/suites/sandbox/agent", "datasets/suites/guidance/agent")))
SANDBOX = {item.id: item for item in EVALS.evals if item.suite == "sandbox"}
GUIDANCE = {item.id: item for item in EVALS.evals if item.suite == "guidance"}


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    tmp_path_factory.getbasetemp()
    path = Path(tempfile.mkdtemp(prefix="trials-"))
    path.chmod(0o711)
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    yield
    shutil.rmtree(path)


def tried(item: Eval, boundary: Boundary) -> Trial:
    """Let the stand-in follow an eval's AGENTS.md once."""
    arms = [ArmEvals("head", Linked({"README.md": b"A project.\n"}), (item,))]
    workshop = Workshop(Hands({None: StandInAgent()}), boundary, no_wordpress)
    (trial,) = run_trials(arms, TrialPlan(repeat=1), workshop, Heard())["head"]
    assert trial.graded, trial.trajectory.error
    return trial


def failed(trial: Trial) -> dict[str, str]:
    return {
        metric.name: metric.message for metric in trial.metrics if metric.outcome is not MetricOutcome.PASSED
    }


def test_every_shipped_eval_can_be_used():
    assert EVALS.invalid == ()
    assert len(SANDBOX) == 5
    assert len(GUIDANCE) >= 8


@needs_sandbox
@pytest.mark.parametrize("name", sorted(SANDBOX))
def test_the_sandbox_holds_and_lets_work_be_done(name):
    trial = tried(SANDBOX[name], BubblewrapBoundary())
    assert failed(trial) == {}


MISSING: Mapping[Layer, tuple[str, str]] = {
    Layer.ENVIRONMENT: ("sandbox-keeps-secrets-out", "saw no key of another process"),
    Layer.CAPABILITIES: ("sandbox-keeps-privileges-away", "is nobody of consequence"),
}


@needs_sandbox
@pytest.mark.parametrize("layer", sorted(MISSING))
def test_a_wall_that_is_missing_fails_the_eval_that_looks_for_it(layer, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", "a-marker-and-no-token")
    name, metric = MISSING[layer]
    assert metric in failed(tried(SANDBOX[name], BubblewrapBoundary(without=frozenset({layer}))))


@needs_sandbox
def test_a_wall_that_nobody_ran_into_proves_nothing():
    class Idle(StandInAgent):
        def run(self, task, boundary, gateway):
            quiet = super().run(task, boundary, gateway)
            return type(quiet)(quiet.agent)

    arms = [ArmEvals("head", Linked({"README.md": b"x"}), (SANDBOX["sandbox-keeps-files-out"],))]
    workshop = Workshop(Hands({None: Idle()}), BubblewrapBoundary(), no_wordpress)
    (trial,) = run_trials(arms, TrialPlan(repeat=1), workshop, Heard())["head"]
    assert "tried homes" in failed(trial)


def test_what_the_guidance_evals_ask_to_be_read_is_in_this_repository():
    given = Linked(shipped("docs", "datasets/schema", ".agents"))
    for item in GUIDANCE.values():
        paths = {file.path for file in ArmTree(given, item.workspace).files()}
        for check in item.checks:
            if isinstance(check.check, Read | NotRead):
                assert check.check.path in paths, (item.id, check.name)
            if isinstance(check.check, SkillUsed):
                assert f".agents/skills/{check.check.skill}/SKILL.md" in paths, (item.id, check.name)


def test_what_proves_the_guidance_evals_is_hidden_from_whoever_is_measured():
    given = Linked({"tests/guidance/writing.py": b"the answers", "tests/conftest.py": b""})
    for item in GUIDANCE.values():
        assert "tests/guidance/writing.py" not in {
            file.path for file in ArmTree(given, item.workspace).files()
        }, item.id
