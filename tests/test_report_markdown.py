"""The comment on a pull request: what it says, what it leaves out, and what no text can do to it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from refcompare.compare import ChangeKind, Comparison, compare
from refcompare.gate import gate
from refcompare.report import markdown
from refcompare.report.escape import marker
from refcompare.report.interface import DEFAULTS, Options
from refcompare.results import RunResult
from tests.result_builders import (
    FAIL,
    HOSTILE_TEXTS,
    PASS,
    a_bit_of_everything,
    audit,
    entry,
    exploit,
    hostile,
    many,
    record,
    run,
)

LIMIT = 65_536
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
OUR_TAGS = {
    "p",
    "strong",
    "code",
    "br",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "pre",
    "details",
    "summary",
    "ul",
    "li",
}


def page(pair: tuple[RunResult, RunResult], options: Options = DEFAULTS) -> str:
    comparison = compare(*pair)
    return markdown.render(comparison, gate(comparison), options)


def rows(text: str) -> list[str]:
    """Give the lines of the table of changed rows."""
    _, _, rest = text.partition(" what happened |\n| --- | --- | --- |\n")
    return rest.partition("\n\n")[0].split("\n") if rest else []


def tags(text: str) -> set[str]:
    return set(re.findall(r"<([a-zA-Z][a-zA-Z0-9]*)", MARKDOWN.render(text)))


def fat(
    count: int, kinds: tuple[str, ...] = ("regressed",), categories: int = 3
) -> tuple[RunResult, RunResult]:
    """Give ``count`` changed tests of each kind with long texts."""
    base_tests, head_tests, base_records, head_records = [], [], [], []
    for kind in kinds:
        for number in range(count):
            test = entry(f"{kind}-{number:05}", category=f"category-{number % categories}")
            good, bad = record(test.test_id), record(test.test_id, FAIL, message="m" * 500)
            base_tests.append(test)
            head_tests.append(replace(test, digest="d2"))
            base_records.append(bad if kind == "fixed" else good)
            head_records.append(bad if kind == "regressed" else good)
    return run("base", base_tests, base_records), run("head", head_tests, head_records)


def named(identifier: str) -> tuple[RunResult, RunResult]:
    """Give one test of that id, regressed."""
    test = entry(identifier)
    return run("base", [test], [record(identifier)]), run("head", [test], [record(identifier, FAIL)])


# ------------------------------------------------------------------------------- content


def test_the_comment_starts_with_its_hidden_marker_and_one_line_that_says_it_all():
    lines = page(fat(2), Options(key="php 8.3")).splitlines()
    assert lines[0] == marker("php 8.3") == "<!-- refcompare:php%208.3 -->"
    assert lines[2] == "❌ **2 regressed** (<code>main</code> → <code>feature</code>)"


def test_the_sign_is_that_of_the_gate():
    comparison = compare(*fat(1))
    assert "✅" in markdown.render(comparison, gate(comparison, frozenset()))
    lost = compare(run("base", [entry()]), run("head", [entry()]))
    assert "⚠️" in markdown.render(lost, gate(lost))


def test_categories_rows_details_and_arms_follow_in_this_order():
    text = page(a_bit_of_everything(), Options(report_url="https://example.org/run/1"))
    parts = [
        "| category | tests | passing | exploitable | not graded |",
        "| **total** | **11 → 13** | **10 → 9** |",
        " what happened |",
        "<details><summary>Code of passing cheats",
        "<details><summary>Refs, WordPress, PHP, durations",
        "| WordPress | <code>7.1.1</code> | <code>7.2</code> |",
        "The build fails: 1 regressed",
        "[The full report](https://example.org/run/1)",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_a_row_shows_the_failing_assertion_the_message_and_what_differs():
    (row,) = [row for row in rows(page(a_bit_of_everything())) if "**regressed**" in row]
    assert "pass → fail<br>first failing: <code>custom&#95;assertion&#58; filters the title</code>" in row
    assert "message: <code>Title was not filtered.</code>" in row
    assert "differs: test edited; WordPress 7.1.1 → 7.2" in row


def test_a_cheat_is_shown_in_its_row_and_as_whole_code_below():
    code = "function f() {\n\treturn '<b>';\n}"
    base = run("base", [entry()], [record()], [audit()])
    head = run(
        "head", [entry()], [record()], [replace(audit(), passing_exploits=(exploit("stub", code=code),))]
    )
    text = page((base, head))
    assert (
        "passing cheat: <code>stub (generic)&#58; function f() { return &#39;&#60;b&#62;&#39;; }</code>"
        in text
    )
    assert "<pre lang=\"php\">\nfunction f() {\n    return '&lt;b&gt;';\n}\n</pre>" in text


def test_a_long_cheat_is_known_by_its_beginning_in_its_row_and_whole_below():
    code = "function f() {\n" + "\tmore();\n" * 20 + "}"
    audited = replace(audit(), passing_exploits=(exploit("stub", code=code),))
    base, head = run("base", [entry()], [record()], [audit()]), run("head", [entry()], [record()], [audited])
    text = page((base, head))
    assert "more characters)</code>" in rows(text)[0] and rows(text)[0].count("more();") < 20
    assert text.partition("<details>")[2].count("more();") == 20


def test_a_long_message_is_cut_in_its_row_and_told_at_length_below():
    text = page(fat(1))
    assert "more characters" in rows(text)[0]
    assert f"<pre>\n{'m' * 300}… (200 more characters)\n</pre>" in text


def test_rows_that_did_not_change_are_not_shown():
    assert "n-unchanged" not in page(a_bit_of_everything())
    assert rows(page(many(10))) == []


def test_notes_are_folded():
    base, head = many(1)
    text = page((base, replace(head, notes=("3 fields are unknown: foo, bar",))))
    assert (
        "<details><summary>1 note</summary>\n\n- <code>head&#58; 3 fields are unknown&#58; foo, bar</code>"
        in text
    )


def test_an_address_cannot_end_the_link_that_it_is_in():
    text = page(many(1), Options(report_url="https://example.org/a)b c<d>"))
    assert "[The full report](https://example.org/a%29b%20c%3Cd%3E)" in text


# ---------------------------------------------------------------------------------- size


@pytest.mark.parametrize("count", [0, 1, 10, 200, 10_000])
def test_the_comment_fits_and_counts_what_it_leaves_out(count):
    text = page(fat(count))
    shown = len(rows(text))
    assert len(text) <= LIMIT
    assert all(row.startswith("| **regressed** |") and row.endswith(" |") for row in rows(text))
    if count <= 10:
        assert shown == count
        assert "left out" not in text
    if shown < count:
        assert len(text) > LIMIT * 0.9
        missing = count - shown
        assert f"{missing:,} more rows are left out here: {missing:,} regressed." in text


def test_one_row_that_is_left_out_is_counted_in_the_singular():
    pair = many(9, every_head_fails=True)
    text = page(pair, Options(limit=len(page(pair)) + 900))  # of which 1,000 are kept for the counting
    assert len(rows(text)) == 8
    assert "1 more row is left out here: 1 regressed." in text


def test_room_is_shared_fairly_between_kinds():
    text = page(fat(500, kinds=("regressed", "fixed", "edited")))
    counts = [sum(f"**{kind}**" in row for row in rows(text)) for kind in ("regressed", "fixed", "edited")]
    assert min(counts) > 0
    assert max(counts) - min(counts) <= 1
    assert re.search(r"left out here: [\d,]+ regressed, [\d,]+ fixed, [\d,]+ edited\.", text)


def test_a_kind_with_few_rows_is_shown_whole():
    big, small = fat(1_000, kinds=("edited",)), fat(5, kinds=("fixed",))
    pair = tuple(
        replace(one, tests=one.tests + other.tests, records=one.records + other.records)
        for one, other in zip(big, small, strict=True)
    )
    text = page((pair[0], pair[1]))
    assert sum("**fixed**" in row for row in rows(text)) == 5
    assert re.search(r"left out here: \d\d\d edited\.", text)


def test_one_category_cannot_crowd_out_the_rest():
    busy = fat(1_000, categories=1)
    tests = [entry(f"regressed-z{number}", category="zz") for number in range(3)]
    base = replace(
        busy[0],
        tests=(*busy[0].tests, *tests),
        records=(*busy[0].records, *(record(test.test_id) for test in tests)),
    )
    head = replace(
        busy[1],
        tests=(*busy[1].tests, *tests),
        records=(*busy[1].records, *(record(test.test_id, FAIL) for test in tests)),
    )
    assert sum("<code>zz</code>" in row for row in rows(page((base, head)))) == 3


def test_a_thousand_categories_leave_room_for_the_rows():
    tests = [entry(f"t{number}", category=f"category {number}") for number in range(1_000)]
    base = run("base", tests, [record(test.test_id) for test in tests])
    head = run(
        "head", tests, [record(test.test_id, FAIL if test.test_id == "t999" else PASS) for test in tests]
    )
    text = page((base, head))
    assert len(text) <= LIMIT
    assert len(rows(text)) == 1
    assert "| <code>category 999</code> | 1 | 1 → 0 |" in text
    assert "| 999 others | 999 | 999 |" in text


def test_of_many_categories_those_without_a_change_share_one_line_that_adds_them_up():
    tests = [entry(f"t{number}", category=f"category-{number % 13:02}") for number in range(2_600)]
    base = run("base", tests, [record(test.test_id) for test in tests])
    failing = {"t3", "t16", "t4"}
    head = run(
        "head", tests, [record(test.test_id, FAIL if test.test_id in failing else PASS) for test in tests]
    )
    text = page((base, head))
    assert text.split("\n")[4:10] == [
        "| category | tests | passing |",
        "| --- | ---: | ---: |",
        "| <code>category-03</code> | 200 | 200 → 198 |",
        "| <code>category-04</code> | 200 | 200 → 199 |",
        "| 11 others | 2,200 | 2,200 |",
        "| **total** | **2,600** | **2,600 → 2,597** |",
    ]
    quiet = page((base, replace(base, arm=head.arm)))
    assert "| 13 categories | 2,600 | 2,600 |" in quiet and "total" not in quiet


def test_ids_up_to_a_length_stay_in_one_line():
    """A browser breaks them at hyphens unless the title above them is as wide."""
    for identifier, blanks in (("t", 0), ("rest-api-permissions-001", 40), ("x-" * 60, 40)):
        title = next(line for line in page(named(identifier)).split("\n") if "what happened" in line)
        assert title.count("\N{NO-BREAK SPACE}") == blanks
        assert [cell.strip() for cell in title.strip("|").split("|")] == ["change", "test", "what happened"]


@pytest.mark.parametrize("char", ["@", "|", "\u202e", "🎉", "<", "\\", "\U000e0041"])
def test_text_that_grows_when_escaped_does_not_burst_the_comment(char):
    base, head = hostile(char * 5_000)
    rest = fat(100)
    pair = (
        replace(base, tests=base.tests + rest[0].tests, records=base.records + rest[0].records),
        replace(
            head,
            tests=head.tests + rest[1].tests,
            records=head.records + rest[1].records,
            notes=tuple(char * 1_000 + str(number) for number in range(500)),
        ),
    )
    text = page(pair)
    assert len(text.encode("utf-16-le")) // 2 <= LIMIT
    assert len(rows(text)) > 10


# ------------------------------------------------------------------------------- hostile


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_no_text_changes_the_shape_of_the_comment(text):
    shape = re.compile(r"<(/?[a-z][a-z0-9]*)")
    harmless = MARKDOWN.render(page(hostile("harmless text\nwith two lines")))
    shown = page(hostile(text))
    found = MARKDOWN.render(shown)
    assert tags(shown) <= OUR_TAGS
    assert found.count("<tr>") == harmless.count("<tr>")
    assert found.count("<td") == harmless.count("<td")
    assert set(shape.findall(found)) <= set(shape.findall(harmless)) | {"pre", "/pre"}
    assert shown.count("<!-- refcompare:") == 1


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_no_text_mentions_links_or_hides(text):
    shown = page(hostile(text))
    assert not re.search(r"@(?!<!-- -->)\w", re.sub(r"(?s)<pre.*?</pre>", "", shown))
    assert not re.search(r"(?i)https?://|www\.", re.sub(r"(?s)<pre.*?</pre>", "", shown))
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b-\u200f\ufeff\x1b\ud800-\udfff]", shown)
    shown.encode("utf-8")


def test_the_comment_is_the_same_for_the_same_values():
    assert page(a_bit_of_everything()) == page(a_bit_of_everything())


def test_every_kind_of_change_has_its_row():
    found = rows(page(a_bit_of_everything()))
    assert [re.findall(r"\*\*(.*?)\*\*", row)[0] for row in found] == [
        kind.value for kind in ChangeKind if kind is not ChangeKind.UNCHANGED
    ]


def test_everything_else_that_holds_of_a_row_is_named_below_its_first_word():
    base = run("base", [entry()], [record()], [audit()])
    head = run("head", [entry()], [record(verdict=FAIL)], [audit("t", "return-1")])
    assert rows(page((base, head)))[0].startswith("| **regressed**<br>newly exploitable |")


def test_an_empty_comparison_is_a_comment_too():
    comparison: Comparison = compare(run("base"), run("head"))
    assert "**no tests to compare**" in markdown.render(comparison, gate(comparison))
