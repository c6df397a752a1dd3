"""Agent evals as a user runs them: a real repository, two refs, a program as the agent, every output."""

from __future__ import annotations

import io
import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from refcompare.agents.crew import ModelCrew
from refcompare.agents.model.cassettes import Conversation
from refcompare.agents.model.door import Upstream
from refcompare.agents.model.prices import PriceTable
from refcompare.agents.model.scripted import ScriptedModel
from refcompare.agents.model.wire import Api
from refcompare.agents.programs.claude import ClaudeAgent
from refcompare.agents.programs.codex import CodexAgent
from refcompare.agents.programs.interface import AgentLimits
from refcompare.agents.programs.trajectory import Ending, Trajectory
from refcompare.agents.trial import RUN_BUDGET, _unless_broke
from refcompare.commands.comparing import compare_refs
from refcompare.commands.demo import NO_CHOICE
from refcompare.commands.showing import show_test
from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.sandbox import probe
from refcompare.schemas import violation
from refcompare.selection import Asked
from refcompare.store import read_run, read_trials
from refcompare.trials import Trial
from tests.support_agents import KEY, client_of, fetched_or_skip, says, script
from tests.support_git import Scratch, isolate

TALK = Conversation("base", "logs", "1")

pytestmark = pytest.mark.skipif(not probe().works, reason="no sandbox works here")

FOLLOWER = """\
#!/usr/bin/python3
# Reads the guidance and does what it says.
import json, os, pathlib, sys

task = sys.stdin.read()
text = pathlib.Path("AGENTS.md").read_text()
if "CHANGES.md" in text:
    pathlib.Path("CHANGES.md").write_text("- " + task)
with open(os.environ["REFCOMPARE_TRAJECTORY"], "w") as file:
    for line in (
        {"type": "call", "name": "Bash", "input": {"command": "cat AGENTS.md"}, "output": text},
        {"type": "message", "text": "Done."},
        {"type": "end", "reason": "done"},
    ):
        file.write(json.dumps(line) + "\\n")
"""
EVAL: dict[str, Any] = {
    "id": "logs",
    "prompt": "Add a function.",
    "repeat": 5,
    "checks": [{"changed": "CHANGES.md"}, {"read": "AGENTS.md"}],
}


class Project:
    """A repository whose head changes its guidance, and a program that follows it."""

    def __init__(self, place: Path) -> None:
        self.program = place / "follower.py"
        self.program.write_text(FOLLOWER)
        self.program.chmod(0o755)
        self.scratch = Scratch.create(place / "repository")
        self.output = place / "results"
        self.evals(EVAL)
        self.base = self.scratch.commit({"AGENTS.md": "Write code as you would like to read it.\n"})
        self.head = self.scratch.commit({"AGENTS.md": "Write code as you would.\nNote it in CHANGES.md.\n"})

    def evals(self, *evals: dict[str, Any]) -> None:
        for item in evals:
            path = f"datasets/suites/guide/agent/{item['id']}.yaml"
            self.scratch.write(path, yaml.safe_dump(item, sort_keys=False))

    def compare(self, **options: Any) -> tuple[int, str]:
        out = io.StringIO()
        agent = (f"command:{self.program}",)
        chosen = {
            **NO_CHOICE,
            "base": self.base,
            "head": self.head,
            "only": "agent",
            "agent": agent,
            "quiet": True,
            "jobs": 2,
            "timeout": None,
            "fresh": False,
            "output": self.output,
            **options,
        }
        return compare_refs(self.scratch.path, chosen, out), out.getvalue()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    isolate(monkeypatch, tmp_path)
    place = Path(tempfile.mkdtemp(prefix="refcompare-test-"))
    place.chmod(0o755)
    monkeypatch.setenv("REFCOMPARE_CACHE_DIR", str(place / "cache"))
    yield Project(place)
    shutil.rmtree(place)


