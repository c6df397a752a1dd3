"""One arm for a person: how its references stand, and which of its tests can be cheated. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields

from refcompare.changes import CategoryCounts, Side
from refcompare.compare import category_counts, sides, summary
from refcompare.report import words
from refcompare.report.escape import code, one_line
from refcompare.report.interface import DEFAULTS, Options
from refcompare.report.layout import MIN_WIDTH, Ink, column_width, fact_lines, pairs, table, wrap
from refcompare.report.words import Fact, Tone
from refcompare.results import Audit, RunResult

_COLUMNS = tuple(field.name for field in fields(CategoryCounts))
_AUDIT_COLUMNS = ("tests", "exploitable", "not_auditable")


def render_run(run: RunResult, options: Options = DEFAULTS) -> str:
    """Give the page of ``refcompare run``: every reference that does not pass, and why."""
    ink, width = Ink(colour=options.colour), max(options.width, MIN_WIDTH)
    found = sides(run)
    blocks = [
        ink.bold(wrap(run_headline(found), width)),
        _categories(category_counts(found.values()), _COLUMNS, keep=("tests", "passing")),
        _table("verdict", _not_passing(found), width, ink),
        *_ending(run, width),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def render_audit(run: RunResult, options: Options = DEFAULTS) -> str:
    """Give the page of ``refcompare audit``: every test that can be cheated, by what, and weak spots."""
    ink, width = Ink(colour=options.colour), max(options.width, MIN_WIDTH)
    rows = sorted(_audited(run), key=lambda row: _AUDIT_ORDER.index(row[0]))
    blocks = [
        ink.bold(wrap(audit_headline(run), width)),
        _categories(category_counts(sides(run).values()), _AUDIT_COLUMNS, keep=("tests", "exploitable")),
        _table("audit", rows, width, ink),
        *_ending(run, width),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def render_run_markdown(run: RunResult) -> str:
    """Give the page of ``refcompare run`` in GitHub's Markdown, such as a job summary takes."""
    found = sides(run)
    lines = [f"**{run_headline(found)}** ({code(run.arm.ref, 80) or '?'})"]
    rows = list(_not_passing(found))
    if rows:
        lines += ["", "| verdict | test | what happened |", "| --- | --- | --- |"]
        for verdict, test_id, side, facts in rows:
            told = "<br>".join(f"{fact.label}: {code(fact.data)} {fact.text}".rstrip() for fact in facts)
            lines.append(f"| {verdict} | {code(test_id, 120)}<br>{code(side.category, 60)} | {told} |")
    return "\n".join(lines) + "\n"


def run_headline(found: Mapping[str, Side]) -> str:
    """Say how the references of one arm stand: ``84 tests: 82 pass, 1 fail, 1 error (timeout)``."""
    counts = Counter(words.verdict_words(side) if side.stable else "unstable" for side in found.values())
    if not counts:
        return "no tests"
    known = {"pass": 0, "fail": 1}
    ordered = sorted(counts, key=lambda word: (known.get(word, 2), word))
    said = ", ".join(f"{counts[word]:,} {word}" for word in ordered)
    return f"{words.plural(len(found), 'test')}: {said}"


def audit_headline(run: RunResult) -> str:
    """Say how many tests of one arm can be cheated, and how hard that was tried."""
    audits = run.audits
    parts = [
        f"{sum(audit.exploitable for audit in audits):,} of {words.plural(len(audits), 'test')} exploitable"
    ]
    found = sides(run)
    failing = sum(_proves_nothing(found.get(audit.test_id)) for audit in audits)
    for count, said in (
        (failing, "whose reference does not pass"),
        (sum(not audit.auditable for audit in audits), "not auditable"),
        (sum(bool(audit.weak_spots) for audit in audits), "with weak spots"),
    ):
        if count:
            parts.append(f"{count:,} {said}")
    tried = sum(audit.candidates_tried for audit in audits)
    return f"{', '.join(parts)}; {words.plural(tried, 'candidate')} tried"


Row = tuple[str, str, Side, tuple[Fact, ...]]
"""The word for a row, the test's id, the test, and what else is told."""


def _not_passing(found: Mapping[str, Side]) -> Iterator[Row]:
    for test_id, side in sorted(found.items(), key=lambda item: (item[1].category, item[0])):
        if not side.passing:
            place = Fact("at", data=f"{side.path}:{side.line}", place=True)
            yield words.verdict_words(side), test_id, side, (*words.failure_facts(side), place)


