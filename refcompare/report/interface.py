"""What every rendering of a comparison has in common, so that a caller can choose one by its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from refcompare.changes import Comparison
from refcompare.gate import GateResult


@dataclass(frozen=True, slots=True)
class Options:
    """How to render; a format takes what concerns it and leaves the rest.

    ``width`` is in terminal columns, ``colour`` asks for ANSI colours. ``key`` names the
    configuration whose comment this is. ``report_url`` leads to the full report. ``limit``
    is the most characters that a Markdown page may have.
    """

    width: int = 100
    colour: bool = False
    key: str = "default"
    report_url: str | None = None
    limit: int = 65_536


DEFAULTS = Options()


class Renderer(Protocol):
    """One format: values in, text out, the same text for the same values."""

    def __call__(self, comparison: Comparison, gate: GateResult, options: Options = ..., /) -> str:
        """Give the whole page, ending in a line end."""
