"""Prints a comparison, and writes it beside the results of its arms."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from refcompare import store
from refcompare.changes import Comparison
from refcompare.gate import GateResult
from refcompare.report import json as json_report
from refcompare.report import markdown, terminal
from refcompare.report.interface import Options, Renderer

_RENDERERS: Mapping[str, Renderer] = {
    "table": terminal.render,
    "markdown": markdown.render,
    "json": json_report.render,
}


def write_comparison(directory: Path, comparison: Comparison, result: GateResult) -> None:
    """Write a comparison beside the results of its arms, for scripts and as a comment."""
    store.write_text(directory, store.COMPARISON, json_report.render(comparison, result))
    store.write_text(directory, store.COMMENT, markdown.render(comparison, result))


def print_comparison(
    options: Mapping[str, Any], comparison: Comparison, result: GateResult, out: TextIO
) -> None:
    """Print a comparison in the format that was asked for."""
    out.write(_RENDERERS[options["form"]](comparison, result, render_options(out)))


def render_options(out: TextIO) -> Options:
    """Give the width and colours that suit ``out``: a terminal's own, or 100 plain columns."""
    terminal_like = out.isatty()
    width = shutil.get_terminal_size((100, 40)).columns if terminal_like else 100
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return Options(width=width, colour=terminal_like and not plain)
