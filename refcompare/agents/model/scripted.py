"""A model that says what a script tells it to, over HTTP in both wire formats.

The real agent CLIs are run against it, so it behaves as an API does: it streams, it fails, it takes
its time. It keeps no state of a conversation: which turn is due follows from the request alone, so
a request that is sent again gets the same answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from refcompare.agents.model.loop import LoopThread
from refcompare.agents.model.script import Model, ScriptedError, Turn
from refcompare.agents.model.wire import Api, error_body, read_request

SCRIPT_ENDED = "script_ended"
"""The type of the error that answers a conversation that is longer than its script."""

_IDS = re.compile(r"^(?:call|msg|fc|ctc)_[0-9a-f]{8}_(\d+)(?:_\d+)?$")


class ScriptedModel:
    """Serves a model on a port of this machine's loopback interface, from ``with`` to its end.

    ``url`` is what a client takes for the API's address; ``requests`` counts what came in, and
    ``keys`` is what it was authorised with.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._failures: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()
        self.requests = 0
        self.keys: set[str] = set()

    @property
    def url(self) -> str:
        """``http://127.0.0.1:PORT``, without a path."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._loop = LoopThread("scripted-model")
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_post("/v1/messages/count_tokens", self._count)
        app.router.add_post("/v1/responses", self._responses)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        self._port = self._loop.run(self._serve())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(self._runner.cleanup())
        self._loop.stop()

    async def _serve(self) -> int:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, Api.ANTHROPIC)

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, Api.OPENAI)

    async def _count(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"input_tokens": len(await request.read()) // 4})

    async def _answer(self, request: web.Request, api: Api) -> web.StreamResponse:
        body = await request.read()
        self.requests += 1
        self.keys |= {
            request.headers[name] for name in ("x-api-key", "authorization") if name in request.headers
        }
        try:
            facts = read_request(api, body)
        except ValueError as error:
            return web.json_response(error_body(api, "invalid_request_error", str(error)), status=400)
        said = json.loads(body)
        number = facts.answered if api is Api.ANTHROPIC else _turn_after(said)
        turn = self._model.turn(said, facts, number)
        if turn is None:
            message = f"the script has no turn {number + 1}"
            return web.json_response(error_body(api, SCRIPT_ENDED, message), status=400)
        await asyncio.sleep(turn.delay)
        tag = _tag(api, said)
        if turn.error is not None and self._fails(turn.error, tag, number):
            failed = error_body(api, turn.error.kind, turn.error.message)
            return web.json_response(failed, status=turn.error.status)
        model = facts.model or "scripted"
        events = list(
            _anthropic(turn, model, tag, number)
            if api is Api.ANTHROPIC
            else _openai(turn, model, tag, number)
        )
        if not facts.streams:
            return web.json_response(events[-1]["response"] if api is Api.OPENAI else _whole(events))
        return await _stream(request, events, cut=turn.cut)

    def _fails(self, error: ScriptedError, tag: str, number: int) -> bool:
        with self._lock:
            self._failures[tag, number] += 1
            return error.times is None or self._failures[tag, number] <= error.times


async def _stream(
    request: web.Request, events: Sequence[Mapping[str, Any]], *, cut: bool
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    for event in events[: len(events) // 2] if cut else events:
        await response.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    if cut:
        if request.transport is not None:
            request.transport.abort()
    else:
        with suppress(ConnectionError):
            await response.write_eof()
    return response


def _turn_after(request: Mapping[str, Any]) -> int:
    """Give the number of the turn that is due: one more than the last that the conversation holds."""
    numbers = [-1]
    for item in request.get("input", []) if isinstance(request.get("input"), list) else []:
        for name in ("call_id", "id"):
            found = _IDS.match(str(item.get(name))) if isinstance(item, dict) else None
            if found:
                numbers.append(int(found[1]))
    return max(numbers) + 1


def _tag(api: Api, request: Mapping[str, Any]) -> str:
    """Tell conversations apart by what the user said first, as ids must differ between them."""
    for message in request.get("messages" if api is Api.ANTHROPIC else "input", []):
        if isinstance(message, dict) and message.get("role") == "user":
            said = json.dumps(_without_marks(message.get("content")), sort_keys=True)
            return hashlib.sha256(said.encode()).hexdigest()[:8]
    return "0" * 8


def _without_marks(content: object) -> object:
    """Leave out what a client changes in a message that it sends again: where its cache ends."""
    if isinstance(content, list):
        return [
            {name: value for name, value in block.items() if name in ("type", "text")}
            for block in content
            if isinstance(block, dict)
        ]
    return content


def _anthropic(turn: Turn, model: str, tag: str, number: int) -> Iterator[dict[str, Any]]:
    tokens = turn.tokens
    usage = {
        "input_tokens": tokens.input,
        "output_tokens": 1,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation_input_tokens": tokens.cache_write + tokens.cache_write_long,
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.cache_write,
            "ephemeral_1h_input_tokens": tokens.cache_write_long,
        },
    }
    message: dict[str, Any] = {
        "id": f"msg_{tag}_{number}", "type": "message", "role": "assistant", "model": model,
        "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    yield {"type": "message_start", "message": message}
    calls = [call.anthropic for call in turn.calls if call.anthropic is not None]
    index = 0
    if turn.text or not calls:
        yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        for piece in _pieces(turn.text):
            delta = {"type": "text_delta", "text": piece}
            yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        index = 1
    for position, (name, given) in enumerate(calls):
        block = {"type": "tool_use", "id": f"toolu_{tag}_{number}_{position}", "name": name, "input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for piece in _pieces(json.dumps(given)):
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
        index += 1
    stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": tokens.output}}
    yield {"type": "message_stop"}


def _whole(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Give the message that a stream of Anthropic events amounts to."""
    message: dict[str, Any] = dict(events[0]["message"])
    blocks: list[dict[str, Any]] = []
    pieces: list[str] = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
            pieces = []
        elif event["type"] == "content_block_delta":
            pieces.append(event["delta"].get("text", event["delta"].get("partial_json", "")))
        elif event["type"] == "content_block_stop":
            text = "".join(pieces)
            blocks[-1] |= {"text": text} if blocks[-1]["type"] == "text" else {"input": json.loads(text)}
        elif event["type"] == "message_delta":
            message |= event["delta"]
            message["usage"] = message["usage"] | event["usage"]
    return message | {"content": blocks}


