"""Tables, wrapped lines and colours for a terminal. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from tabulate import MIN_PADDING, tabulate

from refcompare.report.escape import one_line
from refcompare.report.words import Fact, Tone

MIN_WIDTH = 60
"""No page is laid out for fewer columns; a narrower terminal wraps it."""

_LEAST = 10
"""Columns that a text gets at least, or else it starts under its label."""

DIM = "2"
BOLD = "1"
_SGR = {Tone.BAD: "31", Tone.DOUBTFUL: "33", Tone.GOOD: "32", Tone.NEUTRAL: "36"}


class Ink:
    """Colours text for a terminal, or leaves it as it is."""

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour

    def tone(self, text: str, tone: Tone) -> str:
        """Colour by how a change is to be taken."""
        return self._paint(text, _SGR[tone])

    def dim(self, text: str) -> str:
        """Set back what is said in passing."""
        return self._paint(text, DIM)

    def bold(self, text: str) -> str:
        """Bring out what is read first."""
        return self._paint(text, BOLD)

    def _paint(self, text: str, code: str) -> str:
        if not self._colour or not text:
            return text
        # Line by line, so that a table can put its own borders and blanks between.
        return "\n".join(f"\x1b[{code}m{line}\x1b[0m" for line in text.split("\n"))


def wrap(text: str, width: int, indent: str = "", *, first: int = 0) -> str:
    """Break one line into lines of at most ``width`` columns; the later ones start with ``indent``.

    ``first`` columns of the first line are taken already.
    """
    if len(text) + first <= width:
        return text
    lines = textwrap.wrap(
        text,
        max(width, len(indent) + _LEAST, first + _LEAST),
        initial_indent=" " * first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    return "\n".join(lines)[first:]


def column_width(title: str, cells: Iterable[str]) -> int:
    """Give what a column of uncoloured cells takes in a table, the blanks before the next one included."""
    widest = max((len(line) for cell in cells for line in cell.split("\n")), default=0)
    return max(len(title) + MIN_PADDING, widest) + 2


def table(rows: Iterable[Sequence[str]], headers: Sequence[str], *, right: Sequence[int] = ()) -> str:
    """Lay out rows of finished text under ``headers``; ``right`` are the columns to align right."""
    align = ["right" if number in right else "left" for number in range(len(headers))]
    return tabulate(list(rows), headers=headers, tablefmt="simple", disable_numparse=True, colalign=align)


def pairs(rows: Iterable[tuple[str, str]], width: int) -> str:
    """Lay out titles and their text in two columns, the text wrapped."""
    found = list(rows)
    title = max((len(name) for name, _ in found), default=0) + 2
    lines = [f"{name:<{title}}{text}" for name, text in found]
    return "\n".join(wrap(line, width, " " * title) for line in lines)


def fact_lines(facts: Iterable[Fact], width: int, ink: Ink, *, limit: int = 300) -> list[str]:
    """Write facts one under the other, their labels set back, made visible, cut and wrapped."""
    lines = []
    for fact in facts:
        label = f"{fact.label}:" if fact.data or fact.text else fact.label
        data = one_line(fact.data, limit)
        if fact.place:
            data = _end_of_path(data, width - len(label) - 1)
        said = " ".join(part for part in (data, fact.text) if part)
        if len(label) + _LEAST > width:
            lines += [ink.dim(wrap(label, width)), wrap(f"  {said}", width, "  ")]
        else:
            lines.append(f"{ink.dim(label)} {wrap(said, width, '  ', first=len(label) + 1)}".rstrip())
    return lines


def _end_of_path(path: str, width: int) -> str:
    """Leave out folders from the left until the path fits; a name that is too long stays whole."""
    if len(path) <= width or "/" not in path:
        return path
    slash = path.find("/", len(path) - width + 1)
    return "…" + path[slash if slash >= 0 else path.rfind("/") :]
