"""One file's difference as git writes it. Pure, and in bounded time whatever the contents are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal

_Opcode = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]

_CONTEXT = 3

_BINARY_PREFIX = 8_000
"""Bytes in which a NUL makes a file binary, as in git."""

_C_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\v": "\\v",
    "\f": "\\f",
    "\r": "\\r",
    '"': '\\"',
    "\\": "\\\\",
}


class Effort:
    """How much matching of lines is left: matching takes quadratic time, and contents may be hostile.

    Counts lines before times lines after, without what is alike at both ends of a file. Where it is not
    enough, the lines between are replaced as a whole, which is right if not short.
    """

    def __init__(self, each: int = 500_000, together: int = 20_000_000) -> None:
        self._each = each
        self._left = together

    def allows(self, before: int, after: int) -> bool:
        """Say whether so many lines are to be matched with so many, and count them."""
        product = before * after
        if product > min(self._each, self._left):
            return False
        self._left -= product
        return True


def file_patch(
    path: str,
    before: bytes | None,
    after: bytes | None,
    old_mode: str | None,
    new_mode: str | None,
    effort: Effort | None = None,
) -> str | None:
    """Give the patch that turns one content into the other; None where one of them is not text.

    A content and its mode (``100644``) are None where there is no file. Bytes that are not UTF-8 are
    surrogate escapes, so that the patch encodes to what git would write.
    """
    if any(b"\0" in (content or b"")[:_BINARY_PREFIX] for content in (before, after)):
        return None
    old, new = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    head = [f"diff --git {old} {new}\n"]
    if old_mode is None:
        head.append(f"new file mode {new_mode}\n")
    elif new_mode is None:
        head.append(f"deleted file mode {old_mode}\n")
    elif old_mode != new_mode:
        head += [f"old mode {old_mode}\n", f"new mode {new_mode}\n"]
    body = "".join(_hunks(_lines(before or b""), _lines(after or b""), effort or Effort()))
    if body:
        head.append(f"--- {'/dev/null' if old_mode is None else _terminated(old)}\n")
        head.append(f"+++ {'/dev/null' if new_mode is None else _terminated(new)}\n")
    return "".join(head) + body


def _terminated(name: str) -> str:
    """A name with a space ends in a tab, or what reads the patch would cut it there."""
    return f"{name}\t" if " " in name and not name.startswith('"') else name


def _quoted(name: str) -> str:
    """Write a name as git does: in quotes with C's escapes where it holds what a line cannot."""
    if name.isprintable() and '"' not in name and "\\" not in name:
        return name
    return f'"{"".join(map(_escaped, name))}"'


def _escaped(character: str) -> str:
    if character in _C_ESCAPES:
        return _C_ESCAPES[character]
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


def _lines(content: bytes) -> list[str]:
    """Split after line feeds alone: other characters that end lines are part of a line here."""
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    kept = [line + "\n" for line in lines[:-1]]
    return [*kept, lines[-1]] if lines[-1] else kept


class _Matched(SequenceMatcher[str]):
    """Lines that have been matched already, to be grouped into hunks."""

    def __init__(self, opcodes: list[_Opcode]) -> None:
        super().__init__(None, (), ())
        self._opcodes = opcodes

    def get_opcodes(self) -> list[_Opcode]:
        """Give what was matched."""
        return self._opcodes


def _hunks(before: Sequence[str], after: Sequence[str], effort: Effort) -> Iterator[str]:
    for group in _Matched(_opcodes(before, after, effort)).get_grouped_opcodes(_CONTEXT):
        (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = group[0], group[-1]
        yield f"@@ -{_range(old_from, old_to)} +{_range(new_from, new_to)} @@\n"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (_line(" ", line) for line in before[i1:i2])
                continue
            yield from (_line("-", line) for line in before[i1:i2])
            yield from (_line("+", line) for line in after[j1:j2])


def _opcodes(before: Sequence[str], after: Sequence[str], effort: Effort) -> list[_Opcode]:
    """Match two lists of lines: what is alike at both ends first, so that long files are cheap."""
    if before == after:
        return []
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    most = shorter - start
    end = next((at for at in range(most) if before[-1 - at] != after[-1 - at]), most)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if effort.allows(len(old), len(new)):
        middle: list[_Opcode] = list(SequenceMatcher(None, old, new).get_opcodes())
    else:
        middle = [("replace", 0, len(old), 0, len(new))]
    codes: list[_Opcode] = [("equal", 0, start, 0, start)] if start else []
    codes += [(tag, i1 + start, i2 + start, j1 + start, j2 + start) for tag, i1, i2, j1, j2 in middle]
    if end:
        codes.append(("equal", len(before) - end, len(before), len(after) - end, len(after)))
    return codes


def _range(start: int, stop: int) -> str:
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start if length == 0 else start + 1},{length}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"
