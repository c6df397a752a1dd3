"""What the tests of agents share: a client behind the gateway's socket, and scripts as values."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from refcompare.agents.model.door import Upstream
from refcompare.agents.model.gateway import Gateway, GatewayHandle
from refcompare.agents.model.prices import Price, PriceTable
from refcompare.agents.model.script import Script, parse_script
from refcompare.agents.model.scripted import ScriptedModel
from refcompare.agents.model.wire import Api
from refcompare.agents.programs.claude import ClaudeAgent
from refcompare.agents.programs.codex import CodexAgent
from refcompare.agents.sandbox.boundary import Boundary, find_boundary, workspace_owner
from refcompare.errors import EnvironmentFailure

KEY = "sk-marker-8d1f0b7a-the-real-key"
"""The key that must never be seen inside."""

PRICES = PriceTable({"scripted-1": Price(input=10, output=100, cache_read=1, cache_write=20)}, "2026-01-01")
"""What the scripted model costs, in US dollars per million tokens."""


def script(*turns: Mapping[str, Any], **more: Any) -> Script:
    return parse_script({"turns": list(turns), **more})


def says(text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, **more}


@contextmanager
def model_behind_gateway(
    *turns: Mapping[str, Any], usd: float | None = None, prices: PriceTable = PRICES
) -> Iterator[tuple[Gateway, ScriptedModel]]:
    """Give a gateway in both wire formats to a scripted model, which costs something."""
    with ScriptedModel(script(*turns)) as model:
        upstreams = [
            Upstream(Api.ANTHROPIC, model.url, KEY),
            Upstream(Api.OPENAI, f"{model.url}/v1", KEY),
        ]
        with Gateway(upstreams, usd=usd, prices=prices) as gateway:
            yield gateway, model


@dataclass
class Answer:
    """A response as a client inside would get it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = self.body.decode().splitlines()
        return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


@dataclass
class Client:
    """Speaks HTTP through a Unix socket, as what is forwarded from a sandbox does."""

    path: Path
    headers: Mapping[str, str] = field(default_factory=dict)

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("gateway", timeout=20)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(20)
        connection.sock.connect(os.fspath(self.path))
        return connection

    def send(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        connection = self.connect()
        try:
            connection.request(
                method, path, body, {"Content-Type": "application/json", **self.headers, **(headers or {})}
            )
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def messages(self, *said: Any, **more: Any) -> Answer:
        """Ask the Anthropic API, with the turns so far: a user's text and an assistant's in turn."""
        roles = ("user", "assistant")
        messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(said or ("Go.",))]
        body = {"model": "scripted-1", "max_tokens": 100, "messages": messages, "tools": [{"name": "Read"}]}
        return self.send("POST", "/v1/messages?beta=true", json.dumps(body | more).encode())

    def responses(self, *items: Any, **more: Any) -> Answer:
        """Ask the OpenAI API, with the items of a conversation."""
        body = {
            "model": "scripted-1",
            "input": list(items) or [{"role": "user", "content": "Go."}],
            "tools": [{"type": "function", "name": "exec_command"}],
        }
        return self.send("POST", "/v1/responses", json.dumps(body | more).encode())


def client_of(handle: GatewayHandle, **headers: str) -> Client:
    return Client(handle.socket, headers)


REQUIRED = os.environ.get("REFCOMPARE_REQUIRE_AGENTS") == "1"
"""Whether a machine that cannot run agents fails the tests, rather than skip them."""


def boundary_or_skip(kind: str = "bubblewrap") -> Boundary:
    """Give a boundary of this machine."""
    try:
        return find_boundary(kind)
    except EnvironmentFailure as failure:
        if REQUIRED:
            raise
        pytest.skip(f"no sandbox here: {failure}")


def fetched_or_skip(agent: ClaudeAgent | CodexAgent) -> None:
    """See that an agent's program is in the cache, fetching it from npm where it is not."""
    try:
        agent.program()
    except EnvironmentFailure as failure:
        if REQUIRED:
            raise
        pytest.skip(f"no {agent.name} here: {failure}")


@contextmanager
def workspace_of(files: Mapping[str, str], links: Mapping[str, str] | None = None) -> Iterator[Path]:
    """Give a workspace that agents own, with files and symlinks; beside it there is room for more.

    It is not in pytest's own directory, which other users cannot enter.
    """
    base = Path(tempfile.mkdtemp(prefix="refcompare-test-"))
    try:
        base.chmod(0o755)
        workspace = base / "workspace"
        workspace.mkdir()
        for name, text in files.items():
            path = workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name, target in (links or {}).items():
            (workspace / name).symlink_to(target)
        for path in (workspace, *workspace.rglob("*")):
            os.chown(path, *workspace_owner(), follow_symlinks=False)
        yield workspace
    finally:
        shutil.rmtree(base)
