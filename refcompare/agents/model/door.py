"""What serves one trial's socket: each request is read, refused or passed on, and counted."""

from __future__ import annotations

import asyncio
import json
import os
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

from refcompare.agents.model.cassettes import Exchange, Player, Recorder, digest_of
from refcompare.agents.model.ledger import Ledger
from refcompare.agents.model.wire import Api, RequestFacts, ResponseReader, error_body, read_request
from refcompare.agents.programs.redaction import Redactor
from refcompare.errors import UsageError

REQUEST_BYTES = 32 * 1024 * 1024
RESPONSE_BYTES = 128 * 1024 * 1024
ERROR_BYTES = 1024 * 1024
CONCURRENT = 16
"""How many requests of one trial may be under way; more wait."""

_PATHS: Mapping[Api, Mapping[str, str]] = {
    # inside -> below the upstream's address
    Api.ANTHROPIC: {"/v1/messages": "/v1/messages", "/v1/messages/count_tokens": "/v1/messages/count_tokens"},
    Api.OPENAI: {"/v1/responses": "/responses"},
}
_FREE = "/v1/messages/count_tokens"
_QUERIES = ("", "beta=true")
# What an API client says of itself and of the request. Nothing else passes: no key, no cookie, no
# account, nothing about this one connection.
_PASSED = (
    "accept", "content-type", "user-agent", "anthropic-version", "anthropic-beta", "openai-beta",
    "originator", "session-id", "thread-id", "x-app", "x-client-request-id",
)  # fmt: skip
_PASSED_FAMILIES = ("x-stainless-", "x-codex-", "x-openai-internal-codex-", "x-claude-code-")
_RETURNED = ("content-type", "retry-after", "retry-after-ms", "x-should-retry", "request-id", "x-request-id")


@dataclass(frozen=True, slots=True)
class Upstream:
    """A model's API: its wire format, its address (``https://HOST[/PREFIX]``) and the key for it."""

    api: Api
    address: str
    key: str = field(repr=False)

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.address)
        here = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
        if not (parts.scheme == "https" and parts.hostname) and not here:
            raise UsageError(
                f"The address of the model's API, {self.address!r}, does not start with https://; "
                "a key is not sent in the clear."
            )

    def headers(self) -> dict[str, str]:
        """Give the headers that authorise a request."""
        if self.api is Api.ANTHROPIC:
            return {"x-api-key": self.key}
        return {"authorization": f"Bearer {self.key}"}


