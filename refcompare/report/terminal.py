"""A comparison for a person at a terminal: the headline, the categories, the changed rows. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from refcompare.changes import CategoryRow, Change, Comparison
from refcompare.gate import GateResult
from refcompare.report import words
from refcompare.report.escape import one_line
from refcompare.report.interface import DEFAULTS, Options
from refcompare.report.layout import MIN_WIDTH, Ink, column_width, fact_lines, table, wrap
from refcompare.report.metrics import metric_blocks

_NARROW = 88
"""Below this many columns the category goes under the test's id rather than beside it."""

_TONES = {"success": words.Tone.GOOD, "failure": words.Tone.BAD, "error": words.Tone.DOUBTFUL}


def render(comparison: Comparison, gate: GateResult, options: Options = DEFAULTS, /) -> str:
    """Give the page. Whatever tests, candidates and refs hold, it prints harmlessly."""
    width, ink = max(options.width, MIN_WIDTH), Ink(colour=options.colour)
    blocks = [
        ink.bold(wrap(words.headline(comparison), width)),
        _categories(comparison),
        _rows(comparison, width, ink),
        *metric_blocks(comparison.trials, width, ink),
        _arms(comparison),
        "\n".join(_notes(comparison, width)),
        ink.tone(wrap(gate.sentence, width), _TONES[gate.conclusion]),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _categories(comparison: Comparison) -> str:
    if not comparison.categories:
        return ""
    columns = words.category_columns(comparison)
    rows = [_category(row, columns, comparison) for row in comparison.categories]
    if len(rows) > 1:
        rows.append(_category(words.totals(comparison), columns, comparison))
    return table(rows, ["category", *columns.values()])


def _category(row: CategoryRow, columns: dict[str, str], comparison: Comparison) -> list[str]:
    name = one_line(row.category, 40) or "(none)"
    return [name, *(words.category_cell(row, column, comparison) for column in columns)]


def _rows(comparison: Comparison, width: int, ink: Ink) -> str:
    changes = words.changed_rows(comparison)
    if not changes:
        return ""
    narrow = width < _NARROW
    kinds = [_stacked(change, 12 if narrow else 22) for change in changes]
    tests = [wrap(one_line(change.test_id, 120) or "(none)", 20 if narrow else 32) for change in changes]
    categories = [wrap(one_line(change.category, 60), 20) for change in changes]
    if narrow:
        tests = [f"{test}\n{ink.dim(category)}" for test, category in zip(tests, categories, strict=True)]
    columns = {"change": kinds, "test": tests} | ({} if narrow else {"category": categories})
    taken = sum(column_width(title, cells) for title, cells in columns.items())
    columns["change"] = [
        ink.tone(cell, words.tone(change.kind)) for cell, change in zip(kinds, changes, strict=True)
    ]
    told = max(width - taken, 20)
    columns["what happened"] = ["\n".join(_told(change, told, ink)) for change in changes]
    return table(zip(*columns.values(), strict=True), list(columns))


def _stacked(change: Change, width: int) -> str:
    return "\n".join(wrap(kind.value, width) for kind in change.kinds)


def _told(change: Change, width: int, ink: Ink) -> Iterator[str]:
    yield wrap(words.transition(change), width)
    yield from fact_lines(words.facts(change), width, ink, limit=240)


def _arms(comparison: Comparison) -> str:
    base = words.arm_columns(comparison.base, comparison.base_run)
    head = words.arm_columns(comparison.head, comparison.head_run)
    rows = [
        [title, one_line(base.get(title, ""), 40), one_line(head.get(title, ""), 40)]
        for title in dict.fromkeys([*base, *head])
    ]
    return table(rows, ["", comparison.base.name, comparison.head.name])


def _notes(comparison: Comparison, width: int) -> Iterator[str]:
    for note in comparison.notes:
        yield wrap(f"note: {one_line(note)}", width, "  ")
