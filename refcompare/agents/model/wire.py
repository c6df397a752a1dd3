"""What is said between an agent and its model: Anthropic Messages and OpenAI Responses, read as it passes.

Nothing here changes a request or a response. Both sides are hostile input (the agent's side is
written by whatever runs in the sandbox), so every reader copes with any JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from refcompare.results import JSON

EVENT_BYTES = 16 * 1024 * 1024
"""The largest server-sent event that is read; a larger one leaves a response without known usage."""


class Api(StrEnum):
    """Whose wire format: Anthropic's Messages or OpenAI's Responses."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one response, each counted once: what came from a cache is not ``input``.

    ``at_list_price`` is False where the vendor charges something else than its standard price per
    token: another tier or region, a tool of its own, a cache that is kept longer.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_long: int = 0
    at_list_price: bool = True

    @property
    def prompt(self) -> int:
        """All tokens of the prompt."""
        return self.input + self.cache_read + self.cache_write + self.cache_write_long


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call as the model asked for it."""

    id: str
    name: str
    input: JSON


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What was given back to the model for a call. OpenAI's format knows no error flag: False there."""

    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """What one request says.

    ``answered`` counts the model's turns that its conversation holds. ``refused`` is why it may not
    pass: it asks the vendor to reach out for the agent, which would be a way out of the sandbox.
    """

    model: str | None
    answered: int = 0
    results: Mapping[str, ToolResult] = field(default_factory=dict)
    streams: bool = False
    refused: str | None = None
    at_list_price: bool = True
    has_tools: bool = True


def read_request(api: Api, body: bytes) -> RequestFacts:
    """Read a request's body. Raises ValueError for one that is not a JSON object."""
    try:
        request = json.loads(body)
    except RecursionError as error:
        raise ValueError("the request is nested too deeply") from error
    if not isinstance(request, dict):
        raise ValueError("the request is not a JSON object")
    return _anthropic_request(request) if api is Api.ANTHROPIC else _openai_request(request)


def error_body(api: Api, kind: str, message: str) -> dict[str, JSON]:
    """Give an error as the API would shape it; ``kind`` is a type such as ``invalid_request_error``."""
    if api is Api.ANTHROPIC:
        return {"type": "error", "error": {"type": kind, "message": message}}
    return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


# Tools that run where the agent runs, by how their type starts. Every other type is one that the
# vendor's own machines run: web search, fetching, code execution, connectors.
_OWN_TOOLS = {
    Api.ANTHROPIC: ("custom", "bash_", "text_editor_", "memory_", "tool_search_tool_"),
    Api.OPENAI: ("function", "custom", "local_shell", "apply_patch", "tool_search"),
}
_MODEL_ITEMS = ("reasoning", "compaction")


def _refused_tools(api: Api, tools: object) -> Iterator[str]:
    for tool in _dicts(tools):
        kind = tool.get("type")
        if kind == "namespace" and api is Api.OPENAI:
            yield from _refused_tools(api, tool.get("tools"))
        elif kind is None and api is Api.ANTHROPIC:
            continue
        elif not isinstance(kind, str) or not kind.startswith(_OWN_TOOLS[api]):
            yield f"a tool that the vendor runs ({str(kind)[:60]!r})"


def _anthropic_request(request: dict[str, Any]) -> RequestFacts:
    messages = _dicts(request.get("messages"))
    results: dict[str, ToolResult] = {}
    reasons = list(_refused_tools(Api.ANTHROPIC, request.get("tools")))
    if request.get("mcp_servers"):
        reasons.append("MCP servers")
    if request.get("container"):
        reasons.append("a container of the vendor's")
    for message in messages:
        for block in _blocks(message.get("content")):
            if block.get("type") == "tool_result":
                text, is_error = _text_of(block.get("content")), block.get("is_error") is True
                results.setdefault(str(block.get("tool_use_id")), ToolResult(text, is_error))
            for part in (block, *_blocks(block.get("content"))):
                source = part.get("source")
                if isinstance(source, dict) and source.get("type") not in ("base64", "text", "content"):
                    reasons.append("a file that the vendor would fetch")
    return RequestFacts(
        model=_string(request.get("model")),
        answered=sum(message.get("role") == "assistant" for message in messages),
        results=results,
        streams=request.get("stream") is True,
        refused=reasons[0] if reasons else None,
        at_list_price=request.get("speed") in (None, "standard"),
        has_tools=bool(request.get("tools")),
    )