_WEAK_SPOTS = 12
"""As many weak spots of one test as are listed: a hidden one may be the one that matters."""

_AUDIT_ORDER = ("exploitable", "no verdict", "reference fails", "weak spots", "not auditable")


def _proves_nothing(side: Side | None) -> bool:
    """Whether a test is such that not even its reference passes, so that no cheat passing says nothing."""
    return side is not None and side.graded and not side.passing


def _audited(run: RunResult) -> Iterator[Row]:
    found = sides(run)
    for audit in sorted(run.audits, key=lambda item: item.test_id):
        side = found.get(audit.test_id)
        if side is None:
            continue
        if audit.exploitable:
            yield "exploitable", audit.test_id, side, tuple(_cheats(audit))
        elif side.ungraded_exploits:
            lost = words.some(side.ungraded_exploits)
            yield "no verdict", audit.test_id, side, (Fact("cheats without a verdict", data=lost),)
        elif _proves_nothing(side):
            note = Fact("so", text="that no cheat passes either says nothing")
            yield "reference fails", audit.test_id, side, (*words.failure_facts(side), note)
        elif not audit.auditable:
            yield "not auditable", audit.test_id, side, (Fact("because", data=audit.reason or ""),)
        elif audit.weak_spots:
            yield "weak spots", audit.test_id, side, tuple(_weak_spots(audit))


def _cheats(audit: Audit) -> Iterator[Fact]:
    yield from words.cheat_facts(words.PASSING_CHEAT, audit.passing_exploits)
    if audit.stopped_early:
        yield Fact(
            "stopped", text="cheats of a class were left untried once one passed (--exhaustive tries all)"
        )
    if audit.gateway and audit.inferred:
        yield Fact("function inferred", data=audit.gateway)
    if audit.reason:
        yield Fact("note", data=audit.reason)
    yield from _weak_spots(audit)


def _weak_spots(audit: Audit) -> Iterator[Fact]:
    if audit.weak_spots:
        survived = f"{len(audit.weak_spots)} of {words.plural(audit.mutants_tried, 'mutant')} survived"
        yield Fact("weak spots", text=survived)
    for spot in audit.weak_spots[:_WEAK_SPOTS]:
        yield Fact("weak spot", data=words.weak_spot_words(spot))
    if len(audit.weak_spots) > _WEAK_SPOTS:
        more = words.plural(len(audit.weak_spots) - _WEAK_SPOTS, "other")
        yield Fact("weak spot", text=f"and {more} (--json has them all)")


def _table(title: str, rows: Iterable[Row], width: int, ink: Ink) -> str:
    listed = list(rows)
    if not listed:
        return ""
    heads = [wrap(head, 22) for head, _, _, _ in listed]
    tests = [
        f"{wrap(one_line(test_id, 120) or '(none)', 32)}\n{wrap(one_line(side.category, 60), 32)}"
        for _, test_id, side, _ in listed
    ]
    told = max(width - column_width(title, heads) - column_width("test", tests), 20)
    texts = ["\n".join(fact_lines(facts, told, ink, limit=240)) for _, _, _, facts in listed]
    return table(zip([ink.tone(head, _tone(head)) for head in heads], tests, texts, strict=True),
                 [title, "test", "what happened"])  # fmt: skip


def _tone(head: str) -> Tone:
    return Tone.BAD if head in {"fail", "exploitable"} else Tone.DOUBTFUL


def _categories(counts: Mapping[str, CategoryCounts], names: Sequence[str], keep: Sequence[str]) -> str:
    """Lay out counts by category; a column with nothing in it is left out unless it is to be kept."""
    if not counts:
        return ""
    total = sum(counts.values(), CategoryCounts())
    columns = [name for name in names if name in keep or getattr(total, name)]
    rows = [[one_line(category, 40) or "(none)", *_cells(row, columns)] for category, row in counts.items()]
    if len(rows) > 1:
        rows.append(["total", *_cells(total, columns)])
    return table(rows, ["category", *(name.replace("_", " ") for name in columns)])


def _cells(counts: CategoryCounts, columns: Iterable[str]) -> list[str]:
    return [str(getattr(counts, column)) for column in columns]


def _ending(run: RunResult, width: int) -> Iterator[str]:
    about = words.arm_columns(run.arm, summary(run))
    yield pairs(((title, one_line(text, 60)) for title, text in about.items()), width)
    yield "\n".join(wrap(f"note: {one_line(note)}", width, "  ") for note in run.notes)
