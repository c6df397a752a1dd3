"""What a trial's requests used and cost, and when they have used up what they may."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from refcompare.agents.model.prices import PriceTable
from refcompare.agents.model.wire import RequestFacts, ResponseReader, Tokens, ToolResult, ToolUse
from refcompare.agents.programs.trajectory import Ending, Usage

BYTES_PER_TOKEN = 8
"""More than any tokenizer makes of a request on average, so that an estimate of its cost by this is low."""

_KEPT = 100
_RESULT_CHARACTERS = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limit:
    """What one trial may use: US dollars, and model requests that are answered."""

    usd: float | None = None
    turns: int | None = None


class Budget:
    """What all trials of a run may cost together, in US dollars. Thread-safe."""

    def __init__(self, usd: float | None = None) -> None:
        self.usd = usd
        self.spent = 0.0
        self.reserved = 0.0
        self.lock = threading.Lock()


class Ledger:
    """One trial's account. Thread-safe.

    A request is let in while what was spent, what the requests under way are expected to cost at
    the least, and its own least cost are within the budgets. So a trial can exceed its budget by
    no more than the output of the responses under way.
    """

    def __init__(self, prices: PriceTable, limit: Limit, budget: Budget) -> None:
        self.ending: Ending | None = None
        self.refusals: list[str] = []
        self.errors: list[str] = []
        self.on_stop: Callable[[], object] = lambda: None
        self._prices = prices
        self._limit = limit
        self._budget = budget
        self._spent = 0.0
        self._reserved = 0.0
        self._all_known = True
        self._tokens: list[Tokens] = []
        self._requests = 0
        self._turns = 0
        self._models: Counter[str] = Counter()
        self._uses: dict[str, ToolUse] = {}
        self._results: dict[str, ToolResult] = {}
        # One lock for all trials, since their budget is one.
        self._lock = budget.lock

    def cap_turns(self, turns: int | None) -> None:
        """Set how many model requests are answered."""
        with self._lock:
            self._limit = Limit(self._limit.usd, turns)

    def refuse(self, model: str | None, size: int, *, free: bool) -> str | None:
        """Say why a request of ``size`` bytes may not pass, or None where it may."""
        with self._lock:
            said = None if free else self._exceeds(model, size)
        if self.ending is not None:
            self.on_stop()
        return said

    def _exceeds(self, model: str | None, size: int) -> str | None:
        if self._limit.turns is not None and self._turns >= self._limit.turns:
            self.ending = self.ending or Ending.TURNS
            return f"the trial's {self._limit.turns} turns are used up"
        if self._limit.usd is None and self._budget.usd is None:
            return None
        least = self._least(model, size)
        if least is None:
            return (
                f"there is a budget in US dollars, and the price of {model!r} is not known: "
                "give a model of the price table, or no budget"
            )
        if self._limit.usd is not None and self._spent + self._reserved + least > self._limit.usd:
            self.ending = Ending.MONEY
            return f"the trial's budget of {self._limit.usd:g} US dollars is used up"
        total = self._budget.spent + self._budget.reserved + least
        if self._budget.usd is not None and total > self._budget.usd:
            self.ending = Ending.MONEY
            return f"the run's budget of {self._budget.usd:g} US dollars is used up"
        return None

    def _least(self, model: str | None, size: int) -> float | None:
        """Give what a request costs at the least: all of it in the vendor's cache, one token out."""
        count = size // BYTES_PER_TOKEN
        cached = self._prices.cost(model, Tokens(cache_read=count, output=1))
        return cached if cached is not None else self._prices.cost(model, Tokens(input=count, output=1))

    @contextmanager
    def reserved(self, model: str | None, size: int, *, free: bool) -> Iterator[None]:
        """Count a request's least cost as spent while it is under way."""
        least = 0.0 if free else self._least(model, size) or 0.0
        self._reserve(least)
        try:
            yield
        finally:
            self._reserve(-least)

    def _reserve(self, usd: float) -> None:
        with self._lock:
            self._reserved += usd
            self._budget.reserved += usd

    def charge(self, facts: RequestFacts, reader: ResponseReader, status: int, *, free: bool) -> None:
        """Enter a response, whole or broken off."""
        if free:
            return
        if reader.error is not None or status >= 400:
            self.note_error(f"{status}: {reader.error or 'no reason given'}")
        with self._lock:
            self._requests += 1
            for use in reader.uses:
                self._uses.setdefault(use.id, use)
            if status >= 400:
                return
            self._turns += 1
            # The model that answered, where the API says it, and else the one that was asked for.
            model = reader.model or facts.model
            self._models[model or ""] += 1
            cost = None
            if reader.tokens is not None:
                self._tokens.append(reader.tokens)
                cost = self._prices.cost(model, reader.tokens)
            if cost is None or not reader.complete or not facts.at_list_price:
                self._all_known = False
            self._spent += cost or 0.0
            self._budget.spent += cost or 0.0

    def note_results(self, results: Mapping[str, ToolResult]) -> None:
        """Keep what the model was given for its calls, as it was first given; of a long text the start."""
        with self._lock:
            for call, result in results.items():
                # Nothing is kept of what no model asked for: there would be no end to it.
                if call in self._uses and call not in self._results:
                    self._results[call] = replace(result, text=result.text[:_RESULT_CHARACTERS])

    def note_refusal(self, said: str) -> None:
        """Keep what was refused."""
        with self._lock:
            del self.refusals[_KEPT - 1 :]  # the last of many is worth more than the hundredth
            self.refusals.append(said)

    def note_error(self, said: str) -> None:
        """Keep what went wrong."""
        with self._lock:
            del self.errors[_KEPT - 1 :]  # the last of many is worth more than the hundredth
            self.errors.append(said)

    @property
    def usage(self) -> Usage:
        """What was used, None for what the API never said."""
        with self._lock:
            if not self._tokens:
                return Usage(requests=self._requests)
            return Usage(
                input_tokens=sum(tokens.input for tokens in self._tokens),
                output_tokens=sum(tokens.output for tokens in self._tokens),
                cache_read_tokens=sum(tokens.cache_read for tokens in self._tokens),
                cache_write_tokens=sum(t.cache_write + t.cache_write_long for t in self._tokens),
                requests=self._requests,
            )

    @property
    def cost(self) -> float | None:
        """US dollars, or None where not all of it is known."""
        with self._lock:
            return self._spent if self._all_known else None

    @property
    def model(self) -> str | None:
        """The model that answered most."""
        with self._lock:
            return self._models.most_common(1)[0][0] or None if self._models else None

    def uses(self) -> tuple[ToolUse, ...]:
        """Give the model's tool calls."""
        with self._lock:
            return tuple(self._uses.values())

    def result(self, call: str) -> ToolResult | None:
        """Give the result of a call."""
        with self._lock:
            return self._results.get(call)
