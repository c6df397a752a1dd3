"""What a response of a model cost, from a dated table of published prices; what is unknown is None."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from refcompare.agents.model.wire import Tokens

_TABLE = Path(__file__).parent / "prices.yaml"
_MILLION = 1_000_000
# Vendors serve a model under its name and under the name with a date, at one price.
_DATED = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens of each kind; a kind whose price is not published is None.

    A request whose prompt has more than ``above`` tokens costs what ``long`` says, all of it.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_long: float | None = None
    above: int | None = None
    long: Price | None = None

    def cost(self, tokens: Tokens) -> float | None:
        """Give US dollars for one response, or None where a kind of token in it has no known price."""
        if self.above is not None and self.long is not None and tokens.prompt > self.above:
            return self.long.cost(tokens)
        total = tokens.input * self.input + tokens.output * self.output
        for count, price in (
            (tokens.cache_read, self.cache_read),
            (tokens.cache_write, self.cache_write),
            (tokens.cache_write_long, self.cache_write_long),
        ):
            if not count:
                continue
            if price is None:
                return None
            total += count * price
        return total / _MILLION


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by model, as of ``checked`` (an ISO date, empty where nobody said).

    ``otherwise`` is the price of every other model: for what costs nothing, whatever it is called.
    """

    prices: Mapping[str, Price] = field(default_factory=dict)
    checked: str = ""
    otherwise: Price | None = None

    def find(self, model: str | None) -> Price | None:
        """Give the price of a model, also for its name with a date; None where it is not in the table."""
        if model is None:
            return self.otherwise
        return self.prices.get(model) or self.prices.get(_DATED.sub("", model), self.otherwise)

    def cost(self, model: str | None, tokens: Tokens) -> float | None:
        """Give US dollars for one response of ``model``; None where that is not known."""
        price = self.find(model)
        if price is None or not tokens.at_list_price:
            return None
        return price.cost(tokens)


FREE = PriceTable(otherwise=Price(0, 0, 0, 0, 0))
"""For models that are scripts: they cost nothing."""


@functools.cache
def published_prices() -> PriceTable:
    """Give the table that ships with refcompare."""
    raw = yaml.safe_load(_TABLE.read_text("utf-8"))
    prices = {str(model): _price(row) for model, row in raw["models"].items()}
    return PriceTable(prices, str(raw["checked"]))


def _price(row: Mapping[str, Any]) -> Price:
    fields = {name: value for name, value in row.items() if name not in ("source", "long")}
    return Price(**fields, long=_price(row["long"]) if "long" in row else None)