class _Refused(Exception):
    """A request that does not pass: the status, type and message that answer it."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


class Door:
    """One socket. All of it runs on the gateway's loop; ``replay`` answers instead of an upstream."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        upstreams: Mapping[Api, Upstream],
        ledger: Ledger,
        record: Recorder | None,
        replay: Player | None,
    ) -> None:
        self._session = session
        self._upstreams = upstreams
        self._ledger = ledger
        self._record = record
        self._replay = replay
        self._under_way = asyncio.Semaphore(CONCURRENT)
        self._keeping: list[asyncio.Future[None]] = []

    async def serve(self, path: Path) -> None:
        """Listen on a Unix socket at ``path``."""
        app = web.Application(client_max_size=REQUEST_BYTES)
        app.router.add_route("*", "/{anything:.*}", self._answer)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1, auto_decompress=False
        )
        await self._runner.setup()
        await web.UnixSite(self._runner, str(path)).start()

    async def close(self) -> None:
        """End the socket, and what is under way on it. Raises what keeping a conversation raised."""
        await self._runner.cleanup()
        await asyncio.gather(*self._keeping)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        api = _api_of(request)
        async with self._under_way:  # so that no more bodies than that are in memory
            try:
                path = self._path(request, api)
                body = await _body(request)
                facts = _facts(api, body)
                self._ledger.note_results(facts.results)
                refused = self._ledger.refuse(facts.model, len(body), free=path == _FREE)
                if refused is not None:
                    raise _Refused(400, "invalid_request_error", refused)
            except _Refused as refusal:
                self._ledger.note_refusal(str(refusal))
                return _error(api, refusal.status, refusal.kind, str(refusal))
            if self._replay is not None:
                return await self._play(request, api, path, facts, body)
            return await self._pass(request, self._upstreams[api], path, facts, body)

    def _path(self, request: web.Request, api: Api) -> str:
        """Give the path of a request that may pass."""
        # As it came: not decoded, not normalised, and with the host that a client of a proxy would name.
        path = request.raw_path.partition("?")[0]
        known = self._replay is not None or api in self._upstreams
        if not known or request.method != "POST" or path not in _PATHS[api]:
            said = f"{request.method} {path[:200]}"
            raise _Refused(
                404, "not_found_error", f"the gateway lets only requests to the model pass, not {said}"
            )
        if request.rel_url.raw_query_string not in _QUERIES:
            raise _Refused(403, "permission_error", "the gateway does not let this query pass")
        if request.headers.get("content-encoding", "identity") != "identity":
            raise _Refused(
                415, "invalid_request_error", "the gateway reads only bodies that are not compressed"
            )
        return path

    async def _pass(
        self, request: web.Request, upstream: Upstream, path: str, facts: RequestFacts, body: bytes
    ) -> web.StreamResponse:
        free = path == _FREE
        with self._ledger.reserved(facts.model, len(body), free=free):
            address = upstream.address + _PATHS[upstream.api][path]
            query = request.rel_url.raw_query_string
            try:
                async with self._session.post(
                    f"{address}?{query}" if query else address,
                    data=body,
                    headers=_passed(request) | upstream.headers(),
                    allow_redirects=False,
                    # A proxy may be needed to get out, and never to reach a model on this machine.
                    proxy=_proxy(address),
                ) as response:
                    if response.status >= 400:
                        return await self._hand_on_error(upstream, path, facts, body, response)
                    return await self._stream(request, upstream.api, path, facts, body, response)
            except (aiohttp.ClientError, TimeoutError) as error:
                said = f"the model's API could not be reached: {type(error).__name__}: {error}"
                self._ledger.note_error(said)
                return _error(upstream.api, 502, "api_error", said[:500])

    async def _hand_on_error(
        self,
        upstream: Upstream,
        path: str,
        facts: RequestFacts,
        body: bytes,
        response: aiohttp.ClientResponse,
    ) -> web.Response:
        """Hand an error on whole, without the key, which an API may repeat in one."""
        data = bytearray()
        async for chunk in response.content.iter_any():
            data += chunk[: ERROR_BYTES - len(data)]
            if len(data) == ERROR_BYTES:
                break
        text = Redactor([upstream.key]).text(data.decode("utf-8", "replace"))
        reader = ResponseReader(upstream.api, streams=False)
        reader.feed(text.encode())
        reader.finish()
        self._ledger.charge(facts, reader, response.status, free=path == _FREE)
        self._keep(path, facts, body, response, text.encode())
        return web.Response(status=response.status, body=text.encode(), headers=_returned(response))

    def _keep(
        self, path: str, facts: RequestFacts, body: bytes, response: aiohttp.ClientResponse, data: bytes
    ) -> None:
        if self._record is not None:
            exchange = _exchange(path, facts, body, response, data)
            loop = asyncio.get_running_loop()
            self._keeping.append(loop.run_in_executor(None, self._record.keep, exchange))

    async def _stream(
        self,
        request: web.Request,
        api: Api,
        path: str,
        facts: RequestFacts,
        body: bytes,
        response: aiohttp.ClientResponse,
    ) -> web.StreamResponse:
        """Hand a response on as it comes, reading it on the way."""
        reader = ResponseReader(api, streams="event-stream" in response.content_type)
        answer = web.StreamResponse(status=response.status, headers=_returned(response))
        kept, size, whole = bytearray(), 0, False
        try:
            await answer.prepare(request)
            async for chunk in response.content.iter_any():
                size += len(chunk)
                reader.feed(chunk)
                if self._record is not None:
                    kept += chunk
                if size > RESPONSE_BYTES:
                    self._ledger.note_error("the model's API answered with too much")
                    break
                await answer.write(chunk)
            else:
                whole = True
        except aiohttp.ClientPayloadError as error:
            self._ledger.note_error(f"the model's API broke off: {error}")
        finally:
            # Also where the agent went away in the middle: it was charged for all the same. Some do so
            # as soon as they have read the last event, without waiting for the end.
            reader.finish()
            self._ledger.charge(facts, reader, response.status, free=path == _FREE)
            if whole or reader.complete:
                self._keep(path, facts, body, response, bytes(kept))
        if not whole:
            if request.transport is not None:
                request.transport.abort()
            return answer
        await answer.write_eof()
        return answer

    async def _play(
        self, request: web.Request, api: Api, path: str, facts: RequestFacts, body: bytes
    ) -> web.StreamResponse:
        assert self._replay is not None
        exchange = self._replay.answer(path, facts.answered, facts.has_tools, body)
        if exchange is None:
            turn = facts.answered + 1
            said = f"the cassette has no answer for turn {turn} of this conversation: record it anew"
            self._ledger.note_error(said)
            return _error(api, 400, "invalid_request_error", said)
        data = exchange.body.encode()
        reader = ResponseReader(api, streams="event-stream" in exchange.content_type)
        reader.feed(data)
        reader.finish()
        self._ledger.charge(facts, reader, exchange.status, free=path == _FREE)
        answer = web.StreamResponse(status=exchange.status, headers={"Content-Type": exchange.content_type})
        await answer.prepare(request)
        await answer.write(data)
        await answer.write_eof()
        return answer


