"""The comment as GitHub renders it: read back from HTML, row by row and cell by cell."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options as CmarkOptions

from refcompare.gate import DEFAULT_FAIL_ON
from refcompare.github.page import COMMENT_CHARACTERS, Names, comment, make_answer
from refcompare.report.escape import one_line
from refcompare.results import RunResult
from tests.result_builders import (
    FAIL,
    HOSTILE_TEXTS,
    a_bit_of_everything,
    audit,
    entry,
    many,
    record,
    run,
)

URL = "https://github.example/octo/bench/actions/runs/1/artifacts/2"
VOID = {"br", "hr", "img", "input", "meta"}


class Page(HTMLParser):
    """What a reader sees: tables as rows of cells, links, and every element that there is."""

    def __init__(self, markdown: str) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[list[str]] = []
        self.links: list[str] = []
        self.elements: set[str] = set()
        self.open: list[str] = []
        self.comments = 0
        self.outside_code = ""
        self.feed(cmarkgfm.github_flavored_markdown_to_html(markdown, CmarkOptions.CMARK_OPT_UNSAFE))
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.links += [value or "" for name, value in attributes if name in ("href", "src")]
        assert not [name for name, _ in attributes if name.startswith("on")]
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        if tag in VOID:
            self.handle_data("\n")
        else:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes what was not open"

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data
        if not {"code", "pre"} & set(self.open):
            self.outside_code += data

    def handle_comment(self, data: str) -> None:
        self.comments += bool(data.strip())

    @property
    def changes(self) -> list[list[str]]:
        """The rows of the table of changes."""
        header = ["change", "test", "what happened"]
        titles = [[cell.strip() for cell in row] for row in self.rows]
        rest = self.rows[titles.index(header) + 1 :] if header in titles else []
        end = next((number for number, row in enumerate(rest) if row[0] == ""), len(rest))
        return rest[:end]


def rendered(runs: tuple[RunResult, RunResult], base: str = "main", head: str = "#12") -> tuple[str, Page]:
    answer = make_answer(*runs, DEFAULT_FAIL_ON, Names(base, head))
    text = comment(answer, "default", URL, "<sub>A footer.</sub>")
    return text, Page(text)


def test_every_kind_of_change_has_its_row() -> None:
    text, page = rendered(a_bit_of_everything())
    assert len(page.changes) == 13
    assert page.changes[0][0] == "regressed" and page.changes[0][1].startswith("a-regressed")
    assert page.links == [URL]
    assert "A footer." in page.outside_code and not page.open
    assert text.count("<details>") == text.count("</details>") == 2


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_text_is_shown_as_itself_and_acts_on_nothing(text: str) -> None:
    test = replace(entry(text, category=text), suite=text)
    runs = (
        run("base", [test], [record(text)], [audit(text)]),
        run("head", [test], [record(text, FAIL, message=text)], [audit(text, text)]),
    )
    markdown, page = rendered(runs, text, text)
    [row] = page.changes
    assert row[1].split("\n")[0].strip() == one_line(text, 120)
    assert f"message: {one_line(text, 240)}" in row[2]
    assert page.links == [URL] and page.comments == 1
    allowed = {"p", "strong", "code", "table", "thead", "tbody", "tr", "th", "td", "br", "details", "summary"}
    assert page.elements <= allowed | {"pre", "a", "sub", "ul", "li"}
    # GitHub links mentions, issues and commits wherever there is no code.
    assert not re.search(r"octocat|org/|#12|GH-3|deadbeef|evil", page.outside_code)
    assert not re.search("[\u200b-\u200f\u202a-\u202e\u2066-\u2069]", markdown)


@pytest.mark.parametrize("count", [0, 1, 10, 10_000])
def test_rows_are_whole_or_left_out_and_counted(count: int) -> None:
    text, page = rendered(many(count, every_head_fails=True))
    assert len(text.encode("utf-16-le")) // 2 <= COMMENT_CHARACTERS
    assert not page.open and "A footer." in page.outside_code and page.links == [URL]
    shown = len(page.changes)
    assert all(len(row) == 3 for row in page.changes)
    match = re.search(r"([\d,]+) more rows? (?:is|are) left out here", page.outside_code)
    left_out = int(match[1].replace(",", "")) if match else 0
    assert shown + left_out == count
    assert (left_out > 0) == (count == 10_000)


def test_one_busy_category_leaves_room_for_the_others() -> None:
    base, head = many(10_000, every_head_fails=True)
    rare = [entry(f"rare-{number}", category="rare") for number in range(3)]
    runs = (
        replace(
            base, tests=(*base.tests, *rare), records=(*base.records, *(record(t.test_id) for t in rare))
        ),
        replace(
            head,
            tests=(*head.tests, *rare),
            records=(*head.records, *(record(t.test_id, FAIL) for t in rare)),
        ),
    )
    _, page = rendered(runs)
    assert sum(row[1].startswith("rare-") for row in page.changes) == 3
