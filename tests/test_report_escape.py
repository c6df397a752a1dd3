"""Hostile text is shown as it is and acts on nothing: not on a terminal, not in a comment."""

from __future__ import annotations

import json
import sys
import unicodedata
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from refcompare.report.escape import clip, clip_lines, code, code_block, json_safe, marker, one_line, visible
from tests.result_builders import DETERMINISTIC, HOSTILE_TEXTS

TEXTS = st.one_of(
    st.text(),
    st.text(alphabet="|`*_~<>&[]()!#@:$\\ \n\t-+=.wx1/\"'{}", max_size=60),
    st.sampled_from(HOSTILE_TEXTS),
)
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


class Page(HTMLParser):
    """The text inside of each <code> or <pre> of a page, and the tags that it has."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self._depth = 0
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag in {"code", "pre"}:
            self._depth += 1
            self.texts.append("")

    def handle_endtag(self, tag):
        self._depth -= tag in {"code", "pre"}

    def handle_data(self, data):
        if self._depth:
            self.texts[-1] += data


# ------------------------------------------------------------------------------ terminal

VISIBLE_FORMAT_CHARACTERS = (
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
)


def test_every_character_that_hides_or_commands_is_made_visible():
    for point in range(sys.maxunicode + 1):
        char = chr(point)
        acts = (
            unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} or char in "\u115f\u3164\u034f\u2800"
        )
        if acts and char not in VISIBLE_FORMAT_CHARACTERS and char not in "\n\t":
            assert char not in visible(char), hex(point)


def test_hidden_characters_are_written_as_their_escapes():
    assert visible("a\u202eb") == "a\\u202eb"
    assert visible("\x1b[31m") == "\\x1b[31m"
    assert visible("\U000e0041") == "\\U000e0041"
    assert visible("\udc80") == "\\udc80"


def test_layout_and_letters_of_every_script_stay():
    assert visible("a\tb\r\nc\rd\u2028e") == "a    b\nc\nd\ne"
    assert visible("עברית 漢字 🎉 é") == "עברית 漢字 🎉 é"


@DETERMINISTIC
@given(TEXTS)
def test_what_is_shown_can_be_printed_and_shown_again_unchanged(text):
    shown = visible(text)
    assert visible(shown) == shown
    shown.encode("utf-8")
    assert "\x1b" not in shown


@DETERMINISTIC
@given(TEXTS, st.integers(10, 80))
def test_one_line_is_one_line_of_bounded_length(text, limit):
    line = one_line(text, limit)
    assert "\n" not in line
    assert line == visible(line)
    assert len(line) <= limit + 40


def test_what_is_cut_is_counted():
    assert clip("abcdef", 6) == "abcdef"
    assert clip("abcdefg", 4) == "abcd… (3 more characters)"
    assert one_line("x" * 5_000_000, 10) == "xxxxxxxxxx… (4,999,990 more characters)"
    assert clip_lines("a\nb\nc\nd", 2) == "a\nb\n… (2 more lines)"


# ---------------------------------------------------------------------------------- JSON


@DETERMINISTIC
@given(st.one_of(TEXTS, st.text(alphabet=st.characters()), st.sampled_from(["\ud800", "\udfff\ud800"])))
def test_json_made_safe_says_the_same_and_can_be_printed(text):
    encoded = json_safe(json.dumps({"text": text}, ensure_ascii=False, indent=2))
    assert json.loads(encoded) == {"text": text}
    assert visible(encoded) == encoded
    encoded.encode("utf-8")


# ------------------------------------------------------------------------------ Markdown


@DETERMINISTIC
@given(TEXTS)
@example("a|b\\|c\\\\|d")
@example("`</code>`")
@example("&lt;&#64;&amp;")
def test_inline_code_shows_the_text_itself_in_a_table_and_outside(text):
    shown = one_line(text)
    cell = code(text)
    assert "\n" not in cell
    for source in (f"{cell} end", f"| a | b |\n| --- | --- |\n| {cell} | end |"):
        page = Page(MARKDOWN.render(source))
        assert set(page.tags) <= {"p", "code", "table", "thead", "tbody", "tr", "th", "td"}
        # Blanks come out as HTML shows them: a run of them as one.
        assert [" ".join(part.split()) for part in page.texts] == ([" ".join(shown.split())] if shown else [])
        assert page.tags.count("td") in {0, 2}


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_nothing_in_inline_code_is_a_mention_a_link_or_a_tag(text):
    cell = code(text).removeprefix("<code>").removesuffix("</code>").replace("<!-- -->", "\0")
    assert not set(cell) & set("<>|`*_[]~\\:$\"'")
    assert all(cell[at + 1] == "\0" for at, char in enumerate(cell) if char == "@")
    assert "www." not in cell.lower()


@DETERMINISTIC
@given(TEXTS)
@example("</pre>\n\n# out")
@example("\n\n\nstarts after blank lines")
def test_a_block_of_code_shows_the_text_itself_and_cannot_be_left(text):
    page = Page(MARKDOWN.render(f"before\n\n{code_block(text, 'php')}\n\nafter *it*"))
    assert page.tags == ["p", "pre", "p", "em"]
    assert page.texts[0].strip("\n") == visible(text).strip("\n")


def test_no_text_can_hold_the_marker_of_a_comment():
    forged = marker("default")
    assert forged not in code(forged)
    assert forged not in code_block(forged)


def test_a_long_block_is_cut_by_lines_and_by_characters():
    assert code_block("a\n" * 100, lines=3).count("\n") == 5
    assert "more characters" in code_block("x" * 10_000, lines=3)


def test_different_keys_have_different_markers_and_none_ends_its_own():
    keys = ["a b", "a-b", "a%20b", "--><script>", "ü"]
    markers = {marker(key) for key in keys}
    assert len(markers) == len(keys)
    assert all(found.count("-->") == 1 and found.endswith(" -->") for found in markers)