def _openai_request(request: dict[str, Any]) -> RequestFacts:
    items = _dicts(request.get("input"))
    results: dict[str, ToolResult] = {}
    reasons = list(_refused_tools(Api.OPENAI, request.get("tools")))
    for name in ("background", "conversation", "previous_response_id", "prompt"):
        if request.get(name):
            reasons.append(f"state that the vendor keeps ({name})")
    answered, by_model, offered = 0, False, bool(request.get("tools"))
    for item in items:
        kind = item.get("type", "message")
        if isinstance(kind, str) and kind.endswith("_output"):
            text = _text_of(item.get("output"))
            results.setdefault(str(item.get("call_id")), ToolResult(text))
        if kind == "additional_tools":
            offered = True
            reasons += _refused_tools(Api.OPENAI, item.get("tools"))
        for part in (*_blocks(item.get("content")), *_blocks(item.get("output"))):
            if any(_is_remote(part.get(name)) for name in ("image_url", "file_url", "file_id")):
                reasons.append("a file that the vendor would fetch")
        was, by_model = by_model, _is_models(item, kind)
        answered += by_model and not was
    return RequestFacts(
        model=_string(request.get("model")),
        answered=answered,
        results=results,
        streams=request.get("stream") is True,
        refused=reasons[0] if reasons else None,
        at_list_price=request.get("service_tier") in (None, "auto", "default")
        and not any(request.get(name) for name in ("prompt_cache_retention", "prompt_cache_options")),
        has_tools=offered,
    )


def _is_models(item: Mapping[str, Any], kind: object) -> bool:
    """Whether an item of a conversation is the model's own."""
    if not isinstance(kind, str):
        return False
    return kind.endswith("_call") or kind in _MODEL_ITEMS or item.get("role") == "assistant"


def _is_remote(value: object) -> bool:
    """Whether a part names something to fetch; pictures and files are sent as ``data:`` URLs."""
    if isinstance(value, dict):
        return _is_remote(value.get("url"))
    return value is not None and not (isinstance(value, str) and value.startswith("data:"))