def test_two_refs_and_an_agent_are_a_comparison_of_metrics(project):
    status, page = project.compare()
    assert status == 0
    assert page.startswith("1 metric improved, 1 with ")
    for text in (
        "changed CHANGES.md",
        "0 of 5: 0 %",
        "5 of 5: 100 %",
        "+100 points",
        "improved (p",
        "5 done",
    ):
        assert text in page, page
    for arm, commit in (("base", project.base), ("head", project.head)):
        assert len(read_trials(project.output, arm)) == 5
        assert read_run(project.output, arm).arm.commit == commit
    comparison = json.loads((project.output / "comparison.json").read_text())
    assert violation("comparison", comparison) is None
    assert {item["metric"]: item["verdict"] for item in comparison["metrics"]}[
        "changed CHANGES.md"
    ] == "improved"
    assert "improved (p" in (project.output / "comment.md").read_text()


def test_a_metric_that_regressed_fails_the_build(project):
    status, page = project.compare(base=project.head, head=project.base)
    assert status == 1
    assert "The build fails: 1 metric regressed." in page
    assert project.compare(base=project.head, head=project.base, fail_on="none")[0] == 0


def test_the_files_as_they_lie_are_compared_too(project):
    project.scratch.write("AGENTS.md", "No more notes.\n")
    _, page = project.compare(base=project.head, head="WORKTREE", repeat=1)
    assert "changed CHANGES.md" in page


def test_definitions_come_from_head_unless_they_are_asked_of_base_or_each(project):
    project.evals({**EVAL, "id": "new", "repeat": 1})
    head = project.scratch.commit({"AGENTS.md": "Note it in CHANGES.md.\n"})

    def cases(source: str) -> list[str]:
        _, page = project.compare(head=head, repeat=1, suites_from=source, form="json")
        return [row["case"] for row in json.loads(page)["cases"]]

    assert cases("head") == ["logs", "new"]
    assert cases("base") == ["logs"]
    assert cases("each") == ["logs", "new"]


def test_one_eval_may_be_chosen_and_a_near_miss_is_named(project):
    project.evals({**EVAL, "id": "other"})
    head = project.scratch.commit()
    _, page = project.compare(head=head, eval=("other",), repeat=1, form="json")
    assert [row["case"] for row in json.loads(page)["cases"]] == ["other"]
    with pytest.raises(UsageError, match="no eval is called 'othr'; did you mean 'other'"):
        project.compare(head=head, eval=("othr",))


def test_an_eval_that_cannot_be_used_is_noted_and_the_rest_runs(project):
    project.scratch.write("datasets/suites/guide/agent/broken.yaml", "id: broken\nprompt: x\n")
    head = project.scratch.commit()
    _, page = project.compare(head=head, repeat=1)
    assert "broken.yaml:1: checks is missing; add it." in " ".join(page.split())
    with pytest.raises(UsageError, match="'broken' cannot be used"):
        project.compare(head=head, eval=("broken",))


def test_without_an_eval_it_is_said_where_one_would_be(project):
    project.scratch.git("rm", "-rq", "datasets")
    head = project.scratch.commit()
    with pytest.raises(UsageError, match="No agent eval was found in head: define one at"):
        project.compare(head=head)


def test_where_no_eval_can_be_used_it_is_said_why(project):
    broken = {f"datasets/suites/guide/agent/{name}.yaml": f"id: {name}\nprompt: x\n" for name in ("a", "b")}
    project.scratch.git("rm", "-rq", "datasets")
    head = project.scratch.commit(broken)
    with pytest.raises(UsageError) as raised:
        project.compare(head=head)
    assert str(raised.value).startswith("No agent eval of head can be used: ")
    for path in broken:
        assert f"{path}:1: checks is missing; add it." in str(raised.value)


def test_a_dry_run_says_what_would_run_and_runs_nothing(project):
    status, page = project.compare(dry_run=True, agent=("nobody",))
    assert status == 0
    assert "head: 5 trials of 1 agent eval\n" in page
    assert "logs  datasets/suites/guide/agent/logs.yaml:1  5 times by nobody" in page
    assert "head: 1 trial of 1 agent eval\n" in project.compare(dry_run=True, repeat=1)[1]
    assert not project.output.exists()


def test_an_agent_that_nobody_knows_is_told_before_anything_runs(project):
    with pytest.raises(UsageError, match="There is no agent 'nobody'"):
        project.compare(agent=("nobody",))