def _openai(turn: Turn, model: str, tag: str, number: int) -> Iterator[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    calls = [call.openai for call in turn.calls if call.openai is not None]
    if turn.text or not calls:
        content = [{"type": "output_text", "text": turn.text, "annotations": []}]
        items.append(
            {"type": "message", "id": f"msg_{tag}_{number}", "role": "assistant", "content": content}
        )
    for position, (name, given) in enumerate(calls):
        place = f"{tag}_{number}_{position}"
        if isinstance(given, str):
            call = {"type": "custom_tool_call", "id": f"ctc_{place}", "input": given}
        else:
            call = {"type": "function_call", "id": f"fc_{place}", "arguments": json.dumps(given)}
        items.append(call | {"call_id": f"call_{place}", "name": name, "status": "completed"})
    tokens = turn.tokens
    details = {"cached_tokens": tokens.cache_read, "cache_write_tokens": tokens.cache_write}
    usage = {
        "input_tokens": tokens.prompt,
        "input_tokens_details": details,
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens.prompt + tokens.output,
    }
    response = {"id": f"resp_{tag}_{number}", "object": "response", "model": model, "status": "in_progress"}
    yield {"type": "response.created", "response": response | {"output": []}}
    for index, item in enumerate(items):
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    whole = response | {"status": "completed", "output": items, "usage": usage}
    yield {"type": "response.completed", "response": whole}


def _pieces(text: str) -> list[str]:
    """Cut a text as a model's tokens would."""
    return [text[start : start + 20] for start in range(0, len(text), 20)] or [""]