class ResponseReader:
    """Reads a response while it passes, streamed or whole: model, tokens, tool calls, an error.

    ``tokens`` is None until the API has said what was used; ``complete`` once it has said all.
    """

    def __init__(self, api: Api, *, streams: bool) -> None:
        self.model: str | None = None
        self.tokens: Tokens | None = None
        self.complete = False
        self.error: str | None = None
        self.uses: list[ToolUse] = []
        self._api = api
        self._streams = streams
        self._pending = bytearray()
        self._data: list[bytes] = []
        self._too_long = False
        self._usage: dict[str, Any] = {}
        self._open: dict[str, tuple[dict[str, Any], list[str]]] = {}

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the body, however they are cut."""
        if self._too_long:
            return
        self._pending += chunk
        if self._streams:
            *lines, rest = bytes(self._pending).split(b"\n")
            self._pending = bytearray(rest)
            for line in lines:
                self._line(line.rstrip(b"\r"))
        self._too_long = len(self._pending) > EVENT_BYTES

    def finish(self) -> None:
        """Take the end of the body."""
        if self._too_long:
            return
        if self._streams:
            self._line(bytes(self._pending).rstrip(b"\r"))
            self._line(b"")
            return
        message = _object(bytes(self._pending))
        if self._api is Api.ANTHROPIC:
            self._anthropic_message(message)
        else:
            self._openai_response(message)

    def _line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        elif not line and self._data:
            event = _object(b"\n".join(self._data))
            self._data = []
            if self._api is Api.ANTHROPIC:
                self._anthropic_event(event)
            else:
                self._openai_event(event)

    def _anthropic_event(self, event: dict[str, Any]) -> None:
        index = str(event.get("index"))  # whatever it is
        match event.get("type"):
            case "message_start":
                message = _dict(event.get("message"))
                self.model = _string(message.get("model"))
                self._count(message.get("usage"))
            case "content_block_start":
                self._open[index] = (_dict(event.get("content_block")), [])
            case "content_block_delta":
                delta = _dict(event.get("delta"))
                if delta.get("type") == "input_json_delta" and index in self._open:
                    self._open[index][1].append(str(delta.get("partial_json", "")))
            case "content_block_stop":
                block, pieces = self._open.pop(index, ({}, []))
                self._anthropic_use(block, "".join(pieces))
            case "message_delta":
                self._count(event.get("usage"))
            case "message_stop":
                self.complete = True
            case "error":
                self._fail(event.get("error"))

    def _anthropic_message(self, message: dict[str, Any]) -> None:
        if message.get("type") == "error":
            self._fail(message.get("error"))
            return
        self.model = _string(message.get("model"))
        for block in _blocks(message.get("content")):
            self._anthropic_use(block, "")
        self._count(message.get("usage"))
        # Counting tokens is free and answers with nothing but their number.
        self.complete = message.get("type") == "message" or "input_tokens" in message

    def _anthropic_use(self, block: Mapping[str, Any], pieces: str) -> None:
        if block.get("type") == "tool_use":
            given = _parsed(pieces) if pieces else block.get("input")
            self.uses.append(ToolUse(str(block.get("id")), str(block.get("name")), given))

    def _openai_event(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "response.output_item.done":
                self._openai_use(_dict(event.get("item")))
            case "response.completed" | "response.incomplete" | "response.failed":
                self._openai_response(_dict(event.get("response")), used=False)
            case "error":
                self._fail(event.get("error") or event)

    def _openai_response(self, response: dict[str, Any], *, used: bool = True) -> None:
        if response.get("error"):
            self._fail(response["error"])
        self.model = _string(response.get("model"))
        for item in _dicts(response.get("output")) if used else []:
            self._openai_use(item)
        usage = response.get("usage")
        if isinstance(usage, dict):
            tokens = _openai_tokens(usage)
            listed = response.get("service_tier") in (None, "auto", "default")
            self.tokens = replace(tokens, at_list_price=tokens.at_list_price and listed)
            self.complete = True

    def _openai_use(self, item: Mapping[str, Any]) -> None:
        kind = item.get("type")
        if isinstance(kind, str) and kind.endswith("_call") and item.get("call_id"):
            arguments = item.get("arguments")
            given = (
                _parsed(arguments) if isinstance(arguments, str) else item.get("input", item.get("action"))
            )
            name = _string(item.get("name")) or kind.removesuffix("_call")
            self.uses.append(ToolUse(str(item["call_id"]), name, given))

    def _count(self, usage: object) -> None:
        if not isinstance(usage, dict):
            return
        # Later counts are of the whole message, and name only what they know better.
        self._usage |= {name: value for name, value in usage.items() if value is not None}
        self.tokens = _anthropic_tokens(self._usage)

    def _fail(self, error: object) -> None:
        said = _dict(error)
        self.error = str(said.get("message") or said.get("type") or error)[:2000]


def _anthropic_tokens(usage: Mapping[str, Any]) -> Tokens:
    created = _dict(usage.get("cache_creation"))
    long = _count_of(created.get("ephemeral_1h_input_tokens"))
    return Tokens(
        input=_count_of(usage.get("input_tokens")),
        output=_count_of(usage.get("output_tokens")),
        cache_read=_count_of(usage.get("cache_read_input_tokens")),
        cache_write=max(_count_of(usage.get("cache_creation_input_tokens")) - long, 0),
        cache_write_long=long,
        at_list_price=usage.get("service_tier") in (None, "standard")
        and usage.get("speed") in (None, "standard")
        and usage.get("inference_geo") != "us"
        and not any(_count_of(number) for number in _dict(usage.get("server_tool_use")).values()),
    )


def _openai_tokens(usage: Mapping[str, Any]) -> Tokens:
    details = _dict(usage.get("input_tokens_details"))
    read, written = _count_of(details.get("cached_tokens")), _count_of(details.get("cache_write_tokens"))
    return Tokens(
        input=max(_count_of(usage.get("input_tokens")) - read - written, 0),
        output=_count_of(usage.get("output_tokens")),
        cache_read=read,
        cache_write=written,
    )


def _text_of(content: object) -> str:
    """Give the text of a tool's result: a string, or blocks of which some hold text."""
    if isinstance(content, str):
        return content
    texts = [block.get("text") for block in _blocks(content)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _parsed(text: str) -> JSON:
    try:
        parsed: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return parsed


def _object(data: bytes) -> dict[str, Any]:
    try:
        return _dict(json.loads(data))
    except (ValueError, RecursionError):
        return {}


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _blocks(content: object) -> list[dict[str, Any]]:
    return _dicts(content)


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _count_of(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
