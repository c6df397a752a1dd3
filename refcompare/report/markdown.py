"""A comparison as the comment on a pull request, in GitHub's Markdown. Pure.

GitHub takes 65,536 characters. What does not fit is left out by whole rows and counted, and the
rows that stay are shared fairly: in turn one of each kind of change, and within a kind one of each
category, so that neither a thousand edited tests nor one busy category crowds out the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TypeVar

from refcompare.changes import CategoryRow, Change, Comparison
from refcompare.gate import GateResult, count_kinds
from refcompare.report import words
from refcompare.report.escape import code, code_block, marker
from refcompare.report.interface import DEFAULTS, Options
from refcompare.report.metrics import metric_lines

_SIGNS = {"success": "✅", "failure": "❌", "error": "⚠️"}
_FACT = 240
"""Characters of one fact in a row; the details have more of it."""

_CHEAT = 140
"""Characters of a cheat's code in a row: enough to know it by, since the whole of it stands below."""

_LONG_ROW = 4_000
"""A row that comes out longer (escaping can take nine characters for one) is told in fewer words."""

_ROWS_SHARE = 0.6
"""How much of the room rows are sure of before the details under them take theirs."""

_CATEGORIES = 12
"""Of more categories, those in which nothing changed share one line, so that the rows are not pushed away."""

_WIDEST_ID = 24
"""Characters of a test's id that stay in one line."""

T = TypeVar("T")


