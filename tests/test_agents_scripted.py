"""A model that follows a script, in the wire formats of both vendors."""

from __future__ import annotations

import http.client
import json
import time
from pathlib import Path
from typing import Any

import pytest

from refcompare.agents.model.script import Turn, parse_script, read_script
from refcompare.agents.model.scripted import ScriptedModel
from refcompare.agents.model.wire import Api, ResponseReader, Tokens, ToolUse
from refcompare.errors import UsageError
from tests.support_agents import script

READ = {"name": "Read", "input": {"file_path": "AGENTS.md"}}
PATCH = {"openai": {"name": "apply_patch", "input": "*** Begin Patch\n*** End Patch\n"}}


def ask(model: ScriptedModel, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(model.url.removeprefix("http://"), timeout=10)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def messages(model: ScriptedModel, *said: Any, **more: Any) -> tuple[int, bytes]:
    listed = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(said)]
    body = {"model": "m", "messages": listed, "tools": [{"name": "Read"}]} | more
    return ask(model, "/v1/messages", body)


def responses(model: ScriptedModel, *items: Any, **more: Any) -> tuple[int, bytes]:
    body = {"model": "m", "input": items, "tools": [{"type": "function", "name": "exec_command"}]} | more
    return ask(model, "/v1/responses", body)


def read(api: Api, body: bytes, *, streams: bool) -> ResponseReader:
    reader = ResponseReader(api, streams=streams)
    reader.feed(body)
    reader.finish()
    return reader


@pytest.mark.parametrize("streams", [True, False])
def test_a_turn_is_said_in_both_wire_formats(streams: bool):
    turn = {"text": "I read it.", "calls": [READ, PATCH], "usage": {"input": 7, "output": 3, "cache_read": 2}}
    with ScriptedModel(script(turn)) as model:
        _, anthropic = messages(model, "Go.", stream=streams)
        _, openai = responses(model, {"role": "user", "content": "Go."}, stream=streams)
    first = read(Api.ANTHROPIC, anthropic, streams=streams)
    second = read(Api.OPENAI, openai, streams=streams)
    assert [(use.name, use.input) for use in first.uses] == [("Read", {"file_path": "AGENTS.md"})]
    assert [(use.name, use.input) for use in second.uses] == [
        ("Read", {"file_path": "AGENTS.md"}),
        ("apply_patch", "*** Begin Patch\n*** End Patch\n"),
    ]
    assert first.complete and second.complete
    assert first.tokens == second.tokens == Tokens(input=7, output=3, cache_read=2)
    assert b"I read it." in (openai if streams else anthropic)


def test_the_turn_follows_from_the_assistant_messages_so_that_a_retry_gets_the_same_answer():
    with ScriptedModel(script({"text": "one"}, {"text": "two"})) as model:
        assert messages(model, "Go.") == messages(model, "Go.")
        assert b"two" in messages(model, "Go.", "one", "On.")[1]
        assert b"one" in messages(model, "Go.")[1]


def test_the_turn_of_a_responses_conversation_follows_from_the_ids_in_it():
    user = {"role": "user", "content": "Go."}
    with ScriptedModel(script({"calls": [READ, READ]}, {"text": "two"})) as model:
        items = json.loads(responses(model, user)[1])["output"]
        outputs = [
            {"type": "function_call_output", "call_id": item["call_id"], "output": ""} for item in items
        ]
        # A client may put each output after its call, or all of them at the end.
        for history in ([*items, *outputs], [items[0], outputs[0], items[1], outputs[1]]):
            assert b"two" in responses(model, user, *history)[1]


def test_two_conversations_get_different_ids_for_their_calls():
    def ids(first: str) -> list[str]:
        return [use.id for use in read(Api.ANTHROPIC, messages(model, first)[1], streams=False).uses]

    with ScriptedModel(script({"calls": [READ]})) as model:
        assert ids("Do this.") != ids("Do that.")
        assert ids("Do this.") == ids("Do this.")


def test_an_error_comes_as_often_as_it_says_and_then_the_turn():
    overloaded = {"status": 529, "type": "overloaded_error", "message": "Busy.", "times": 2}
    with ScriptedModel(script({"text": "at last", "error": overloaded})) as model:
        answers = [messages(model, "Go.") for _ in range(3)]
    assert [status for status, _ in answers] == [529, 529, 200]
    assert json.loads(answers[0][1])["error"] == {"type": "overloaded_error", "message": "Busy."}


