"""What passes between an agent and its model is read right, however it is cut and whatever it says."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refcompare.agents.model.prices import Price, PriceTable, published_prices
from refcompare.agents.model.wire import (
    Api,
    ResponseReader,
    Tokens,
    ToolResult,
    ToolUse,
    error_body,
    read_request,
)

USAGE = {
    "input_tokens": 10,
    "output_tokens": 1,
    "cache_read_input_tokens": 5,
    "cache_creation_input_tokens": 9,
    "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 7},
    "service_tier": "standard",
    "server_tool_use": {"web_search_requests": 0},
}


def stream(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)


ANTHROPIC = stream(
    {"type": "message_start", "message": {"model": "claude-x", "usage": USAGE}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "é\n"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "t1", "name": "Bash"},
    },
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": '{"comm'},
    },
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": 'and":"ls"}'},
    },
    {"type": "content_block_stop", "index": 1},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use"},
        "usage": {"output_tokens": 42, "input_tokens": None},
    },
    {"type": "message_stop"},
)
OPENAI = stream(
    {"type": "response.created", "response": {"id": "r"}},
    {
        "type": "response.output_item.done",
        "item": {
            "type": "function_call",
            "call_id": "c1",
            "name": "exec_command",
            "arguments": '{"cmd":"ls"}',
        },
    },
    {
        "type": "response.output_item.done",
        "item": {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "patch"},
    },
    {
        "type": "response.completed",
        "response": {
            "model": "gpt-x",
            "service_tier": "default",
            "output": [{"type": "function_call", "call_id": "c1", "name": "exec_command", "arguments": "{}"}],
            "usage": {
                "input_tokens": 100,
                "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 20},
                "output_tokens": 7,
            },
        },
    },
)


def read(api: Api, *chunks: bytes, streams: bool = True) -> ResponseReader:
    reader = ResponseReader(api, streams=streams)
    for chunk in chunks:
        reader.feed(chunk)
    reader.finish()
    return reader


def facts(reader: ResponseReader) -> tuple[Any, ...]:
    return reader.model, reader.tokens, reader.complete, reader.error, tuple(reader.uses)


def test_an_anthropic_stream_is_read():
    tokens = Tokens(input=10, output=42, cache_read=5, cache_write=2, cache_write_long=7)
    uses = (ToolUse("t1", "Bash", {"command": "ls"}),)
    assert facts(read(Api.ANTHROPIC, ANTHROPIC)) == ("claude-x", tokens, True, None, uses)


def test_an_openai_stream_is_read_and_cached_tokens_are_counted_once():
    tokens = Tokens(input=50, output=7, cache_read=30, cache_write=20)
    uses = (ToolUse("c1", "exec_command", {"cmd": "ls"}), ToolUse("c2", "apply_patch", "patch"))
    assert facts(read(Api.OPENAI, OPENAI)) == ("gpt-x", tokens, True, None, uses)


@given(st.sampled_from([(Api.ANTHROPIC, ANTHROPIC), (Api.OPENAI, OPENAI)]), st.lists(st.integers(0, 1500)))
def test_a_stream_is_read_alike_however_it_is_cut(case: tuple[Api, bytes], cuts: list[int]):
    api, data = case
    edges = [0, *sorted(cuts), len(data)]
    chunks = [data[start:end] for start, end in itertools.pairwise(edges)]
    assert facts(read(api, *chunks)) == facts(read(api, data))


def test_a_stream_with_windows_line_ends_is_read():
    assert facts(read(Api.ANTHROPIC, ANTHROPIC.replace(b"\n", b"\r\n"))) == facts(
        read(Api.ANTHROPIC, ANTHROPIC)
    )


@given(st.binary(max_size=300), st.sampled_from(list(Api)), st.booleans())
def test_any_bytes_are_coped_with(data: bytes, api: Api, streams: bool):
    read(api, data, streams=streams)


WORDS = [
    *("type", "messages", "input", "content", "role", "tools", "source", "usage", "model", "output", "item"),
    *("response", "delta", "index", "error", "message", "content_block", "call_id", "name"),
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)


@given(json_values, st.sampled_from(list(Api)))
def test_any_json_is_coped_with(value: Any, api: Api):
    data = json.dumps(value).encode()
    read(api, b"data: " + data + b"\n\n")
    read(api, data, streams=False)
    if isinstance(value, dict):
        read_request(api, data)
    else:
        with pytest.raises(ValueError, match="not a JSON object"):
            read_request(api, data)


@pytest.mark.parametrize("kind", ["content_block_start", "content_block_delta", "content_block_stop"])
def test_an_index_that_is_none_is_coped_with(kind: str):
    read(Api.ANTHROPIC, stream({"type": kind, "index": {}, "delta": {"type": "input_json_delta"}}))


def test_a_stream_that_breaks_off_is_not_complete():
    reader = read(Api.ANTHROPIC, ANTHROPIC[: len(ANTHROPIC) // 2])
    assert not reader.complete
    assert reader.tokens is not None and reader.tokens.output == 1
    assert read(Api.OPENAI, OPENAI[: len(OPENAI) // 2]).tokens is None


@pytest.mark.parametrize("api", list(Api))
@pytest.mark.parametrize("streams", [True, False])
def test_an_error_is_read(api: Api, streams: bool):
    body = error_body(api, "overloaded_error", "Busy.")
    data = stream({"type": "error", **body}) if streams else json.dumps(body).encode()
    reader = read(api, data, streams=streams)
    assert reader.error == "Busy."
    assert not reader.complete


def test_a_failed_response_says_why():
    failed = {"error": {"code": "server_error", "message": "No luck."}, "usage": None}
    assert read(Api.OPENAI, stream({"type": "response.failed", "response": failed})).error == "No luck."


@pytest.mark.parametrize(
    "more",
    [
        {"service_tier": "priority"},
        {"speed": "fast"},
        {"inference_geo": "us"},
        {"server_tool_use": {"web_search_requests": 1}},
    ],
)
def test_what_is_not_charged_at_list_price_is_told(more: dict[str, Any]):
    message = {"type": "message", "model": "m", "content": [], "usage": USAGE | more}
    reader = read(Api.ANTHROPIC, json.dumps(message).encode(), streams=False)
    assert reader.tokens is not None and not reader.tokens.at_list_price


def test_requests_say_their_turn_and_what_their_calls_gave():
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [{"type": "text", "text": "a"}],
        "is_error": True,
    }
    anthropic = read_request(
        Api.ANTHROPIC,
        json.dumps(
            {
                "model": "m",
                "stream": True,
                "messages": [
                    {"role": "user", "content": "Go."},
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1"}]},
                    {"role": "user", "content": [result]},
                ],
            }
        ).encode(),
    )
    assert (anthropic.model, anthropic.answered, anthropic.streams) == ("m", 1, True)
    assert anthropic.results == {"t1": ToolResult("a", True)}
    openai = read_request(
        Api.OPENAI,
        json.dumps(
            {
                "model": "m",
                "input": [
                    {"role": "user", "content": "Go."},
                    {"type": "reasoning"},
                    {"type": "function_call", "call_id": "c1"},
                    {"type": "custom_tool_call", "call_id": "c2"},
                    {"type": "function_call_output", "call_id": "c1", "output": "one"},
                    {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"text": "two"}]},
                    {"type": "message", "role": "assistant", "content": []},
                ],
            }
        ).encode(),
    )
    assert openai.answered == 2
    assert openai.results == {"c1": ToolResult("one"), "c2": ToolResult("two")}


# Prices.


def test_every_published_price_is_complete_and_dated():
    table = published_prices()
    assert table.checked.count("-") == 2
    for model, price in table.prices.items():
        for part in (price, *([price.long] if price.long else [])):
            assert 0 < part.input < part.output, model
            assert part.cache_read is not None and part.cache_read < part.input, model
            assert part.cache_write is not None and part.cache_write > part.input, model
        assert (price.above is None) == (price.long is None), model


def test_each_kind_of_token_costs_its_own_price():
    price = Price(input=1, output=2, cache_read=3, cache_write=4, cache_write_long=5)
    million = 1_000_000
    each = [
        Tokens(input=million),
        Tokens(output=million),
        Tokens(cache_read=million),
        Tokens(cache_write=million),
        Tokens(cache_write_long=million),
    ]
    assert [price.cost(tokens) for tokens in each] == [1, 2, 3, 4, 5]


def test_a_long_prompt_costs_the_long_price_for_all_of_it():
    price = Price(
        input=1, output=2, cache_read=0.5, above=1000, long=Price(input=10, output=20, cache_read=5)
    )
    assert price.cost(Tokens(input=400, cache_read=600, output=100)) == pytest.approx(0.0009)
    assert price.cost(Tokens(input=401, cache_read=600, output=100)) == pytest.approx(0.00901)


def test_what_has_no_published_price_has_no_cost():
    table = PriceTable({"m": Price(input=1, output=2)})
    assert table.cost("m", Tokens(input=1)) is not None
    assert table.cost("m", Tokens(cache_read=1)) is None
    assert table.cost("m", Tokens(at_list_price=False)) is None
    assert table.cost("m-mini", Tokens()) is None
    assert table.cost(None, Tokens()) is None


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("claude-haiku-4-5-20251001", True),
        ("gpt-6.2-sol-2026-11-17", True),
        ("claude-haiku-4-5-fast", False),
        ("claude-haiku-4", False),
        ("anthropic/claude-haiku-4-5", False),
    ],
)
def test_a_model_is_known_with_and_without_its_date_and_under_no_other_name(model: str, known: bool):
    assert (published_prices().find(model) is not None) is known