def _api_of(request: web.Request) -> Api:
    """Tell by its path in whose shape a request wants its answer, errors too."""
    return Api.OPENAI if request.rel_url.raw_path.startswith("/v1/responses") else Api.ANTHROPIC


async def _body(request: web.Request) -> bytes:
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        limit = f"{REQUEST_BYTES // 1024 // 1024} MiB"
        raise _Refused(413, "request_too_large", f"a request has at most {limit}") from None


def _facts(api: Api, body: bytes) -> RequestFacts:
    try:
        facts = read_request(api, body)
    except ValueError as error:
        raise _Refused(400, "invalid_request_error", f"the body cannot be read: {error}") from None
    if facts.refused is not None:
        said = f"the gateway lets nothing pass that reaches out for the agent: this asks for {facts.refused}"
        raise _Refused(403, "permission_error", said)
    return facts


def _error(api: Api, status: int, kind: str, message: str) -> web.Response:
    return web.Response(
        status=status,
        text=json.dumps(error_body(api, kind, message)),
        content_type="application/json",
        headers={"x-should-retry": "false"} if status < 500 else None,
    )


def _passed(request: web.Request) -> dict[str, str]:
    kept = {"accept-encoding": "identity"}
    for name, value in request.headers.items():
        lowered = name.lower()
        if lowered in _PASSED or lowered.startswith(_PASSED_FAMILIES):
            kept[lowered] = value
    return kept


def _returned(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name: response.headers[name] for name in _RETURNED if name in response.headers}


def _proxy(address: str) -> str | None:
    parts = urllib.parse.urlsplit(address)
    if parts.scheme != "https" or urllib.request.proxy_bypass(parts.netloc):
        return None
    return os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY") or None


def _exchange(
    path: str, facts: RequestFacts, body: bytes, response: aiohttp.ClientResponse, data: bytes
) -> Exchange:
    return Exchange(
        path=path,
        answered=facts.answered,
        has_tools=facts.has_tools,
        digest=digest_of(body),
        status=response.status,
        content_type=response.content_type,
        body=data.decode("utf-8", "replace"),
    )
