"""The one way out of a sandbox: what passes, what is refused, what it costs, what is kept."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from refcompare.agents.model.cassettes import Recorder, read_cassette
from refcompare.agents.model.door import REQUEST_BYTES, Upstream
from refcompare.agents.model.gateway import Gateway, upstream_from_environment
from refcompare.agents.model.ledger import BYTES_PER_TOKEN
from refcompare.agents.model.loop import LoopThread
from refcompare.agents.model.prices import PriceTable, published_prices
from refcompare.agents.model.scripted import ScriptedModel
from refcompare.agents.model.wire import Api, ToolResult
from refcompare.agents.programs.redaction import Redactor
from refcompare.agents.programs.trajectory import Ending, Usage
from refcompare.errors import UsageError
from tests.support_agents import KEY, PRICES, client_of, model_behind_gateway, says, script

READ = {"name": "Read", "input": {"file_path": "AGENTS.md"}}


# What passes.


def test_a_request_passes_with_the_real_key_and_without_the_one_from_inside():
    with model_behind_gateway(says("Hello.")) as (gateway, model):
        handle = gateway.open()
        inside = client_of(handle, **{"x-api-key": "from-inside", "Authorization": "Bearer from-inside"})
        assert inside.messages().json["content"] == [{"type": "text", "text": "Hello."}]
        assert inside.responses().json["output"][0]["content"][0]["text"] == "Hello."
        assert model.keys == {KEY, f"Bearer {KEY}"}


def test_the_key_is_in_no_answer_and_no_description():
    with model_behind_gateway(says("Hello.")) as (gateway, model):
        handle = gateway.open()
        answers = [
            client_of(handle).messages(),
            client_of(handle).send("GET", "/v1/models"),
            client_of(handle).send("POST", "/v1/messages", b"{"),
        ]
        upstream = Upstream(Api.ANTHROPIC, model.url, KEY)
    assert not any(KEY in f"{answer.headers}{answer.body!r}" for answer in answers)
    assert KEY not in repr(upstream)


@contextmanager
def serving(answer: Any) -> Iterator[str]:
    """Give the address of an upstream that answers everything with ``answer``."""
    loop = LoopThread("upstream")
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)

    async def start() -> str:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    url = loop.run(start())
    try:
        yield url
    finally:
        loop.run(runner.cleanup())
        loop.stop()


class Echo:
    """An upstream that answers with the headers that it was sent, and sends some that must not return."""

    def __init__(self) -> None:
        self.seen: list[dict[str, str]] = []

    async def answer(self, request: web.Request) -> web.Response:
        await request.read()
        self.seen.append({name.lower(): value for name, value in request.headers.items()})
        headers = {"Set-Cookie": "session=1", "Retry-After": "7", "X-Internal": "yes", "request-id": "r1"}
        return web.json_response({"type": "message", "usage": {}}, headers=headers)


def test_only_what_the_api_needs_of_the_headers_passes():
    echo = Echo()
    with serving(echo.answer) as url, Gateway([Upstream(Api.ANTHROPIC, url, KEY)]) as gateway:
        inside = client_of(
            gateway.open(),
            **{
                "anthropic-version": "2023-06-01",
                "anthropic-beta": "thinking",
                "x-codex-window-id": "1",
                "cookie": "a=b",
                "proxy-authorization": "Basic x",
                "x-forwarded-for": "10.0.0.1",
                "openai-organization": "other",
                "te": "trailers",
            },
        )
        answer = inside.messages()
    sent = echo.seen[0]
    assert sent["anthropic-version"] == "2023-06-01"
    assert sent["anthropic-beta"] == "thinking"
    assert sent["x-codex-window-id"] == "1"
    assert sent["x-api-key"] == KEY
    assert not {"cookie", "proxy-authorization", "x-forwarded-for", "openai-organization", "te"} & set(sent)
    assert sent["host"] == url.removeprefix("http://")
    assert answer.headers["retry-after"] == "7"
    assert answer.headers["request-id"] == "r1"
    assert not {"set-cookie", "x-internal"} & set(answer.headers)


def test_a_key_that_an_api_repeats_in_an_error_is_taken_out():
    async def repeating(request: web.Request) -> web.Response:
        said = f"Incorrect API key provided: {request.headers['x-api-key']}."
        return web.json_response({"type": "error", "error": {"message": said}}, status=401)

    with serving(repeating) as url, Gateway([Upstream(Api.ANTHROPIC, url, KEY)]) as gateway:
        handle = gateway.open()
        answer = client_of(handle).messages()
    assert answer.status == 401
    assert answer.json["error"]["message"] == "Incorrect API key provided: [redacted]."
    assert handle.errors == ("401: Incorrect API key provided: [redacted].",)


def test_an_upstream_that_is_redirected_is_not_followed_with_the_key():
    async def elsewhere(request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": "http://127.0.0.1:9/"})

    with serving(elsewhere) as url, Gateway([Upstream(Api.ANTHROPIC, url, KEY)]) as gateway:
        answer = client_of(gateway.open()).messages()
    assert answer.status == 307
    assert "location" not in answer.headers


def test_a_stream_is_handed_on_as_it_comes():
    release = threading.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'data: {"type":"ping"}\n\n')
        while not release.is_set():
            await asyncio.sleep(0.01)
        await response.write(b'data: {"type":"message_stop"}\n\n')
        return response

    with serving(slow) as url, Gateway([Upstream(Api.ANTHROPIC, url, KEY)]) as gateway:
        connection = client_of(gateway.open()).connect()
        connection.request("POST", "/v1/messages", b'{"messages":[],"stream":true}')
        response = connection.getresponse()
        assert response.readline() == b'data: {"type":"ping"}\n'
        release.set()
        assert b"message_stop" in response.read()
        connection.close()


def test_many_requests_at_once_are_all_answered():
    with model_behind_gateway(says("Hello.", delay=0.05)) as (gateway, model):
        handle = gateway.open()
        statuses: list[int] = []
        threads = [
            threading.Thread(target=lambda: statuses.append(client_of(handle).messages().status))
            for _ in range(24)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert statuses == [200] * 24
        assert handle.usage.requests == model.requests == 24


def test_the_gateway_adds_less_than_five_milliseconds_to_a_request():
    with model_behind_gateway(says("Hello.")) as (gateway, model):
        client = client_of(gateway.open())
        body = {"model": "scripted-1", "messages": [{"role": "user", "content": "word " * 20_000}]}
        sent = json.dumps(body).encode()

        def median(send: Any) -> float:
            times = []
            for _ in range(15):
                started = time.perf_counter()
                send()
                times.append(time.perf_counter() - started)
            return sorted(times)[7]

        def direct() -> None:
            connection = http.client.HTTPConnection(model.url.removeprefix("http://"))
            connection.request("POST", "/v1/messages", sent)
            connection.getresponse().read()
            connection.close()

        through = median(lambda: client.send("POST", "/v1/messages", sent))
        assert through - median(direct) < 0.005 * (3 if os.environ.get("CI") else 2)


# What is refused.


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/messages"),
        ("GET", "/v1/models"),
        ("POST", "/v1/files"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1/messages/../files"),
        ("POST", "/v1/messages%2F..%2Ffiles"),
        ("POST", "//v1/messages"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("POST", "http://example.com/v1/messages"),
        ("DELETE", "/v1/messages"),
        ("OPTIONS", "*"),
        ("POST", "/"),
    ],
)
def test_what_is_no_request_to_the_model_is_refused(method: str, path: str):
    with model_behind_gateway(says("Hello.")) as (gateway, model):
        handle = gateway.open()
        answer = client_of(handle).send(method, path, b'{"messages":[]}')
        assert answer.status in (400, 404)
        assert model.requests == 0


def test_a_query_that_the_api_does_not_have_is_refused():
    with model_behind_gateway(says("Hello.")) as (gateway, model):
        handle = gateway.open()
        assert client_of(handle).send("POST", "/v1/messages?url=http://evil", b"{}").status == 403
        assert model.requests == 0


def test_a_proxy_is_refused():
    with model_behind_gateway() as (gateway, model):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(gateway.open().socket))
            client.sendall(b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n")
            assert client.recv(100).split()[1] in (b"400", b"404", b"405")
        assert model.requests == 0


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]},
        {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]},
        {"tools": [{"name": "Read"}, {"type": "mcp_toolset", "mcp_server_name": "x"}]},
        {"tools": [{"type": 7}]},
        {"mcp_servers": [{"type": "url", "url": "https://evil.example", "name": "x"}]},
        {"container": {"skills": [{"skill_id": "pdf"}]}},
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image", "source": {"type": "url", "url": "https://evil.example"}}],
                }
            ]
        },
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "t",
                            "content": [{"type": "document", "source": {"type": "file", "file_id": "f"}}],
                        }
                    ],
                }
            ]
        },
    ],
)
def test_an_anthropic_request_that_has_the_vendor_reach_out_is_refused(more: dict[str, Any]):
    with model_behind_gateway(says("Hello.")) as (gateway, model):
        handle = gateway.open()
        answer = client_of(handle).messages(**more)
        assert answer.status == 403
        assert answer.json["type"] == "error"
        assert answer.json["error"]["type"] == "permission_error"
        assert answer.headers["x-should-retry"] == "false"
        assert model.requests == 0
        assert "reaches out" in handle.refusals[0]


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [{"type": "web_search"}]},
        {"tools": [{"type": "mcp", "server_url": "https://evil.example"}]},
        {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]},
        {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "image_generation"}]}]},
        {"input": [{"type": "additional_tools", "tools": [{"type": "file_search"}]}]},
        {
            "input": [
                {"role": "user", "content": [{"type": "input_image", "image_url": "https://evil.example"}]}
            ]
        },
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
        {
            "input": [
                {
                    "type": "function_call_output",
                    "call_id": "c",
                    "output": [{"type": "input_image", "image_url": "http://x"}],
                }
            ]
        },
        {"background": True},
        {"previous_response_id": "resp_1"},
        {"prompt": {"id": "pmpt_1"}},
    ],
)
def test_an_openai_request_that_has_the_vendor_reach_out_is_refused(more: dict[str, Any]):
    with model_behind_gateway(says("Hello.")) as (gateway, model):
        answer = client_of(gateway.open()).responses(**more)
        assert answer.status == 403
        assert answer.json["error"]["type"] == "permission_error"
        assert model.requests == 0


def test_pictures_and_tools_of_the_agents_own_pass():
    picture = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    content = [{"type": "image", "source": picture}]
    data = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    with model_behind_gateway(says("Hello.")) as (gateway, _):
        inside = client_of(gateway.open())
        tools = [{"name": "Read"}, {"type": "custom", "name": "x"}, {"type": "bash_20250124", "name": "bash"}]
        assert inside.messages(messages=[{"role": "user", "content": content}], tools=tools).status == 200
        own = [
            {"type": "function", "name": "f"},
            {"type": "custom", "name": "apply_patch"},
            {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g"}]},
        ]
        assert inside.responses({"role": "user", "content": [data]}, tools=own).status == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"text"', b"[" * 100_000, b"\xff\xfe"])
def test_a_body_that_is_no_request_is_refused(body: bytes):
    with model_behind_gateway(says("Hello.")) as (gateway, model):
        answer = client_of(gateway.open()).send("POST", "/v1/messages", body)
        assert answer.status == 400
        assert answer.json["error"]["type"] == "invalid_request_error"
        assert model.requests == 0


def test_a_body_that_is_too_large_is_refused():
    with model_behind_gateway(says("Hello.")) as (gateway, model):
        client = client_of(gateway.open())
        answer = client.send("POST", "/v1/messages", b" " * (REQUEST_BYTES + 1))
        assert answer.status == 413
        assert answer.json["error"]["type"] == "request_too_large"
        assert model.requests == 0


def test_a_body_that_cannot_be_looked_into_is_refused():
    with model_behind_gateway(says("Hello.")) as (gateway, model):
        headers = {"content-encoding": "gzip"}
        assert client_of(gateway.open()).send("POST", "/v1/messages", b"{}", headers).status == 415
        assert model.requests == 0


def test_an_api_without_an_upstream_is_refused():
    with (
        ScriptedModel(script(says("Hello."))) as model,
        Gateway([Upstream(Api.ANTHROPIC, model.url, KEY)]) as gateway,
    ):
        handle = gateway.open()
        assert handle.apis == (Api.ANTHROPIC,)
        assert client_of(handle).responses().status == 404


def test_an_upstream_that_is_not_there_is_an_error_of_the_api():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with Gateway([Upstream(Api.ANTHROPIC, address, KEY)]) as gateway:
            handle = gateway.open()
            answer = client_of(handle).messages()
    assert answer.status == 502
    assert answer.json["error"]["type"] == "api_error"
    assert "could not be reached" in handle.errors[0]
    assert KEY not in handle.errors[0]


@pytest.mark.parametrize(
    "address",
    ["http://api.example.com", "http://127.0.0.1.example.com", "ftp://x", "https://", "api.example.com", ""],
)
def test_a_key_is_not_sent_in_the_clear(address: str):
    with pytest.raises(UsageError, match="in the clear"):
        Upstream(Api.ANTHROPIC, address, KEY)


def test_the_upstream_comes_from_the_environment():
    given = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "https://proxy.example/claude/"}
    upstream = upstream_from_environment(Api.ANTHROPIC, given)
    assert (upstream.address, upstream.key) == ("https://proxy.example/claude", KEY)
    assert (
        upstream_from_environment(Api.OPENAI, {"OPENAI_API_KEY": KEY}).address == "https://api.openai.com/v1"
    )
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        upstream_from_environment(Api.OPENAI, given)


# What it used and cost.


def test_tokens_requests_and_dollars_are_counted():
    used = {"input": 1000, "output": 200, "cache_read": 300, "cache_write": 40}
    with model_behind_gateway(says("One.", usage=used)) as (gateway, _):
        handle = gateway.open()
        for _ in range(2):
            client_of(handle).messages(stream=True)
        client_of(handle).responses()
        assert handle.usage == Usage(3000, 600, 900, 120, 3)
        each = (1000 * 10 + 200 * 100 + 300 * 1 + 40 * 20) / 1_000_000
        assert handle.cost == pytest.approx(3 * each)
        assert gateway.spent == pytest.approx(3 * each)
        assert handle.model == "scripted-1"


def test_a_price_that_is_not_known_leaves_the_cost_unknown():
    with model_behind_gateway(says("One."), prices=PriceTable()) as (gateway, _):
        handle = gateway.open()
        client_of(handle).messages()
        assert handle.cost is None
        assert handle.usage.input_tokens == 100


def test_nothing_used_costs_nothing():
    with model_behind_gateway() as (gateway, _):
        handle = gateway.open()
        assert handle.cost == 0.0
        assert handle.usage == Usage(requests=0)
        assert handle.model is None


def test_a_tier_that_is_not_the_standard_one_leaves_the_cost_unknown():
    with model_behind_gateway(says("One.")) as (gateway, _):
        handle = gateway.open()
        client_of(handle).responses(service_tier="priority")
        assert handle.cost is None


def test_a_response_that_breaks_off_leaves_the_cost_unknown():
    with model_behind_gateway(says("half " * 50, cut=True)) as (gateway, _):
        handle = gateway.open()
        with pytest.raises((ConnectionError, http.client.IncompleteRead)):
            client_of(handle).messages(stream=True)
        assert handle.cost is None
        assert "broke off" in handle.errors[0]


def test_an_agent_that_goes_away_in_the_middle_is_charged_what_is_known():
    with model_behind_gateway(says("Slow.", delay=5)) as (gateway, _):
        handle = gateway.open()
        connection = client_of(handle).connect()
        connection.request("POST", "/v1/messages", b'{"model":"scripted-1","messages":[],"tools":[{}]}')
        time.sleep(0.2)
        connection.close()
        started = time.monotonic()
        handle.close()
        assert time.monotonic() - started < 2


def test_counting_tokens_is_free_and_no_turn():
    with model_behind_gateway(says("One.")) as (gateway, model):
        handle = gateway.open(turns=0)
        answer = client_of(handle).send("POST", "/v1/messages/count_tokens", b'{"messages":[]}')
        assert answer.status == 200
        assert model.requests == 0
        assert handle.usage == Usage(requests=0)
        assert handle.ending is None


def test_errors_of_the_api_are_handed_on_and_cost_nothing():
    error = {"status": 529, "type": "overloaded_error", "message": "Busy.", "times": 1}
    with model_behind_gateway(says("One.", error=error)) as (gateway, model):
        handle = gateway.open()
        answer = client_of(handle).messages()
        assert (answer.status, answer.json["error"]["message"]) == (529, "Busy.")
        assert handle.cost == 0.0
        assert handle.errors == ("529: Busy.",)
        assert model.requests == 1, "the gateway itself tries nothing again"


# Budgets.


def test_a_request_beyond_the_trials_budget_is_answered_by_an_error_and_ends_the_trial():
    used = {"input": 1000, "output": 1000}  # 0.11 US dollars
    with model_behind_gateway(says("One.", usage=used)) as (gateway, model):
        handle = gateway.open(usd=0.2)
        assert client_of(handle).messages().status == 200
        assert handle.ending is None
        assert client_of(handle).messages().status == 200
        for api in ("messages", "responses"):
            answer = getattr(client_of(handle), api)()
            assert answer.status == 400
            assert "budget of 0.2 US dollars" in answer.json["error"]["message"]
        assert model.requests == 2
        assert handle.ending is Ending.MONEY
        assert handle.stopped.is_set()


def test_the_prompt_of_a_request_counts_before_it_is_sent():
    with model_behind_gateway(says("One.")) as (gateway, model):
        handle = gateway.open(usd=0.02)
        # At a cached token's price of 1 US dollar a million, so at the very least.
        prompt = "x" * (30_000 * BYTES_PER_TOKEN)
        assert client_of(handle).messages(prompt).status == 400
        assert handle.ending is Ending.MONEY
        assert model.requests == 0
        assert client_of(gateway.open(usd=0.04)).messages(prompt).status == 200


def test_the_runs_budget_holds_for_all_trials_together():
    used = {"input": 1000, "output": 1000}
    with model_behind_gateway(says("One.", usage=used), usd=0.2) as (gateway, model):
        first, second = gateway.open(usd=10), gateway.open()
        assert client_of(first).messages().status == 200
        assert client_of(second).messages().status == 200
        assert client_of(second).messages().status == 400
        assert second.ending is Ending.MONEY
        assert first.ending is None
        assert client_of(first).messages().status == 400
        assert model.requests == 2


def test_requests_under_way_are_counted_against_the_budget():
    with model_behind_gateway(says("One.", delay=0.3)) as (gateway, _):
        handle = gateway.open(usd=0.05)
        prompt = "x" * (30_000 * BYTES_PER_TOKEN)  # at the least 0.03 US dollars
        statuses: list[int] = []
        threads = [
            threading.Thread(target=lambda: statuses.append(client_of(handle).messages(prompt).status))
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200, 400, 400]


def test_a_budget_that_cannot_be_enforced_lets_nothing_pass():
    with model_behind_gateway(says("One."), prices=PriceTable()) as (gateway, model):
        handle = gateway.open(usd=5)
        answer = client_of(handle).messages()
        assert answer.status == 400
        assert "the price of 'scripted-1' is not known" in answer.json["error"]["message"]
        assert handle.ending is None, "an unknown price is not the agent's doing"
        assert model.requests == 0


def test_turns_are_capped():
    with model_behind_gateway(says("One.")) as (gateway, model):
        handle = gateway.open()
        handle.cap_turns(2)
        statuses = [client_of(handle).messages().status for _ in range(3)]
        assert statuses == [200, 200, 400]
        assert handle.ending is Ending.TURNS
        assert model.requests == 2


# What was called, as the model and the API saw it.


def test_the_calls_are_known_from_what_passed():
    with model_behind_gateway({"calls": [READ]}, says("Done.")) as (gateway, _):
        handle = gateway.open()
        said = client_of(handle).messages().json["content"]
        call = handle.uses()[0]
        assert (call.name, call.input) == ("Read", {"file_path": "AGENTS.md"})
        assert handle.result(call.id) is None
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "contents", "is_error": True}
        client_of(handle).messages("Go.", said, [result])
        assert handle.result(call.id) == ToolResult("contents", True)


def test_results_of_calls_that_no_model_asked_for_are_not_kept():
    with model_behind_gateway({"calls": [READ]}, says("Done.")) as (gateway, _):
        handle = gateway.open()
        said = client_of(handle).messages().json["content"]
        known = handle.uses()[0].id
        results = [
            {"type": "tool_result", "tool_use_id": name, "content": "x" * 5_000_000}
            for name in (known, "other")
        ]
        client_of(handle).messages("Go.", said, results)
        kept = handle.result(known)
        assert kept is not None and len(kept.text) == 4 * 1024 * 1024
        assert handle.result("other") is None


# Sockets.


def test_every_trial_has_a_socket_that_nobody_else_may_use():
    with model_behind_gateway(says("One.")) as (gateway, _):
        first, second = gateway.open(), gateway.open()
        assert first.socket != second.socket
        mode = stat.S_IMODE(first.socket.stat().st_mode)
        assert mode == 0o600
        client_of(first).messages()
        assert second.usage.requests == 0


def test_a_closed_handle_leaves_nothing():
    with model_behind_gateway(says("One.")) as (gateway, _):
        handle, other = gateway.open(), gateway.open()
        handle.close()
        handle.close()
        assert not handle.socket.parent.exists()
        assert other.socket.exists()
    assert not other.socket.parent.exists()


# Cassettes.


def test_a_recorded_trial_is_played_again_without_the_model(tmp_path: Path):
    path = tmp_path / "cassettes" / "trial.jsonl"
    turns = ({"text": f"The key is {KEY}.", "calls": [READ]}, says("Done."))

    def converse(client: Any) -> tuple[str, str]:
        first = client.messages(stream=True)
        second = client.messages("Go.", "…", "On.", stream=True)
        return said(first.events), said(second.events)

    def said(events: list[dict[str, Any]]) -> str:
        deltas = [event.get("delta", {}) for event in events]
        return "".join(delta.get("text", delta.get("partial_json", "")) for delta in deltas)

    with model_behind_gateway(*turns) as (gateway, _):
        handle = gateway.open(record=Recorder(path, Redactor([KEY])))
        recorded = converse(client_of(handle))
        cost = handle.cost
    assert KEY in recorded[0]
    assert KEY not in path.read_text()
    with Gateway([], prices=PRICES) as gateway:
        handle = gateway.open(replay=read_cassette(path))
        played = converse(client_of(handle))
        assert played == (recorded[0].replace(KEY, "[redacted]"), recorded[1])
        assert handle.cost == cost
        assert [use.name for use in handle.uses()] == ["Read"]
        missing = client_of(handle).messages("Go.", "…", "On.", "…", "More.")
        assert missing.status == 400
        assert "no answer for turn 3" in missing.json["error"]["message"]


def test_an_agent_that_does_not_wait_for_the_end_is_recorded_all_the_same(tmp_path: Path):
    """As Codex does: it goes away once it has read the last event."""
    over = threading.Event()

    async def slow_to_end(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'data: {"type":"response.completed","response":{"output":[],"usage":{}}}\n\n')
        while not over.is_set():
            await asyncio.sleep(0.01)
        return response

    path = tmp_path / "trial.jsonl"
    with serving(slow_to_end) as url, Gateway([Upstream(Api.OPENAI, url, KEY)]) as gateway:
        handle = gateway.open(record=Recorder(path, Redactor([])))
        connection = client_of(handle).connect()
        connection.request("POST", "/v1/responses", b'{"input":[],"stream":true}')
        response = connection.getresponse()
        assert b"response.completed" in response.readline()
        response.close()
        connection.close()
        while not handle.usage.requests:
            time.sleep(0.01)
        handle.close()
        over.set()
    assert len(path.read_text().splitlines()) == 2
    assert read_cassette(path).answer("/v1/responses", 0, has_tools=False, body=b"") is not None


def test_playing_obeys_the_limits(tmp_path: Path):
    path = tmp_path / "trial.jsonl"
    with model_behind_gateway(says("One.")) as (gateway, _):
        client_of(gateway.open(record=Recorder(path, Redactor([])))).messages()
    with Gateway([]) as gateway:
        handle = gateway.open(turns=0, replay=read_cassette(path))
        assert client_of(handle).messages().status == 400
        assert handle.ending is Ending.TURNS


def test_what_the_vendor_publishes_is_what_a_request_costs(tmp_path: Path):
    used = {"input": 1_000_000, "output": 1_000_000}
    with model_behind_gateway(says("One.", usage=used), prices=published_prices()) as (gateway, _):
        handle = gateway.open()
        client_of(handle).messages(model="claude-opus-5-5")
        assert handle.cost == pytest.approx(24.0)
