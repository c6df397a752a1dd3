"""Recorded conversations, what is left out of them, and how they are played again."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pytest

from refcompare.agents.model.cassettes import Exchange, Player, Recorder, digest_of, read_cassette
from refcompare.agents.programs.redaction import REDACTED, Redactor
from refcompare.errors import EnvironmentFailure, UsageError

SECRET = "sk-ant-0123/4567+secret"


def exchange(
    body: str = "answer", *, answered: int = 0, request: bytes = b"request", **more: object
) -> Exchange:
    fields = {
        "path": "/v1/messages",
        "answered": answered,
        "has_tools": True,
        "digest": digest_of(request),
        "status": 200,
        "content_type": "text/event-stream",
        "body": body,
    }
    return Exchange(**(fields | more))  # type: ignore[arg-type]


def ask(
    player: Player, answered: int = 0, request: bytes = b"request", path: str = "/v1/messages"
) -> str | None:
    found = player.answer(path, answered, True, request)
    return found.body if found else None


def test_what_was_kept_is_read_again(tmp_path: Path):
    path = tmp_path / "new" / "trial.jsonl"
    recorder = Recorder(path, Redactor([]))
    whole = exchange('{"text": "é\\u2028 two"}', content_type="application/json")
    recorder.keep(whole)
    assert read_cassette(path).answer("/v1/messages", 0, True, b"request") == whole


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"the key {SECRET}.", f"the key {REDACTED}."),
        (json.dumps({"key": f'{SECRET}"'}), json.dumps({"key": f'{REDACTED}"'})),
        (b64encode(SECRET.encode()).decode(), REDACTED),
        ("?key=sk-ant-0123%2F4567%2Bsecret&x", f"?key={REDACTED}&x"),
        ("no secret here", "no secret here"),
    ],
)
def test_known_secrets_are_taken_out_however_they_are_written(before: str, after: str):
    assert Redactor([SECRET]).text(before) == after


def test_a_secret_with_quotes_is_taken_out_of_json():
    secret = 'pass"word\\9'
    assert secret not in json.loads(Redactor([secret]).text(json.dumps([f"x {secret} y"])))[0]


def test_short_values_and_no_secrets_change_nothing():
    assert Redactor([]).text("a text") == "a text"
    assert Redactor(["", "short", "   "]).text("a short text") == "a short text"


def test_the_longer_of_two_secrets_is_taken_out_whole():
    assert Redactor(["secret-1", "secret-1-and-more"]).text("secret-1-and-more") == REDACTED


def test_secrets_are_known_by_the_names_of_their_variables():
    variables = {
        "ANTHROPIC_API_KEY": "value-one-1",
        "GITHUB_TOKEN": "value-two-2",
        "DB_PASSWORD": "value-three-3",
        "GIT_AUTHOR_NAME": "value-four-4",
        "KEYBOARD": "value-five-5",
        "PATH": "value-six-6",
    }
    text = Redactor.from_environment(variables, "value-seven-7").text(
        " ".join(variables.values()) + " value-seven-7"
    )
    assert text == f"{REDACTED} {REDACTED} {REDACTED} value-four-4 value-five-5 value-six-6 {REDACTED}"


@pytest.mark.parametrize(
    "events",
    [
        [
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": piece}}
            for piece in (SECRET[:7], SECRET[7:])
        ],
        [
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": piece},
            }
            for piece in ('{"key": "' + SECRET[:9], SECRET[9:] + '"}')
        ],
        [
            {"type": "response.output_text.delta", "item_id": "m", "content_index": 0, "delta": piece}
            for piece in (*SECRET,)
        ],
    ],
)
def test_a_secret_that_was_streamed_in_pieces_is_taken_out(events: list[dict[str, object]], tmp_path: Path):
    path = tmp_path / "trial.jsonl"
    stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    Recorder(path, Redactor([SECRET])).keep(exchange(stream + 'data: {"type":"end"}\n\n'))
    played = ask(read_cassette(path)) or ""
    assert REDACTED in played
    assert SECRET not in played
    assert played.count("data: ") == 2, "the pieces are one event, the end another"


def test_pieces_of_two_texts_stay_two(tmp_path: Path):
    def delta(index: int, text: str) -> str:
        event = {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}
        return f"event: content_block_delta\ndata: {json.dumps(event)}\n\n"

    path = tmp_path / "trial.jsonl"
    Recorder(path, Redactor([])).keep(exchange(delta(0, "a") + delta(0, "b") + delta(1, "c") + ": ping\n\n"))
    assert ask(read_cassette(path)) == delta(0, "ab") + delta(1, "c") + ": ping\n\n"


def test_requests_are_answered_by_their_turn():
    player = Player([exchange("one"), exchange("two", answered=1)])
    assert ask(player, 1) == "two"
    assert ask(player, 0, b"another day, another prompt") == "one"


def test_a_request_that_is_sent_again_gets_its_answer_again():
    player = Player([exchange("one"), exchange("other", request=b"second")])
    assert [ask(player), ask(player), ask(player, 0, b"second"), ask(player)] == [
        "one",
        "one",
        "other",
        "one",
    ]


def test_the_very_same_request_gets_its_own_answer():
    player = Player([exchange("first", request=b"a"), exchange("second", request=b"b")])
    assert ask(player, 0, b"b") == "second"
    assert ask(player, 0, b"a") == "first"


def test_a_failure_is_played_once_and_then_what_came_of_trying_again():
    player = Player([exchange("busy", status=529), exchange("one")])
    assert [ask(player), ask(player), ask(player)] == ["busy", "one", "one"]


def test_a_request_that_was_not_recorded_has_no_answer():
    player = Player([exchange("one")])
    assert ask(player, 1) is None
    assert ask(player, 0, path="/v1/responses") is None
    assert player.answer("/v1/messages", 0, False, b"request") is None
    assert ask(player) == "one"
    assert ask(player, 0, b"one too many") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ":1 "),
        ("not json\n", ":1 "),
        ('{"format": "har"}\n', ":1 "),
        ('{"format": "refcompare-cassette", "version": 2}\n', ":1 "),
        ('{"format": "refcompare-cassette", "version": 1}\n{"path": "/x"}\n', ":2 "),
        ('{"format": "refcompare-cassette", "version": 1}\n[]\n', ":2 "),
    ],
)
def test_a_file_that_is_no_cassette_says_which_line(text: str, said: str, tmp_path: Path):
    path = tmp_path / "trial.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        read_cassette(path)


@pytest.mark.parametrize("field", ["status", "body", "answered", "has_tools", "path"])
def test_a_line_of_the_wrong_types_is_told(field: str, tmp_path: Path):
    path = tmp_path / "trial.jsonl"
    Recorder(path, Redactor([])).keep(exchange())
    header, line = path.read_text().splitlines()
    path.write_text(f"{header}\n{json.dumps(json.loads(line) | {field: [None]})}\n")
    with pytest.raises(UsageError, match=":2 "):
        read_cassette(path)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFailure, match="choose another place"):
        Recorder(tmp_path / "file" / "trial.jsonl", Redactor([]))
    with pytest.raises(UsageError, match="cannot be read"):
        read_cassette(tmp_path / "none.jsonl")