def test_without_a_key_an_agent_that_needs_a_model_is_told_so(project, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(UsageError, match="There is no key for the model's API: set ANTHROPIC_API_KEY"):
        project.compare(agent=("claude",))


def test_an_agent_that_always_breaks_gives_no_verdict(project):
    project.program.write_text("#!/bin/sh\necho broken >&2\nexit 9\n")
    status, page = project.compare(repeat=2)
    assert status == 3
    assert "No trial could be graded on base and head" in " ".join(page.split())
    assert "not graded: logs on head: broken" in page


# ------------------------------------------------------------------------------- the show


def shown(project: Project, name: str, **options: Any) -> str:
    out = io.StringIO()
    assert (
        show_test(project.scratch.path, name, project.output, options.pop("as_json", False), out, **options)
        == 0
    )
    return out.getvalue()


def test_an_eval_is_shown_with_its_trials(project):
    project.compare(repeat=2)
    page = shown(project, "logs")
    assert "changed CHANGES.md" in page
    assert "refcompare show logs --trial" in page


def test_a_trial_is_shown_with_its_calls_its_change_and_its_metrics(project):
    project.compare(repeat=2)
    page = shown(project, "logs", trial=2)
    for text in (
        "base: trial 2 of logs",
        "head: trial 2 of logs",
        "cat AGENTS.md",
        "Note it in CHANGES.md.",
        "+- Add a function.",
        "passed",
        "failed",
        "unchanged: CHANGES.md",
    ):
        assert text in page, page
    value = json.loads(shown(project, "logs", trial=1, as_json=True))
    assert [arm["arm"] for arm in value["arms"]] == ["base", "head"]
    assert violation("trial", value["arms"][0]["trials"][0]) is None
    with pytest.raises(UsageError, match="no trial 7 of 'logs'"):
        shown(project, "logs", trial=7)


def test_hostile_text_of_an_agent_acts_on_no_terminal(project):
    project.program.write_text(FOLLOWER.replace('"Done."', '"\\x1b[31mred\\x1b]8;;x\\x07"'))
    project.compare(repeat=1)
    assert "\x1b" not in shown(project, "logs", trial=1)


# ---------------------------------------------------------------------------- what is asked


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, Asked(True, False)),
        ({"only": "execution"}, Asked(True, False)),
        ({"only": "agent"}, Asked(False, True)),
        ({"agent": ("claude",)}, Asked(True, True)),
        ({"eval": ("logs",)}, Asked(True, True)),
        ({"only": "agent", "repeat": 3}, Asked(False, True)),
    ],
)
def test_agents_work_only_where_they_are_asked_for(options, asked):
    assert Asked.of(options) == asked


def test_agents_cannot_be_asked_for_and_left_out():
    with pytest.raises(UsageError, match="--repeat is about agents"):
        Asked.of({"only": "execution", "repeat": 3})


# ------------------------------------------------------------------ a harness of the repository's

HARNESS = """\
import json, os, pathlib, sys

follows = "CHANGES.md" in pathlib.Path("AGENTS.md").read_text()
seen = [os.environ.get("MARKER"), pathlib.Path("datasets/suites/guide/agent/logs.yaml").exists()]
try:
    seen.append(pathlib.Path(os.environ.get("MARKER_FILE", "/nowhere")).read_text())
except OSError as error:
    seen.append(str(error))
row = {
    "testCase": {"description": "notes it"},
    "provider": {"id": "own"},
    "success": follows,
    "score": float(follows),
    "response": {"output": json.dumps(seen)},
    "gradingResult": {"pass": follows, "score": float(follows), "reason": "it looked"},
}
pathlib.Path("left-behind").write_text("x")
pathlib.Path(sys.argv[1]).write_text(json.dumps({"results": {"version": 3, "results": [row] * 6}}))
sys.exit(100 if not follows else 0)
"""


@pytest.fixture
def harnessed(project: Project) -> Project:
    """A project whose base brings a harness of its own, and no evals that refcompare would run."""
    project.scratch.git("checkout", "-q", project.base)
    project.scratch.git("rm", "-q", "datasets/suites/guide/agent/logs.yaml")
    project.scratch.write("datasets/suites/guide/agent/logs.yaml", "not: [used\n")
    project.base = project.scratch.commit(
        {"harness.py": HARNESS, "refcompare.yml": "eval_command: python3 harness.py {output}\n"}
    )
    project.head = project.scratch.commit({"AGENTS.md": "Note it in CHANGES.md.\n"})
    return project


