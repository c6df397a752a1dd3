"""The only way out of an agent's sandbox: one socket, behind which this process talks to the model.

Every trial has a socket of its own, bound into its sandbox. What comes in is looked at, let pass to
the one upstream or refused, and counted. The key is added here and never enters the sandbox. The
gateway retries nothing: an agent's CLI does that, as it would without refcompare.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from refcompare.agents.model.cassettes import Player, Recorder
from refcompare.agents.model.door import Door, Upstream
from refcompare.agents.model.ledger import Budget, Ledger, Limit
from refcompare.agents.model.loop import LoopThread
from refcompare.agents.model.prices import PriceTable, published_prices
from refcompare.agents.model.wire import Api, ToolResult, ToolUse
from refcompare.agents.programs.trajectory import Ending, Usage
from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.sandbox import UNPRIVILEGED_ID

_CONNECT_SECONDS = 30
_SILENCE_SECONDS = 900
"""How long an upstream may say nothing in the middle of a response, as a model that thinks does."""

_ADDRESSES = {Api.ANTHROPIC: "https://api.anthropic.com", Api.OPENAI: "https://api.openai.com/v1"}
_ADDRESS_VARIABLES = {Api.ANTHROPIC: "ANTHROPIC_BASE_URL", Api.OPENAI: "OPENAI_BASE_URL"}
_KEY_VARIABLES = {Api.ANTHROPIC: "ANTHROPIC_API_KEY", Api.OPENAI: "OPENAI_API_KEY"}


def upstream_from_environment(api: Api, environment: Mapping[str, str] | None = None) -> Upstream:
    """Give the API that this process's own environment names: its key, and its address if one is set.

    Raises UsageError that names the variable where there is no key.
    """
    variables = os.environ if environment is None else environment
    key = variables.get(_KEY_VARIABLES[api], "").strip()
    if not key:
        raise UsageError(
            f"There is no key for the model's API: set {_KEY_VARIABLES[api]}, or run the agent against a "
            "script or a recorded cassette."
        )
    address = variables.get(_ADDRESS_VARIABLES[api], "").strip() or _ADDRESSES[api]
    return Upstream(api, address.rstrip("/"), key)


class GatewayHandle:
    """One trial's way to its model: a socket, and what went through it. Thread-safe.

    ``stopped`` is set once a limit has ended the trial, and ``ending`` says which.
    """

    def __init__(
        self, apis: tuple[Api, ...], directory: Path, ledger: Ledger, close: Callable[[], None]
    ) -> None:
        self.apis = apis
        self.socket = directory / "model.sock"
        self.stopped = threading.Event()
        self._ledger = ledger
        self._close = close

    @property
    def ending(self) -> Ending | None:
        """Why the gateway refuses further requests: ``turns``, ``money``, or None where it does not."""
        return self._ledger.ending

    @property
    def usage(self) -> Usage:
        """The tokens and requests so far, as the API counted them."""
        return self._ledger.usage

    @property
    def cost(self) -> float | None:
        """US dollars so far; None where the price of a response, or what it used, is not known."""
        return self._ledger.cost

    @property
    def model(self) -> str | None:
        """The model that answered most of the requests."""
        return self._ledger.model

    @property
    def refusals(self) -> tuple[str, ...]:
        """What was refused, one sentence each: the first ninety-nine and the last."""
        return tuple(self._ledger.refusals)

    @property
    def errors(self) -> tuple[str, ...]:
        """What the API answered instead of a response, one line each: the first ninety-nine and the last."""
        return tuple(self._ledger.errors)

    def uses(self) -> tuple[ToolUse, ...]:
        """Give the tool calls that the model asked for, in their order."""
        return self._ledger.uses()

    def result(self, call: str) -> ToolResult | None:
        """Give what was sent to the model as the result of a call, by the call's id."""
        return self._ledger.result(call)

    def cap_turns(self, turns: int | None) -> None:
        """Answer no more than so many model requests; for an agent that cannot count them itself."""
        self._ledger.cap_turns(turns)

    def close(self) -> None:
        """End the socket and the requests on it. Safe to call twice."""
        self._close()


class Gateway:
    """Serves trials' sockets from a thread of its own, from ``with`` to its end.

    ``usd`` is the budget of all trials together in US dollars. A price that is not known makes a
    budget unenforceable, so requests to such a model are refused where there is one. ``owner`` is
    the uid that may connect (that of the sandbox's processes on this machine).
    """

    def __init__(
        self,
        upstreams: Iterable[Upstream],
        *,
        usd: float | None = None,
        prices: PriceTable | None = None,
        owner: int | None = None,
    ) -> None:
        self._upstreams = {upstream.api: upstream for upstream in upstreams}
        self._budget = Budget(usd)
        self._prices = published_prices() if prices is None else prices
        root = hasattr(os, "geteuid") and os.geteuid() == 0
        self._owner = owner if owner is not None else UNPRIVILEGED_ID if root else None
        self._open: list[GatewayHandle] = []

    @property
    def spent(self) -> float:
        """US dollars that all trials together are known to have cost so far."""
        return self._budget.spent

    def __enter__(self) -> Self:
        self._loop = LoopThread("gateway")
        self._session = self._loop.run(_session())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in tuple(self._open):
            handle.close()
        self._loop.run(self._session.close())
        self._loop.stop()

    def open(
        self,
        *,
        usd: float | None = None,
        turns: int | None = None,
        record: Recorder | None = None,
        replay: Player | None = None,
    ) -> GatewayHandle:
        """Open a socket for one trial, with a budget in US dollars and a number of model requests.

        ``record`` keeps what passes; ``replay`` answers instead of the upstream, which is not asked.
        Raises EnvironmentFailure where no socket can be made.
        """
        ledger = Ledger(self._prices, Limit(usd, turns), self._budget)
        apis = tuple(Api) if replay is not None else tuple(self._upstreams)
        try:
            # Short, since the path of a socket has at most 107 bytes.
            directory = Path(tempfile.mkdtemp(prefix="refcompare-gw-"))
            directory.chmod(0o711)
        except OSError as error:
            raise EnvironmentFailure(f"No directory for a socket can be made: {error}.") from error
        door = Door(self._session, self._upstreams, ledger, record, replay)
        closed = threading.Event()

        def close() -> None:
            if closed.is_set():
                return
            closed.set()
            try:
                self._loop.run(door.close())
            finally:
                shutil.rmtree(directory, ignore_errors=True)
                with suppress(ValueError):
                    self._open.remove(handle)

        handle = GatewayHandle(apis, directory, ledger, close)
        ledger.on_stop = handle.stopped.set
        self._open.append(handle)
        try:
            self._loop.run(door.serve(handle.socket))
            if self._owner is not None:
                os.chown(handle.socket, self._owner, self._owner)
            handle.socket.chmod(0o600)
        except OSError as error:
            close()
            raise EnvironmentFailure(f"The socket {handle.socket} cannot be made: {error}.") from error
        return handle


async def _session() -> aiohttp.ClientSession:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENCE_SECONDS)
    return aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=True)
