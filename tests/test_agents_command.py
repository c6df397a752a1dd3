"""Any program as an agent, the stand-in, and the form in which both write down what they did."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refcompare.agents.model.script import Script
from refcompare.agents.model.wire import Api
from refcompare.agents.programs.command import CommandAgent, shown_files
from refcompare.agents.programs.interface import AgentLimits, Task, make_agent
from refcompare.agents.programs.standin import StandInAgent
from refcompare.agents.programs.trajectory import Call, Ending, FileRead, Trajectory, Usage
from refcompare.agents.programs.trajectory_lines import read_lines, write_lines
from refcompare.agents.sandbox.boundary import Boundary, View
from refcompare.agents.sandbox.running import run_program
from refcompare.agents.workspace.outbox import find_left, outbox, read_left
from refcompare.errors import EnvironmentFailure, UsageError
from tests.support_agents import (
    boundary_or_skip,
    model_behind_gateway,
    says,
    script,
    workspace_of,
)

FILES = {"AGENTS.md": "Be kind.\n", ".agents/skills/greet/SKILL.md": "---\nname: greet\n---\nSay hello.\n"}


@pytest.fixture(scope="module")
def boundary() -> Boundary:
    return boundary_or_skip()


@contextmanager
def ran(boundary: Boundary, program: str, *words: str, **more: Any) -> Iterator[tuple[Trajectory, Path]]:
    """Run a shell program as an agent, and give what it did and where."""
    with workspace_of(FILES) as workspace:
        task = Task("The prompt.", workspace, AgentLimits(more.pop("seconds", 30)), **more)
        yield CommandAgent(("bash", "-c", program, "bash", *words)).run(task, boundary, None), workspace


def line(**value: Any) -> str:
    return f"echo '{json.dumps(value)}' >> $REFCOMPARE_TRAJECTORY\n"


# A program of one's own.


def test_a_program_gets_its_prompt_and_workspace_and_its_account_is_the_trajectory(boundary: Boundary):
    program = (
        "cat > prompt.txt; pwd > where.txt; echo $REFCOMPARE_VARIABLES $REFCOMPARE_MODEL > told.txt\n"
        + line(type="call", name="Bash", input={"command": "cat AGENTS.md"}, output="Be kind.\n", exit_code=0)
        + line(
            type="call",
            name="Look",
            input="x",
            output="text",
            is_error=True,
            seconds=1.5,
            duration=0.5,
            id="b",
        )
        + line(type="read", path="docs/a.md", content="text")
        + line(type="skill", name="greet")
        + line(type="message", text="first")
        + line(type="message", text="last")
        + line(type="usage", input_tokens=10, output_tokens=2, requests=1, cost=0.5, model="m-1")
        + line(type="something-new", text="x")
        + line(type="end", reason="done")
    )
    with ran(boundary, program, model="m", variables={"task": "é"}) as (told, workspace):
        assert (workspace / "prompt.txt").read_text() == "The prompt."
        assert (workspace / "where.txt").read_text() == "/workspace\n"
        assert (workspace / "told.txt").read_text() == '{"task": "é"} m\n'
        assert told.agent == "command"
        assert told.calls == (
            Call("Bash", {"command": "cat AGENTS.md"}, "Be kind.\n", id="1", exit_code=0),
            Call("Look", "x", "text", True, 1.5, 0.5, "b"),
        )
        assert set(told.reads) == {FileRead("docs/a.md", "text", 1), FileRead("AGENTS.md", "Be kind.\n", 0)}
        assert told.skills == ("greet",)
        assert told.final_message == "last"
        assert told.usage == Usage(10, 2, None, None, 1)
        assert (told.cost, told.model, told.ending, told.error) == (0.5, "m-1", Ending.DONE, None)
        assert told.seconds is not None and told.seconds > 0


def test_a_program_that_writes_nothing_did_nothing(boundary: Boundary):
    with ran(boundary, "true") as (told, _):
        assert (told.calls, told.ending, told.cost, told.usage) == ((), Ending.DONE, None, Usage())


@pytest.mark.parametrize(
    ("program", "ending", "error"),
    [
        ("echo broken >&2; exit 3", Ending.CRASH, "broken\n"),
        ("exit 3", Ending.CRASH, "it ended with status 3 and said no more"),
        ("kill -9 $$", Ending.CRASH, "it ended with status 137 and said no more"),
        (line(type="end", reason="turns"), Ending.TURNS, None),
        (line(type="end", reason="api_error", error="503") + "exit 1", Ending.API_ERROR, "503"),
        ("echo '{' > $REFCOMPARE_TRAJECTORY", Ending.CRASH, "line 1 is not JSON"),
        (line(type="call", name=3), Ending.CRASH, "line 1 is not as documented: name is no text"),
        (line(type="end", reason="bored"), Ending.CRASH, "'bored' is not a valid Ending"),
        ("ln -s /etc/passwd $REFCOMPARE_TRAJECTORY", Ending.DONE, None),
        ("mkfifo $REFCOMPARE_TRAJECTORY", Ending.DONE, None),
        ("truncate -s 1G $REFCOMPARE_TRAJECTORY", Ending.DONE, None),
    ],
)
def test_how_a_program_ended_is_told(program: str, ending: Ending, error: str | None, boundary: Boundary):
    with ran(boundary, program) as (told, _):
        assert told.ending is ending
        assert (told.error is None) if error is None else error.strip() in (told.error or "")


def test_a_program_that_takes_too_long_is_ended_and_what_it_wrote_is_kept(boundary: Boundary):
    program = line(type="call", name="Wait") + "sleep 60 & wait"
    with ran(boundary, program, seconds=1) as (told, _):
        assert told.ending is Ending.TIME
        assert [call.name for call in told.calls] == ["Wait"]


def test_a_program_that_cannot_be_started_is_told(boundary: Boundary):
    with workspace_of({}) as workspace:
        told = CommandAgent(("no-such-program",)).run(Task("x", workspace), boundary, None)
        assert (told.ending, told.error) == (
            Ending.CRASH,
            "no-such-program cannot be started: No such file or directory",
        )
        with pytest.raises(EnvironmentFailure, match="no such file"):
            CommandAgent(("python3", "./no-such-file.py")).run(Task("x", workspace), boundary, None)


def test_files_that_a_command_names_are_shown_inside(boundary: Boundary, monkeypatch: pytest.MonkeyPatch):
    with workspace_of({}) as workspace:
        outside = workspace.parent / "mine"
        outside.mkdir()
        (outside / "agent.sh").write_text("echo ran; cat $1/data.txt > seen; ls $1 >> seen; touch $1/new\n")
        (outside / "data").mkdir()
        (outside / "data" / "data.txt").write_text("data\n")
        monkeypatch.chdir(outside)
        agent = make_agent("command:bash ./agent.sh ./data 'a word' -x /usr/bin/env /workspace/y")
        assert isinstance(agent, CommandAgent)
        words, mounts = shown_files(agent.line)
        assert words == ["bash", "/opt/agent/0/agent.sh", "/opt/agent/1/data", "a word", "-x", "/usr/bin/env",
                         "/workspace/y"]  # fmt: skip
        assert [mount.writable for mount in mounts] == [False, False]
        agent.run(Task("x", workspace), boundary, None)
        assert (workspace / "seen").read_text() == "data\ndata.txt\n"
        assert not (outside / "data" / "new").exists()


def test_what_passed_the_gateway_counts_where_calls_have_the_models_ids(boundary: Boundary):
    program = (
        "import json, os, urllib.request as u\n"
        "def ask(messages):\n"
        "    body = json.dumps({'model': 'scripted-1', 'messages': messages, 'tools': [{'name': 'Read'}]})\n"
        "    url = os.environ['ANTHROPIC_BASE_URL'] + '/v1/messages'\n"
        "    key = {'x-api-key': os.environ['ANTHROPIC_API_KEY']}\n"
        "    return json.load(u.urlopen(u.Request(url, body.encode(), key)))['content']\n"
        "said = ask([{'role': 'user', 'content': 'Go.'}])\n"
        "result = {'type': 'tool_result', 'tool_use_id': said[0]['id'], 'content': 'what was given'}\n"
        "ask([{'role': 'user', 'content': 'Go.'}, {'role': 'assistant', 'content': said},\n"
        "     {'role': 'user', 'content': [result]}])\n"
        "with open(os.environ['REFCOMPARE_TRAJECTORY'], 'w') as out:\n"
        "    for id, text in ((said[0]['id'], 'what is claimed'), ('forged', 'all tests passed')):\n"
        "        out.write(json.dumps({'type': 'call', 'name': 'X', 'output': text, 'id': id}) + '\\n')\n"
        "        out.write(json.dumps({'type': 'read', 'path': id[:3], 'content': 'claimed'}) + '\\n')\n"
        "    out.write(json.dumps({'type': 'usage', 'cost': 0.0}))\n"
    )
    turns = ({"calls": [{"name": "Read", "input": {"file_path": "a"}}]}, says("Done."))
    with workspace_of({"agent.py": program}) as workspace, model_behind_gateway(*turns) as (gateway, _):
        agent = CommandAgent(("python3", "/workspace/agent.py"), Api.ANTHROPIC)
        told = agent.run(Task("x", workspace), boundary, gateway.open())
    assert [(call.name, call.output) for call in told.calls] == [("Read", "what was given")]
    assert told.reads == (FileRead("too", "what was given", 0),)
    assert told.usage.requests == 2
    assert told.cost is not None and told.cost > 0


@pytest.mark.parametrize(
    ("spec", "line", "api"),
    [
        ("command:./agent.py --fast 'two words'", ("./agent.py", "--fast", "two words"), None),
        ("command@openai:codex-like", ("codex-like",), Api.OPENAI),
        (" command@anthropic: x ", ("x",), Api.ANTHROPIC),
    ],
)
def test_a_spec_names_a_command(spec: str, line: tuple[str, ...], api: Api | None):
    agent = make_agent(spec)
    assert isinstance(agent, CommandAgent)
    assert (agent.line, agent.api, agent.name) == (line, api, "command")


@pytest.mark.parametrize(
    "spec", ["command:", "command", "command:'", "command@google:x", "", "replay:", "x:y"]
)
def test_a_spec_that_names_nothing_is_told(spec: str):
    with pytest.raises(UsageError):
        make_agent(spec)


# The form.


def trajectories() -> st.SearchStrategy[Trajectory]:
    text = st.text(max_size=20)
    number = st.none() | st.floats(0, 1e6)
    calls = st.lists(
        st.builds(
            Call,
            name=text,
            input=st.none() | text | st.dictionaries(text, text, max_size=2),
            output=text,
            is_error=st.booleans(),
            seconds=number,
            duration=number,
            id=st.uuids().map(str),
            exit_code=st.none() | st.integers(-5, 255),
        ),
        max_size=3,
    )
    return calls.flatmap(
        lambda made: st.builds(
            Trajectory,
            agent=st.just("x"),
            calls=st.just(tuple(made)),
            skills=st.lists(text, max_size=2).map(tuple),
            reads=st.lists(
                st.builds(FileRead, text, text, st.integers(0, max(len(made) - 1, 0))),
                max_size=2 if made else 0,
            ).map(lambda reads: tuple(sorted(reads, key=lambda read: read.call))),
            final_message=text,
            usage=st.builds(Usage, *[st.none() | st.integers(0, 10)] * 5),
            cost=number,
            ending=st.sampled_from(Ending),
            error=st.none() | text,
            model=st.none() | text,
            seconds=st.none(),
        )
    )


@given(trajectories())
def test_a_trajectory_is_written_and_read_again(trajectory: Trajectory):
    account = read_lines(write_lines(trajectory).encode())
    assert tuple(account.calls) == trajectory.calls
    assert tuple(account.reads) == trajectory.reads
    assert tuple(account.skills) == trajectory.skills
    assert (account.final_message, account.usage, account.cost) == (
        trajectory.final_message, trajectory.usage, trajectory.cost,
    )  # fmt: skip
    assert (account.ending, account.error, account.model) == (
        trajectory.ending, trajectory.error, trajectory.model,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"type": "message", "text": "x"}\n\n[]', "line 3 is not as documented: it is no object"),
        ('{"type": "read", "path": "a", "content": "b"}', "a read belongs to a call"),
        ('{"type": "usage", "input_tokens": -1}', "input_tokens is no count"),
        ('{"type": "usage", "cost": true}', "cost is no number"),
        ('{"type": "usage", "cost": 1e999}', "cost is no number"),
        ('{"type": "call", "name": "x", "exit_code": "0"}', "exit_code is no integer"),
        ("[" * 100_000, "line 1 is not JSON"),
    ],
)
def test_a_wrong_line_is_named(text: str, said: str):
    with pytest.raises(ValueError, match=said):
        read_lines(text.encode())


# The stand-in.

GREETING = (
    "---\nname: greet\ndescription: How visitors are greeted on the start page\n---\n"
    "Read `docs/tone.md` first. Then write `greeting.txt`:\n\n```\nGood day.\n```\n\n"
    "Run `cat greeting.txt`.\n"
)


def follow(boundary: Boundary, files: dict[str, str], prompt: str) -> tuple[Trajectory, dict[str, str]]:
    with workspace_of(files) as workspace:
        told = make_agent("scripted").run(Task(prompt, workspace, AgentLimits(30, turns=20)), boundary, None)
        made = {path.name: path.read_text() for path in workspace.glob("*.txt")}
    return told, made


def test_the_stand_in_follows_the_guidance_that_is_there(boundary: Boundary):
    files = {"docs/tone.md": "Warm.\n", ".agents/skills/greet/SKILL.md": GREETING}
    told, made = follow(boundary, files, "Greet visitors on the start page.")
    assert made == {"greeting.txt": "Good day.\n"}
    assert [call.name for call in told.calls] == ["Skill", "Read", "Write", "Bash"]
    assert told.skills == ("greet",)
    assert [read.path for read in told.reads] == ["docs/tone.md", "greeting.txt"]
    assert told.ending is Ending.DONE
    assert told.final_message.startswith("Done")
    assert told.cost == 0.0


def test_the_stand_in_does_otherwise_when_the_guidance_is_another(boundary: Boundary):
    files = {".agents/skills/greet/SKILL.md": GREETING.replace("Good day.", "Welcome.")}
    assert follow(boundary, files, "Greet visitors on the start page.")[1] == {"greeting.txt": "Welcome.\n"}
    unrelated = {
        ".agents/skills/greet/SKILL.md": GREETING.replace("visitors are greeted on the start page", "x")
    }
    assert follow(boundary, unrelated, "Greet visitors on the start page.")[1] == {}
    rules = {"AGENTS.md": "Before you finish, run `echo checked > checked.txt`.\n"}
    assert follow(boundary, rules, "Anything.")[1] == {"checked.txt": "checked\n"}


def test_the_stand_in_does_the_same_each_time(boundary: Boundary):
    files = {"docs/tone.md": "Warm.\n", ".agents/skills/greet/SKILL.md": GREETING}
    first, second = (follow(boundary, files, "Greet visitors on the start page.")[0] for _ in range(2))
    assert [(call.name, call.input, call.output) for call in first.calls] == [
        (call.name, call.input, call.output) for call in second.calls
    ]


def test_the_stand_in_plays_a_script_too(boundary: Boundary):
    turns = (
        {"calls": [{"name": "Edit", "input": {"file_path": "a.txt", "old": "x", "new": "y"}}]},
        {"calls": [{"name": "Edit", "input": {"file_path": "a.txt", "old": "x", "new": "y"}}]},
        {"calls": [{"name": "Bash", "input": {"command": "exit 4"}}, {"name": "Fly", "input": {}}]},
        says("Done."),
    )
    with workspace_of({"a.txt": "x"}) as workspace:
        told = StandInAgent(script(*turns)).run(Task("Go.", workspace), boundary, None)
        assert (workspace / "a.txt").read_text() == "y"
    assert [call.is_error for call in told.calls] == [False, True, True, True]
    assert told.calls[2].exit_code == 4


def test_the_stand_in_ends_by_turns_and_by_an_error_of_the_api(boundary: Boundary):
    forever = [{"calls": [{"name": "Bash", "input": {"command": f"echo {n}"}}]} for n in range(9)]
    with workspace_of({}) as workspace:
        task = Task("Go.", workspace, AgentLimits(turns=2))
        told = StandInAgent(script(*forever)).run(task, boundary, None)
        assert (told.ending, len(told.calls)) == (Ending.TURNS, 2)
    broken = says("", error={"status": 400, "message": "No."})
    with workspace_of({}) as workspace:
        told = StandInAgent(script(broken)).run(Task("Go.", workspace), boundary, None)
        assert told.ending is Ending.API_ERROR
        assert "No." in (told.error or "")


def test_the_stand_in_asks_the_gateway_that_it_is_given(boundary: Boundary):
    with workspace_of({}) as workspace, model_behind_gateway(says("Behind it.")) as (gateway, _):
        told = StandInAgent().run(Task("Go.", workspace, model="scripted-1"), boundary, gateway.open())
    assert told.final_message == "Behind it."
    assert told.cost is not None and told.cost > 0


def test_a_script_is_named_by_its_file(tmp_path: Path):
    (tmp_path / "script.yaml").write_text("turns: [{text: Hello}]")
    agent = make_agent(f"scripted:{tmp_path}/script.yaml")
    assert isinstance(agent, StandInAgent) and isinstance(agent.model, Script)
    with pytest.raises(UsageError, match="cannot be read"):
        make_agent("scripted:none.yaml")


# How a program is attended to.


def test_lines_come_as_they_are_printed_and_long_ones_are_left_out(boundary: Boundary):
    seen: list[tuple[bytes, float]] = []
    program = (
        "echo one; sleep 0.3; printf 'two\\n\\nlast'; head -c 40000000 /dev/zero | tr '\\0' x; echo; echo end"
    )
    with workspace_of({}) as workspace:
        ended = run_program(
            boundary, ["bash", "-c", program], View(workspace), seconds=30,
            on_line=lambda text, when: seen.append((text, when)),
        )  # fmt: skip
    assert [text for text, _ in seen] == [b"one", b"two", b"", b"end"]
    assert seen[1][1] - seen[0][1] >= 0.25
    assert (ended.status, ended.timed_out) == (0, False)


def test_neither_stream_blocks_another(boundary: Boundary):
    program = "head -c 300000 /dev/zero >&2; cat | wc -c; head -c 300000 /dev/zero >&2"
    lines: list[bytes] = []
    with workspace_of({}) as workspace:
        ended = run_program(
            boundary, ["bash", "-c", program], View(workspace), seconds=30, stdin=b"x" * 500_000,
            on_line=lambda text, when: lines.append(text),
        )  # fmt: skip
    assert lines == [b"500000"]
    assert ended.status == 0


def test_a_program_that_closes_its_streams_is_still_attended_to(boundary: Boundary):
    with workspace_of({}) as workspace:
        ended = run_program(
            boundary, ["bash", "-c", "exec <&- >&- 2>&-; sleep 0.5; exit 5"], View(workspace), seconds=30
        )
        assert (ended.status, ended.timed_out) == (5, False)
        late = run_program(boundary, ["bash", "-c", "exec >&- 2>&-; sleep 60"], View(workspace), seconds=1)
        assert late.timed_out


def test_a_program_is_ended_some_seconds_after_it_should_have_stopped(
    boundary: Boundary, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("refcompare.agents.sandbox.running._GRACE_SECONDS", 0.5)
    stopped = threading.Event()
    threading.Timer(0.3, stopped.set).start()
    started = time.monotonic()
    with workspace_of({}) as workspace:
        ended = run_program(boundary, ["sleep", "60"], View(workspace), seconds=30, stopped=stopped)
    assert (ended.stopped, ended.timed_out) == (True, False)
    assert time.monotonic() - started < 5


def test_an_outbox_leaves_nothing_and_reads_only_files(tmp_path: Path):
    with outbox() as left:
        (left / "file").write_bytes(b"text")
        (left / "link").symlink_to(tmp_path)
        os.mkfifo(left / "pipe")
        (left / "a" / "b").mkdir(parents=True)
        (left / "a" / "b" / "x-1.txt").write_text("")
        (left / "a" / "loop").symlink_to(left)
        assert read_left(left, "file") == b"text"
        assert [read_left(left, name) for name in ("link", "pipe", "a", "none")] == [None] * 4
        assert find_left(left, "x-", ".txt") == [left / "a" / "b" / "x-1.txt"]
    assert not left.parent.exists()