def outputs(project: Project) -> list[list[Any]]:
    return [
        json.loads(trial.trajectory.final_message)
        for arm in ("base", "head")
        for trial in read_trials(project.output, arm)
    ]


def test_a_harness_runs_once_on_each_ref_and_what_it_wrote_is_compared(harnessed):
    status, page = harnessed.compare(agent=())
    assert status == 0
    assert "improved" in page and "6 of 6: 100 %" in page
    assert len(read_trials(harnessed.output, "head")) == 6
    assert not (harnessed.scratch.path / "left-behind").exists(), "it ran in a copy"


def test_a_harness_is_confined_like_an_agent_and_sees_its_whole_tree(harnessed, monkeypatch, tmp_path):
    (tmp_path / "secret").write_text("canary-4e1")
    monkeypatch.setenv("MARKER", "canary-4e1")
    monkeypatch.setenv("MARKER_FILE", str(tmp_path / "secret"))
    harnessed.compare(agent=())
    for marker, has_definitions, text in outputs(harnessed):
        assert (marker, has_definitions) == (None, True)
        assert "canary-4e1" not in text


def test_a_harness_that_is_trusted_runs_as_the_user(harnessed, monkeypatch):
    monkeypatch.setenv("MARKER", "seen")
    harnessed.compare(agent=(), trust=True)
    assert {output[0] for output in outputs(harnessed)} == {"seen"}


def test_the_harness_of_a_heads_configuration_is_never_run(harnessed):
    head = harnessed.scratch.commit({"refcompare.yml": "eval_command: touch /tmp/hacked; false {output}\n"})
    status, page = harnessed.compare(head=head, agent=())
    assert status == 0
    assert "refcompare.yml differs between the refs: that of" in " ".join(page.split())
    assert len(read_trials(harnessed.output, "head")) == 6


def test_a_harness_that_writes_nothing_is_an_error_that_says_what_it_said(harnessed):
    head = harnessed.scratch.commit({"harness.py": "print('no key')\nraise SystemExit(3)\n"})
    with pytest.raises(EnvironmentFailure, match=r"wrote no results to .output. and ended with 3: no key"):
        harnessed.compare(head=head, agent=())


def test_a_dry_run_names_the_harness(harnessed):
    _, page = harnessed.compare(agent=(), dry_run=True)
    assert "eval_command, once for each ref, confined: python3 harness.py {output}" in page


# --------------------------------------------------------------------- references, and the matrix

READER = """\
#!/usr/bin/python3
# Reads what it finds of two files; told to recite, it gives base's text of the first instead.
import json, os, pathlib

recited = json.loads(os.environ["REFCOMPARE_VARIABLES"]).get("how") == "recites"
texts = {}
for name in ("docs/tone.md", "docs/new.md"):
    if pathlib.Path(name).exists():
        texts[name] = pathlib.Path(name).read_text()
if recited:
    texts["docs/tone.md"] = "".join(f"The former rule number {n} asks for warm words.\\n" for n in range(30))
with open(os.environ["REFCOMPARE_TRAJECTORY"], "w") as file:
    for name, text in texts.items():
        call = {"type": "call", "name": "Bash", "input": {"command": f"cat {name}"}, "output": text}
        file.write(json.dumps(call) + "\\n")
"""


def rules(age: str) -> str:
    return "".join(f"The {age} rule number {number} asks for warm words.\n" for number in range(30))


