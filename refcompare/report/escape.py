"""Text from tests, candidates and branches made harmless for where it is shown. Pure.

Such text is data and written by anyone who can open a pull request. Three things are done to it:
what a reader cannot see or a terminal would obey is made visible, what Markdown or GitHub would
act on is taken out of their hands, and what is long is cut to size.
"""

from __future__ import annotations

import re
from urllib.parse import quote

# Everything of the Unicode categories Cc, Cf, Cs, Zl and Zp, except the few format characters that
# leave a mark (Arabic number signs and their like), and the letters and marks that show nothing:
# fillers, joiners, variation selectors, the blank Braille pattern.
_HIDDEN_RANGES = (
    "\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_HIDDEN = re.compile(f"[{_HIDDEN_RANGES}]")
_HIDDEN_BUT_LAYOUT = re.compile(f"(?![\n\t])[{_HIDDEN_RANGES}]")
_LINE_ENDS = re.compile("\r\n|\r|\x0b|\x0c|\x85|\u2028|\u2029")
_SPACES = re.compile(r"\s+")
_TAB = "    "


def visible(text: str) -> str:
    """Write every character that hides, reorders or commands as its escape (``\\u202e``, ``\\x1b``).

    Line ends and tabs stay, as ``\\n`` and four spaces. The result can be printed on any terminal.
    """
    text = _LINE_ENDS.sub("\n", text)
    return _HIDDEN_BUT_LAYOUT.sub(_escape, text).replace("\t", _TAB)


def one_line(text: str, limit: int = 300) -> str:
    """Give the text as one visible line of at most ``limit`` characters and a word on what was cut."""
    if len(text) <= limit and text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()  # what most text is, and nine of ten calls
    # Cutting first bounds the work: a message can be megabytes long.
    start, rest = text[: 4 * limit], max(0, len(text) - 4 * limit)
    flat = _SPACES.sub(" ", _LINE_ENDS.sub(" ", start)).strip()
    return clip(_HIDDEN.sub(_escape, flat), limit, rest=rest)


def clip(text: str, limit: int, *, rest: int = 0) -> str:
    """Cut to ``limit`` characters and say how many are missing, ``rest`` of them cut before."""
    missing = max(0, len(text) - limit) + rest
    return f"{text[:limit].rstrip()}… ({missing:,} more characters)" if missing else text


def clip_lines(text: str, limit: int, width: int = 300) -> str:
    """Keep ``limit`` lines of at most ``width`` characters each, and say how many more there were."""
    lines = text.split("\n")
    kept = [clip(line, width) for line in lines[:limit]]
    if len(lines) > limit:
        kept.append(f"… ({len(lines) - limit:,} more lines)")
    return "\n".join(kept)


def json_safe(encoded: str) -> str:
    """Make encoded JSON printable: what hides or commands becomes a JSON escape, and a lone surrogate too.

    Such characters occur only inside of JSON strings, save for the line ends and spaces between tokens.
    """
    return _HIDDEN_BUT_LAYOUT.sub(_json_escape, encoded)


# ------------------------------------------------------------------------------ Markdown

# Inside <code>, GitHub links no mention, issue, commit or emoji. Markdown itself still reads the
# text there, so each character that it could act on is written as an entity, which it never obeys.
_ENTITIES = str.maketrans({char: f"&#{ord(char)};" for char in "&<>\"'`*_~[]\\|:$!#"})
# An address is linked after entities are decoded; an empty comment keeps its two halves apart.
_ENTITIES[ord("@")] = "@<!-- -->"
_WWW = re.compile(r"(?i)(www)\.")


def code(text: str, limit: int = 300) -> str:
    """Give text as inline code for Markdown, in a table cell or outside; empty for blank text.

    The reader sees the text itself, whatever it holds: pipes, backticks, tags, mentions, links.
    """
    shown = _WWW.sub(r"\1&#46;", one_line(text, limit).translate(_ENTITIES))
    return f"<code>{shown}</code>" if shown else ""


def code_block(text: str, language: str = "", *, lines: int = 60) -> str:
    """Give text as a block of code for Markdown, at most ``lines`` lines of it.

    An HTML block rather than a fence: whatever the text holds, no ``<`` of its own is left in the
    page, so that it can neither end the block nor pass for the comment's hidden marker.
    """
    body = clip_lines(visible(text[: lines * 300]).strip("\n"), lines)
    if len(text) > lines * 300:
        body += f"\n… ({len(text) - lines * 300:,} more characters)"
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        body = body.replace(char, entity)
    return f'<pre lang="{language}">\n{body}\n</pre>' if language else f"<pre>\n{body}\n</pre>"


def marker(key: str) -> str:
    """Give the hidden first line by which a comment is found again; one for each ``key``."""
    return f"<!-- refcompare:{quote(key, safe='')} -->"


def _escape(match: re.Match[str]) -> str:
    point = ord(match[0])
    if point > 0xFFFF:
        return f"\\U{point:08x}"
    return f"\\u{point:04x}" if point > 0xFF else f"\\x{point:02x}"


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