def test_a_delay_is_kept():
    with ScriptedModel(script({"text": "slow", "delay": 0.2})) as model:
        started = time.monotonic()
        messages(model, "Go.")
        assert time.monotonic() - started >= 0.2


def test_a_turn_that_is_cut_ends_the_connection_in_the_middle():
    with (
        ScriptedModel(script({"text": "half " * 50, "cut": True})) as model,
        pytest.raises((http.client.IncompleteRead, ConnectionError)),
    ):
        messages(model, "Go.", stream=True)


def test_a_request_without_tools_is_answered_aside_and_takes_no_turn():
    with ScriptedModel(script({"text": "one"}, aside={"text": "A title"})) as model:
        assert b"A title" in messages(model, "Name this.", tools=[])[1]
        assert b"one" in messages(model, "Go.")[1]


def test_a_conversation_longer_than_its_script_is_an_error():
    with ScriptedModel(script({"text": "one"})) as model:
        status, body = messages(model, "Go.", "one", "On.")
    assert status == 400
    assert json.loads(body)["error"]["message"] == "the script has no turn 2"


def test_a_body_that_is_no_request_is_an_error():
    with ScriptedModel(script()) as model:
        assert ask(model, "/v1/messages", [])[0] == 400  # type: ignore[arg-type]


def test_counting_tokens_is_answered():
    with ScriptedModel(script()) as model:
        status, body = ask(model, "/v1/messages/count_tokens", {"model": "m", "messages": []})
    assert status == 200
    assert json.loads(body)["input_tokens"] > 0


def test_a_script_is_read_from_yaml(tmp_path: Path):
    path = tmp_path / "script.yaml"
    path.write_text(
        "turns:\n  - text: Hello\n    calls: [{name: Bash, input: {command: ls}}]\n  - delay: 1.5\n"
    )
    first, second = read_script(path).turns
    assert first.text == "Hello"
    assert first.calls[0].anthropic == first.calls[0].openai == ("Bash", {"command": "ls"})
    assert second == Turn(delay=1.5)


def test_a_script_that_is_not_there_or_no_yaml_is_named(tmp_path: Path):
    with pytest.raises(UsageError, match=r"nowhere\.yaml cannot be read: No such file or directory\.$"):
        read_script(tmp_path / "nowhere.yaml")
    (tmp_path / "bad.yaml").write_text("turns: [")
    with pytest.raises(UsageError, match=r"bad\.yaml is no YAML: [^\n]*line 1[^\n]*\.$"):
        read_script(tmp_path / "bad.yaml")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ([], "no list of turns"),
        ({"turns": [], "turn": []}, "'turn'"),
        ({"turns": ["text"]}, "turn 1 is not a mapping"),
        ({"turns": [{}, {"txet": "x"}]}, "turn 2 says 'txet'"),
        ({"turns": [{"text": 3}]}, "`text` must be a str"),
        ({"turns": [{"delay": -1}]}, "`delay` must be seconds"),
        ({"turns": [{"error": {"status": 200}}]}, "from 400 to 599"),
        ({"turns": [{"calls": [{"name": 3}]}]}, "a call is"),
        ({"turns": [{"calls": [{"claude": {}}]}]}, "'claude'"),
        ({"turns": [{"usage": {"tokens": 3}}]}, "'tokens'"),
    ],
)
def test_a_script_that_is_wrong_says_where(raw: object, said: str):
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        parse_script(raw)


def test_a_script_that_is_not_there_says_so(tmp_path: Path):
    with pytest.raises(UsageError, match="cannot be read"):
        read_script(tmp_path / "none.yaml")


def test_a_tool_use_keeps_the_id_that_its_result_will_name():
    with ScriptedModel(script({"calls": [READ]})) as model:
        use = read(Api.ANTHROPIC, messages(model, "Go.")[1], streams=False).uses[0]
    assert use == ToolUse(use.id, "Read", {"file_path": "AGENTS.md"})
    assert use.id.startswith("toolu_")