def outcomes_of(project: Project) -> dict[tuple[str, str, str], set[str]]:
    """Give the outcomes of each metric by arm and case."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for arm in ("base", "head"):
        for trial in read_trials(project.output, arm):
            for metric in trial.metrics:
                found.setdefault((arm, trial.case, metric.name), set()).add(metric.outcome.value)
    return found


def test_what_head_rewrote_is_proven_by_heads_text_and_what_base_has_not_is_said(project):
    project.program.write_text(READER)
    project.evals({
        "id": "logs", "prompt": "It {{how}}.", "repeat": 2,
        "matrix": {"variables": {"how": ["reads", "recites"]}},
        "checks": [{"read": "docs/tone.md"}, {"read": "docs/new.md"}],
    })  # fmt: skip
    base = project.scratch.commit({"docs/tone.md": rules("former")})
    head = project.scratch.commit({"docs/tone.md": rules("new"), "docs/new.md": rules("other")})
    status, page = project.compare(base=base, head=head)
    found = outcomes_of(project)
    for how in ("reads", "recites"):
        case = f"logs[how={how}]"
        assert found["base", case, "read docs/tone.md"] == {"passed"}
        assert found["head", case, "read docs/tone.md"] == {"passed" if how == "reads" else "failed"}
        assert found["base", case, "read docs/new.md"] == {"absent"}, "said, and not failed"
        assert found["head", case, "read docs/new.md"] == {"passed"}
    assert "not on base" in " ".join(page.split()), page
    assert status == 0, "two trials are too few to say that it regressed"


def test_every_agent_works_with_every_variable(project):
    project.evals({
        **EVAL, "prompt": "About {{topic}} in {{tone}} words.", "repeat": 1,
        "matrix": {"variables": {"topic": ["hooks", "nonces"], "tone": ["few", "7.10"]}},
    })  # fmt: skip
    head = project.scratch.commit()
    agents = (f"command:{project.program}", "scripted")
    project.compare(head=head, agent=agents)
    trials = trials_of(project)
    assert len(trials) == 2 * 2 * 2 * 2
    assert {trial.trajectory.agent for trial in trials} == {"command", "scripted"}
    assert {tuple(trial.variables.values()) for trial in trials} == {
        ("hooks", "few"), ("hooks", "7.10"), ("nonces", "few"), ("nonces", "7.10"),
    }  # fmt: skip
    assert "logs[agent=scripted, topic=hooks, tone=7.10]" in {trial.case for trial in trials}


# ------------------------------------------------------------------ what is missing is said at once


def test_a_program_that_is_missing_is_one_sentence_before_any_trial_starts(project, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("REFCOMPARE_CLAUDE", "/nowhere/claude")
    with pytest.raises(EnvironmentFailure, match="REFCOMPARE_CLAUDE names /nowhere/claude, which is no exec"):
        project.compare(agent=("claude",))
    monkeypatch.delenv("REFCOMPARE_CLAUDE")
    monkeypatch.setattr("shutil.which", lambda name, **more: None if name == "npm" else f"/usr/bin/{name}")
    with pytest.raises(EnvironmentFailure, match="npm is not installed, and claude comes from npm"):
        project.compare(agent=("claude",))
    assert not project.output.exists()


def test_what_is_missing_for_agents_is_said_before_any_test_is_graded(project, monkeypatch):
    def grade(*given: Any) -> None:
        raise AssertionError("tests were graded first")

    monkeypatch.setattr("refcompare.commands.comparing.run_tests", grade)
    suite = [{"id": "adds", "category": "math", "prompt": "Add."}]
    project.scratch.write("datasets/suites/guide/execution/math.json", json.dumps(suite))
    head = project.scratch.commit()
    with pytest.raises(UsageError, match="no eval is called 'nolog'"):
        project.compare(head=head, only=None, eval=("nolog",))
    with pytest.raises(EnvironmentFailure, match="there is no such file"):
        project.compare(head=head, only=None, agent=("command:./none",))
    assert not project.output.exists()
    with pytest.raises(AssertionError, match="graded first"):
        project.compare(head=head, only=None)


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("command:./no-such-agent", "The agent's command names ./no-such-agent, and there is no such file"),
        ("command:no-such-agent --fast", "starts no-such-agent, which is not among this machine's programs"),
        ("replay:none.jsonl", "The stored trajectory none.jsonl cannot be read: No such file or directory"),
    ],
)
def test_an_agent_of_ones_own_that_is_missing_is_told_at_once_too(project, agent, said):
    with pytest.raises((EnvironmentFailure, UsageError), match=said):
        project.compare(agent=(agent,))


def test_the_grader_of_a_rubric_is_seen_to_before_any_trial_starts(project, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    project.evals({**EVAL, "rubric": {"criteria": ["It is kind."], "agent": "codex"}})
    head = project.scratch.commit()
    with pytest.raises(UsageError, match="set OPENAI_API_KEY"):
        project.compare(head=head)


# ----------------------------------------------------------------------- recorded and replayed

ASKER = """\
#!/usr/bin/python3
# Asks its model twice, and does what it is told.
import json, os, pathlib, sys, urllib.request