def render(comparison: Comparison, gate: GateResult, options: Options = DEFAULTS, /) -> str:
    """Give the comment, its hidden marker first. Text from tests, candidates and refs acts on nothing."""
    start = [
        marker(options.key),
        "",
        _one_line(comparison, gate),
        *_categories(comparison, options.limit // 5),
        *metric_lines(comparison.trials, options.limit // 4),
    ]
    end = [*_notes(comparison, options.limit // 10), *_arms(comparison), "", gate.sentence, *_link(options)]
    # The sentences that count what was left out need room as well.
    room = options.limit - _size([*start, *end]) - 1_000
    changes = words.changed_rows(comparison)
    rendered = _fitting(((change, _row(change)) for change in _fairly(changes)), room)
    sure = _fitting(rendered, int(room * _ROWS_SHARE))
    explained = sorted((change for change, _ in sure if _has_details(change)), key=_order)
    details = _fitting(
        ((change, _details(change)) for change in explained), room - _taken(sure), skipping=True
    )
    shown = sorted(_fitting(rendered, room - _taken(details)), key=lambda pair: _order(pair[0]))
    missing = sum(_has_details(change) for change, _ in shown) - len(details)
    body = [*_rows(shown), *_left_out(changes, [change for change, _ in shown])]
    body += _folded([text for _, text in details], missing)
    return "\n".join([*start, *body, *end]) + "\n"


def _one_line(comparison: Comparison, gate: GateResult) -> str:
    base, head = (code(arm.ref, 80) or "?" for arm in (comparison.base, comparison.head))
    return f"{_SIGNS[gate.conclusion]} **{words.headline(comparison)}** ({base} → {head})"


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    rule = ["---:" if number in right else "---" for number in range(len(headers))]
    return ["", *(f"| {' | '.join(cells)} |" for cells in (headers, rule, *rows))]


def _arrow(text: str) -> str:
    return text.replace(" -> ", " → ")


def _categories(comparison: Comparison, room: int) -> list[str]:
    if not comparison.categories:
        return []
    columns = words.category_columns(comparison)
    # Where there are too many, those in which something happened come first.
    busy = Counter(change.category for change in words.changed_rows(comparison))
    wanted = sorted(comparison.categories, key=lambda row: (-busy[row.category], row.category))
    if len(wanted) > _CATEGORIES:
        wanted = [row for row in wanted if busy[row.category]]
    kept = _fitting(((row, " | ".join(_category(row, columns, comparison))) for row in wanted), room)
    rows = [[text] for _, text in sorted(kept, key=lambda pair: pair[0].category)]
    shown = {row.category for row, _ in kept}
    others = [row for row in comparison.categories if row.category not in shown]
    if others:
        named = words.plural(len(others), "other") if shown else f"{len(others):,} categories"
        rows.append([named, *_category(words.added_up(others), columns, comparison)[1:]])
    if len(comparison.categories) > 1 and shown:
        total = _category(words.totals(comparison), columns, comparison)
        rows.append(["**total**", *(f"**{cell}**" for cell in total[1:])])
    return _table(["category", *columns.values()], rows, right=range(1, len(columns) + 1))


def _category(row: CategoryRow, columns: dict[str, str], comparison: Comparison) -> list[str]:
    name = code(row.category, 60) or "(none)"
    return [name, *(_arrow(words.category_cell(row, column, comparison)) for column in columns)]


# --------------------------------------------------------------------------------- rows


def _order(change: Change) -> tuple[int, str, str]:
    return change.kind.severity, change.category, change.test_id


def _fairly(changes: Sequence[Change]) -> Iterator[Change]:
    """Give one row of each kind in turn, the most severe first, and within a kind one of each category."""
    kinds: dict[str, dict[str, list[Change]]] = {}
    for change in changes:
        kinds.setdefault(change.kind, {}).setdefault(change.category, []).append(change)
    return _in_turn(list(_in_turn(categories.values())) for categories in kinds.values())


def _in_turn(groups: Iterable[Iterable[T]]) -> Iterator[T]:
    missing = object()
    for round_ in zip_longest(*groups, fillvalue=missing):
        for item in round_:
            if item is not missing:
                yield item  # type: ignore[misc]  # the fill value is the only other type


def _fitting(items: Iterable[tuple[T, str]], room: int, *, skipping: bool = False) -> list[tuple[T, str]]:
    """Give the items whose texts fit into ``room`` together.

    The first that does not fit ends them, or is passed over when ``skipping``.
    """
    found = []
    for item, text in items:
        size = _size([text])
        if size <= room:
            room -= size
            found.append((item, text))
        elif not skipping:
            break
    return found


def _taken(items: Iterable[tuple[T, str]]) -> int:
    return _size(text for _, text in items)


def _rows(rows: Sequence[tuple[Change, str]]) -> list[str]:
    if not rows:
        return []
    widest = min(_WIDEST_ID, max(len(change.test_id) for change, _ in rows))
    title = f"| change | {_as_wide_as(widest, 'test')} | what happened |"
    return ["", title, "| --- | --- | --- |", *(text for _, text in rows)]


def _as_wide_as(characters: int, title: str) -> str:
    """Pad a title with blanks that do not break, until its column has room for so much code in one line.

    A browser gives the longest column what it takes from the others, and breaks ids at their hyphens.
    """
    # A character of code takes nearly as much as two blanks.
    blanks = "\N{NO-BREAK SPACE}" * max(0, characters - len(title))
    return f"{blanks}{title}{blanks}"


def _row(change: Change, longest: int = _FACT) -> str:
    kinds = "<br>".join([f"**{change.kind.value}**", *(kind.value for kind in change.also)])
    test = "<br>".join(filter(None, [code(change.test_id, 120) or "(none)", code(change.category, 60)]))
    told = [_arrow(words.transition(change)), *(_fact(fact, longest) for fact in words.facts(change))]
    row = f"| {kinds} | {test} | {'<br>'.join(told)} |"
    return row if len(row) <= _LONG_ROW or longest < _FACT else _row(change, _FACT // 6)


def _fact(fact: words.Fact, longest: int) -> str:
    if fact.label == words.PASSING_CHEAT:
        longest = min(longest, _CHEAT)
    said = " ".join(part for part in (code(fact.data, longest), _arrow(fact.text)) if part)
    return f"{fact.label}: {said}" if said else fact.label


def _left_out(changes: Sequence[Change], shown: Sequence[Change]) -> list[str]:
    """Count the rows that did not fit, by kind."""
    missing = len(changes) - len(shown)
    if not missing:
        return []
    counts = Counter(change.kind for change in changes)
    counts.subtract(change.kind for change in shown)
    verb = "is" if missing == 1 else "are"
    return [
        "",
        f"{words.plural(missing, 'more row')} {verb} left out here: {count_kinds(counts.elements())}.",
    ]


# ------------------------------------------------------------------------------ details


def _has_details(change: Change) -> bool:
    return bool(words.passing_cheats(change)) or any(map(_was_squeezed, words.facts(change)))


def _was_squeezed(fact: words.Fact) -> bool:
    """Whether a row had to cut a text or to put its lines into one."""
    return fact.label != words.PASSING_CHEAT and (len(fact.data) > _FACT or "\n" in fact.data)


def _details(change: Change) -> str:
    lines = [f"**{change.kind.value}** {code(change.test_id, 120)}", ""]
    for exploit in words.passing_cheats(change)[: words.SHOWN_AT_ONCE]:
        name = code(words.exploit_words(exploit), 80)
        lines += [f"{words.PASSING_CHEAT} {name}", "", code_block(exploit.code, "php", lines=30), ""]
    for fact in filter(_was_squeezed, words.facts(change)):
        lines += [fact.label, "", code_block(fact.data, lines=30), ""]
    return "\n".join(lines)


def _folded(details: list[str], missing: int) -> list[str]:
    if not details:
        return []
    rest = [f"The details of {words.plural(missing, 'more row')} are left out here.", ""] if missing else []
    summary = "<details><summary>Code of passing cheats, long messages</summary>"
    return ["", summary, "", *details, *rest, "</details>"]


# ---------------------------------------------------------------------------------- end


def _notes(comparison: Comparison, room: int) -> list[str]:
    notes = comparison.notes
    if not notes:
        return []
    lines = [text for _, text in _fitting(((note, f"- {code(note)}") for note in notes), room)]
    if len(notes) > len(lines):
        lines.append(f"- and {words.plural(len(notes) - len(lines), 'other')}")
    return [
        "",
        f"<details><summary>{words.plural(len(notes), 'note')}</summary>",
        "",
        *lines,
        "",
        "</details>",
    ]


def _arms(comparison: Comparison) -> list[str]:
    base = words.arm_columns(comparison.base, comparison.base_run)
    head = words.arm_columns(comparison.head, comparison.head_run)
    titles = dict.fromkeys([*base, *head])
    rows = [[title, code(base.get(title, ""), 60), code(head.get(title, ""), 60)] for title in titles]
    table = _table(["", comparison.base.name, comparison.head.name], rows)
    summary = "<details><summary>Refs, WordPress, PHP, durations</summary>"
    return ["", summary, *table, "", "</details>"]


def _link(options: Options) -> list[str]:
    """Lead to the full report. The address is the caller's own, yet nothing in it may end the link."""
    if options.report_url is None:
        return []
    address = "".join(
        f"%{ord(char):02X}" if char in " <>()[]|\"'\\`\n\r" else char for char in options.report_url
    )
    return ["", f"[The full report]({address})"]


def _size(lines: Iterable[str]) -> int:
    """Count characters as GitHub may: those outside of the basic plane count twice."""
    return sum(len(line.encode("utf-16-le", "surrogatepass")) // 2 + 1 for line in lines)
