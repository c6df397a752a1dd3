"""Who works: agents by their specs, each with a way to its model that holds the key and the budget."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Self

from refcompare.agents.model.cassettes import Cassettes, Conversation
from refcompare.agents.model.door import Upstream
from refcompare.agents.model.gateway import Gateway, GatewayHandle, upstream_from_environment
from refcompare.agents.model.wire import Api
from refcompare.agents.programs.interface import Agent, AgentLimits, make_agent
from refcompare.errors import UsageError

DEFAULT_AGENT = "claude"
"""Who works where neither the command line nor the eval says so."""


class ModelCrew:
    """Makes agents, and opens one gateway for all of them when the first needs it. Use it in ``with``.

    ``usd`` is the budget of all trials together in US dollars, None for no limit. ``upstream`` gives a
    model's API; it is this process's environment that names it unless given. ``cassettes`` keep what is said
    to models, or are played instead of asking them. Thread-safe.
    """

    def __init__(
        self,
        *,
        default: str = DEFAULT_AGENT,
        usd: float | None = None,
        upstream: Callable[[Api], Upstream] = upstream_from_environment,
        cassettes: Cassettes | None = None,
    ) -> None:
        self._default = default
        self._usd = usd
        self._upstream = upstream
        self._cassettes = cassettes
        self._agents: dict[str, Agent] = {}
        self._opened = ExitStack()
        self._gateway: Gateway | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    @property
    def spent(self) -> float:
        """US dollars that the trials are known to have cost so far."""
        return 0.0 if self._gateway is None else self._gateway.spent

    def agent(self, spec: str | None) -> Agent:
        """Give an agent that can start. Raises UsageError for a spec that nobody knows, or without a key for
        its model, and EnvironmentFailure where its program cannot be had."""
        name = spec or self._default
        with self._lock:
            if name not in self._agents:
                agent = make_agent(name)
                # What is missing is said before anything runs.
                if agent.api is not None and not self._played:
                    self._upstream(agent.api)
                agent.prepare()
                self._agents[name] = agent
            return self._agents[name]

    @contextmanager
    def door(
        self, agent: Agent, limits: AgentLimits, conversation: Conversation
    ) -> Iterator[GatewayHandle | None]:
        """Open a trial's way to the agent's model; None for an agent that needs none."""
        if agent.api is None:
            yield None
            return
        with self._opened_for(conversation, limits.usd) as handle:
            yield handle

    @contextmanager
    def any_door(self, conversation: Conversation) -> Iterator[GatewayHandle | None]:
        """Open a way to every model that there is a key for; None where there is no key at all."""
        if not self._played and not list(self._upstreams()):
            yield None
            return
        with self._opened_for(conversation, None) as handle:
            yield handle

    @contextmanager
    def _opened_for(self, conversation: Conversation, usd: float | None) -> Iterator[GatewayHandle]:
        record, replay = (None, None) if self._cassettes is None else self._cassettes.open(conversation)
        handle = self._ready().open(usd=usd, record=record, replay=replay)
        try:
            yield handle
        finally:
            handle.close()

    @property
    def _played(self) -> bool:
        return self._cassettes is not None and self._cassettes.played

    def _ready(self) -> Gateway:
        with self._lock:
            if self._gateway is None:
                gateway = Gateway(self._upstreams(), usd=self._usd)
                self._gateway = self._opened.enter_context(gateway)
            return self._gateway

    def _upstreams(self) -> Iterator[Upstream]:
        """Give the APIs that there is a key for: a later agent may need another one than the first."""
        for api in () if self._played else Api:
            try:
                yield self._upstream(api)
            except UsageError:
                continue