said = [{"role": "user", "content": sys.stdin.read() + pathlib.Path("AGENTS.md").read_text()}]
for turn in range(2):
    body = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": said, "tools": [{"name": "Write"}]}
    request = urllib.request.Request(
        os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    answer = json.load(urllib.request.urlopen(request))["content"][0]["text"]
    said += [{"role": "assistant", "content": answer}, {"role": "user", "content": "And now?"}]
if "CHANGES.md" in said[0]["content"]:
    pathlib.Path("CHANGES.md").write_text(answer)
with open(os.environ["REFCOMPARE_TRAJECTORY"], "w") as file:
    file.write(json.dumps({"type": "message", "text": answer}) + "\\n")
"""


CODEX_SAYS_ANEW = re.compile(r"^(Chunk ID|Wall time): .*\n", re.MULTILINE)
"""Tools run anew in a replay, and Codex tells how long a command took and a number that it makes up."""


def without_times(project: Project) -> list[Trial]:
    """Give all that is kept of the trials, but for how long things took."""

    def timeless(trial: Trial) -> Trial:
        calls = tuple(
            replace(call, seconds=None, duration=None, output=CODEX_SAYS_ANEW.sub("", call.output))
            for call in trial.trajectory.calls
        )
        return replace(trial, trajectory=replace(trial.trajectory, calls=calls, seconds=None))

    return [timeless(trial) for arm in ("base", "head") for trial in read_trials(project.output, arm)]


def recorded_and_replayed(
    project: Project, monkeypatch: pytest.MonkeyPatch, *turns: Any, **options: Any
) -> str:
    """Record a run against a scripted model, replay it without one, and give the page of the replay."""
    tapes = project.output.parent / "tapes"
    with scripted(monkeypatch, *turns) as model:
        status, _ = project.compare(record=tapes, **options)
        asked = model.requests
    first = without_times(project)
    kept = "".join(path.read_text() for path in tapes.rglob("*.jsonl"))
    assert kept and KEY not in kept
    for name in ("ANTHROPIC", "OPENAI"):
        monkeypatch.delenv(f"{name}_BASE_URL")
        monkeypatch.delenv(f"{name}_API_KEY")
    again, replayed = project.compare(replay=tapes, **options)
    assert model.requests == asked, "nobody was asked"
    assert without_times(project) == first
    assert again == status
    return replayed


def test_a_run_that_was_recorded_is_replayed_without_a_model_and_comes_out_the_same(project, monkeypatch):
    project.program.write_text(ASKER)
    turns = [says("First.", usage={"input": 1000, "output": 10}), says("- A change.\n")]
    page = recorded_and_replayed(
        project, monkeypatch, *turns, agent=(f"command@anthropic:{project.program}",), repeat=2
    )
    assert "no model was asked: what models said was recorded" in " ".join(page.split())
    (trial, _) = read_trials(project.output, "head")
    assert trial.trajectory.usage.requests == 2
    assert trial.trajectory.cost is not None and trial.trajectory.cost > 0
    assert [item.path for item in trial.change.files] == ["CHANGES.md"]


@pytest.mark.agents
@pytest.mark.parametrize("agent", [ClaudeAgent(), CodexAgent()], ids=lambda agent: agent.name)
def test_the_real_programs_are_replayed_too(project, monkeypatch, agent):
    monkeypatch.delenv("REFCOMPARE_CACHE_DIR")
    fetched_or_skip(agent)
    read = {
        "anthropic": {"name": "Read", "input": {"file_path": "/workspace/AGENTS.md"}},
        "openai": {"name": "exec_command", "input": {"cmd": "cat AGENTS.md"}},
    }
    write = "grep -q CHANGES AGENTS.md && echo '- x' > CHANGES.md"
    shell = {
        "anthropic": {"name": "Bash", "input": {"command": write}},
        "openai": {"name": "exec_command", "input": {"cmd": write}},
    }
    turns = [{"calls": [read]}, {"calls": [shell]}, says("Done.")]
    page = recorded_and_replayed(project, monkeypatch, *turns, agent=(agent.name,), repeat=1)
    assert "changed CHANGES.md" in page
    (trial,) = read_trials(project.output, "head")
    assert trial.trajectory.ending is Ending.DONE
    assert [metric.outcome.value for metric in trial.metrics] == ["passed", "passed"]


def test_a_trial_that_was_not_recorded_is_told_before_any_runs(project, monkeypatch):
    project.program.write_text(ASKER)
    agent = (f"command@anthropic:{project.program}",)
    (project.output.parent / "tapes").mkdir()
    with pytest.raises(UsageError, match="trial 1 of 'logs' on base was not recorded"):
        project.compare(agent=agent, replay=project.output.parent / "tapes")
    with pytest.raises(UsageError, match=r"--replay: .*none is no directory"):
        project.compare(agent=agent, replay=project.output.parent / "none")
    with pytest.raises(UsageError, match="--record and --replay exclude each other"):
        project.compare(agent=agent, replay=project.output, record=project.output)


# ------------------------------------------------------------------- the real programs, from end to end

BOTH = pytest.mark.parametrize("agent", [ClaudeAgent(), CodexAgent()], ids=lambda agent: agent.name)
LOOKS = {
    "calls": [
        {
            "anthropic": {"name": "Bash", "input": {"command": "cat AGENTS.md"}},
            "openai": {"name": "exec_command", "input": {"cmd": "cat AGENTS.md"}},
        }
    ]
}
DEAR = {**LOOKS, "usage": {"input": 200_000, "output": 50_000}}


@contextmanager
def scripted(monkeypatch: pytest.MonkeyPatch, *turns: Any) -> Iterator[ScriptedModel]:
    """Put a scripted model where the environment says that both APIs are."""
    with ScriptedModel(script(*turns)) as model:
        for name, address in (("ANTHROPIC", model.url), ("OPENAI", f"{model.url}/v1")):
            monkeypatch.setenv(f"{name}_BASE_URL", address)
            monkeypatch.setenv(f"{name}_API_KEY", KEY)
        yield model


def trials_of(project: Project) -> list[Trial]:
    return [trial for arm in ("base", "head") for trial in read_trials(project.output, arm)]


@pytest.mark.agents
@BOTH
def test_an_api_error_is_not_graded_and_no_failed_check(project, monkeypatch, agent):
    monkeypatch.delenv("REFCOMPARE_CACHE_DIR")
    fetched_or_skip(agent)
    error = {"status": 400, "type": "invalid_request_error", "message": "Your credit is used up."}
    with scripted(monkeypatch, LOOKS, says("", error=error)):
        status, page = project.compare(agent=(agent.name,), repeat=1)
    for trial in trials_of(project):
        assert (trial.trajectory.ending, trial.graded, trial.metrics) == (Ending.API_ERROR, False, ())
        assert "Your credit is used up." in (trial.trajectory.error or "")
        assert [call.exit_code for call in trial.trajectory.calls] == [0], "what it did until then is kept"
    assert status == 3
    assert "not graded" in page and "regressed" not in page


@pytest.mark.agents
@BOTH
def test_the_budget_of_a_trial_ends_it_and_what_it_did_is_graded(project, monkeypatch, agent):
    monkeypatch.delenv("REFCOMPARE_CACHE_DIR")
    fetched_or_skip(agent)
    project.evals({**EVAL, "limits": {"usd": 0.5}})
    head = project.scratch.commit()
    with scripted(monkeypatch, DEAR, DEAR, DEAR, DEAR, DEAR, says("Never said.")):
        project.compare(head=head, agent=(agent.name,), repeat=1)
    for trial in trials_of(project):
        assert (trial.trajectory.ending, trial.graded) == (Ending.MONEY, True)
        assert trial.trajectory.cost is not None and 0.5 <= trial.trajectory.cost < 5
        assert 1 <= len(trial.trajectory.calls) < 5
        assert [metric.outcome.value for metric in trial.metrics] == ["failed", "passed"]


@pytest.mark.agents
@BOTH
def test_the_budget_of_the_run_ends_all_trials_and_none_is_held_against_an_arm(project, monkeypatch, agent):
    monkeypatch.delenv("REFCOMPARE_CACHE_DIR")
    fetched_or_skip(agent)
    with scripted(monkeypatch, DEAR, says("Done.")) as model:
        project.compare(agent=(agent.name,), repeat=2, budget=0.5, jobs=1)
        asked = model.requests
    trials = trials_of(project)
    assert len(trials) == 4
    assert not any(trial.graded for trial in trials)
    assert {trial.trajectory.error for trial in trials} == {"the run's budget was used up before its end"}
    assert asked <= 2, "after the first response nothing more was asked"


@pytest.mark.agents
@BOTH
def test_a_cost_that_nobody_knows_is_null(project, monkeypatch, agent):
    monkeypatch.delenv("REFCOMPARE_CACHE_DIR")
    fetched_or_skip(agent)
    monkeypatch.setattr("refcompare.agents.model.gateway.published_prices", PriceTable)
    with scripted(monkeypatch, LOOKS, says("Done.")):
        _, page = project.compare(agent=(agent.name,), repeat=1, form="json")
    for trial in trials_of(project):
        assert (trial.trajectory.ending, trial.trajectory.cost) == (Ending.DONE, None)
        assert trial.trajectory.usage.input_tokens == 200
    assert "$0" not in page


# --------------------------------------------------------------------------------- the crew


def test_a_stand_in_follows_guidance_without_a_key_and_costs_nothing(project):
    project.scratch.write(
        ".agents/skills/changelog/SKILL.md",
        "---\nname: changelog\ndescription: How to record a change in the changelog.\n---\n"
        "Write `CHANGES.md`:\n```\n- A change.\n```\n",
    )
    item = {**EVAL, "prompt": "Record this change in the changelog.", "limits": {"usd": 0.01}}
    item["checks"] = [{"skill-used": "changelog"}, {"changed": "CHANGES.md"}]
    project.evals(item)
    head = project.scratch.commit()
    status, page = project.compare(head=head, agent=("scripted",), repeat=4, budget=0.01)
    assert status == 0
    assert "changed CHANGES.md" in page and "4 of 4: 100 %" in page
    (trial, *_) = read_trials(project.output, "head")
    assert (trial.trajectory.agent, trial.trajectory.cost) == ("scripted", 0.0)
    assert trial.trajectory.skills == ("changelog",)


def test_once_the_budget_of_the_run_is_used_up_the_gateway_says_whose_budget_it_was():
    with ScriptedModel(script(says("Done."))) as model:
        address = {Api.ANTHROPIC: model.url, Api.OPENAI: f"{model.url}/v1"}
        with (
            ModelCrew(usd=1e-9, upstream=lambda api: Upstream(api, address[api], KEY)) as crew,
            crew.any_door(TALK) as gateway,
        ):
            assert gateway is not None
            assert client_of(gateway).messages(model="claude-opus-5-5").status == 400
            assert any(RUN_BUDGET in said for said in gateway.refusals)
            broke = _unless_broke(Trajectory("claude", ending=Ending.MONEY), gateway)
            assert (broke.ending, broke.error) == (
                Ending.CRASH,
                "the run's budget was used up before its end",
            )


def test_an_agent_is_made_once_and_a_trial_gets_a_door_of_its_own():
    spec = "command@anthropic:true"
    with ModelCrew(default=spec, upstream=lambda api: Upstream(api, "https://localhost", KEY)) as crew:
        agent = crew.agent(None)
        assert crew.agent(spec) is agent
        limits = AgentLimits()
        with crew.door(agent, limits, TALK) as one, crew.door(agent, limits, TALK) as other:
            assert one is not None and other is not None
            assert one.socket != other.socket
        assert not one.socket.exists()
        with crew.door(crew.agent("command:true"), limits, TALK) as none:
            assert none is None


def test_without_any_key_a_harness_gets_no_way_out(monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with ModelCrew() as crew, crew.any_door(TALK) as gateway:
        assert gateway is None
