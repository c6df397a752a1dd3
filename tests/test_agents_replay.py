"""Stored trajectories, given again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from refcompare.agents.programs.interface import Task, make_agent
from refcompare.agents.programs.replay import ReplayAgent
from refcompare.agents.programs.trajectory import Call, Ending, FileRead, Trajectory, Usage
from refcompare.agents.programs.trajectory_lines import write_lines
from refcompare.errors import UsageError
from refcompare.trials import Trial, trial_value

STORED = Trajectory(
    agent="claude",
    calls=(
        Call("Read", {"file_path": "/workspace/a.md"}, "one", seconds=0.5, duration=0.1, id="1"),
        Call("Bash", {"command": "cat .agents/skills/greet/SKILL.md"}, "hello", id="2", exit_code=0),
    ),
    reads=(FileRead("a.md", "one", 0),),
    final_message="Done.",
    usage=Usage(1, 2, 3, 4, 5),
    cost=0.25,
    ending=Ending.TURNS,
    model="m",
)


def replayed(path: str, tmp_path: Path, **variables: str) -> Trajectory:
    agent = make_agent(f"replay:{path}")
    return agent.run(Task("Go.", tmp_path, variables=variables), None, None)  # type: ignore[arg-type]


def test_a_stored_trajectory_is_given_again(tmp_path: Path):
    path = tmp_path / "one.jsonl"
    path.write_text(write_lines(STORED))
    told = replayed(str(path), tmp_path)
    assert told.agent == "replay"
    assert told.calls == STORED.calls
    assert told.skills == ("greet",), "read with a shell"
    assert told.reads == (*STORED.reads, FileRead(".agents/skills/greet/SKILL.md", "hello", 1))
    assert (told.final_message, told.usage, told.cost) == ("Done.", STORED.usage, 0.25)
    assert (told.ending, told.model) == (Ending.TURNS, "m")


def test_a_trial_in_the_results_of_a_run_is_given_again(tmp_path: Path):
    trial = Trial("eval", "eval", "suite", 1, STORED)
    path = tmp_path / "trials.jsonl"
    path.write_text(json.dumps(trial_value(trial)) + "\n" + json.dumps(trial_value(trial)) + "\n")
    told = replayed(str(path), tmp_path)
    assert told.calls == STORED.calls
    assert told.ending is Ending.TURNS


def test_variables_choose_the_file(tmp_path: Path):
    for name in ("first", "second"):
        (tmp_path / f"{name}.jsonl").write_text(f'{{"type": "message", "text": "{name}"}}\n')
    path = f"{tmp_path}/{{task}}.jsonl"
    assert replayed(path, tmp_path, task="second").final_message == "second"
    with pytest.raises(UsageError, match="no variable of the eval"):
        replayed(path, tmp_path)
    for wrong in ("../second", "..", "a/b", ""):
        with pytest.raises(UsageError, match="no part of a path"):
            replayed(path, tmp_path, task=wrong)


def test_what_is_no_stored_trajectory_is_told(tmp_path: Path):
    with pytest.raises(UsageError, match="cannot be read"):
        replayed(str(tmp_path / "none.jsonl"), tmp_path)
    for text in ("not json\n", '{"type": "call"}\n', '{"eval_id": "x"}\n[]\n'):
        (tmp_path / "wrong.jsonl").write_text(text)
        with pytest.raises(UsageError, match="no stored trajectory"):
            replayed(str(tmp_path / "wrong.jsonl"), tmp_path)


def test_a_replay_asks_no_model():
    assert ReplayAgent("x").api is None
