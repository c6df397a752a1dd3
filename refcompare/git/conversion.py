"""How git would convert a file on its way into the object database: line endings, LFS, identifiers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import NamedTuple

from refcompare.git.names import decoded, encoded
from refcompare.git.process import GitCommands

_CONTROL_IN_TEXT = b"\b\t\n\f\x1b"
_NOT_PRINTABLE = bytes(code for code in range(32) if code not in _CONTROL_IN_TEXT and code != 13) + b"\x7f"
_LFS_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n.*oid sha256:([0-9a-f]{64})\n", re.DOTALL
)
_EXPANDED_ID = re.compile(rb"\$Id:[^$\n]*\$")


class Rule(NamedTuple):
    """How git would convert a file on its way into the object database.

    ``text`` is "text" (declared), "auto" (git looks at the content) or "" (kept as it is). ``lfs`` says that
    Git LFS may keep the content elsewhere, ``ident`` that git fills in ``$Id$``.
    """

    text: str
    lfs: bool
    ident: bool

    def apply(self, data: bytes, indexed: Callable[[], bytes]) -> bytes:
        """Give what git would store for a file with this content. ``indexed`` gives what it stores now."""
        if self.lfs:
            pointer = indexed()
            match = _LFS_POINTER.match(pointer) if len(pointer) < 1024 else None
            if match and match[1].decode() == hashlib.sha256(data).hexdigest():
                return pointer
        if b"\r\n" in data and self._is_text(data, indexed):
            data = data.replace(b"\r\n", b"\n")
        return _EXPANDED_ID.sub(b"$Id$", data) if self.ident else data

    def _is_text(self, data: bytes, indexed: Callable[[], bytes]) -> bool:
        if self.text == "auto":
            # What was committed with CRLF stays so: https://git-scm.com/docs/gitattributes, "text=auto".
            return not _is_binary(data) and not _has_crlf(indexed())
        return self.text == "text"


def conversion_rules(git: GitCommands, paths: list[str]) -> dict[str, Rule]:
    """Give the rule for each of the paths that has one, from the attributes and ``core.autocrlf``."""
    if not paths:
        return {}
    names = ("text", "crlf", "eol", "filter", "ident")
    stdin = b"".join(encoded(path) + b"\0" for path in paths)
    words = iter(git.read_index("check-attr", "-z", "--stdin", *names, stdin=stdin).split(b"\0"))
    attributes: dict[str, dict[bytes, bytes]] = {path: {} for path in paths}
    for path, name, value in zip(words, words, words, strict=False):
        attributes[decoded(path)][name] = value
    converts = git.flag("core.autocrlf", False) or (git.config("core.autocrlf") or "").lower() == "input"
    rules = {}
    for place, found in attributes.items():
        text = _text_rule(found, "auto" if converts else "")
        rule = Rule(text, found[b"filter"] == b"lfs", found[b"ident"] == b"set")
        if any(rule):
            rules[place] = rule
    return rules


def _text_rule(attributes: dict[bytes, bytes], automatic: str) -> str:
    """Give "text", "auto" or "" by git's precedence: text, the older crlf, eol, then the configuration."""
    known = {b"set": "text", b"unset": "", b"input": "text", b"auto": "auto"}
    for name in (b"text", b"crlf"):
        if attributes[name] in known:
            return known[attributes[name]]
    return "text" if attributes[b"eol"] in (b"lf", b"crlf") else automatic


def _is_binary(data: bytes) -> bool:
    """Say whether git takes content for binary: a NUL, a lone CR, or too many control characters."""
    if b"\0" in data or data.count(b"\r") != data.count(b"\r\n"):
        return True
    strange = len(data) - len(data.translate(None, _NOT_PRINTABLE)) - data.endswith(b"\x1a")
    printable = len(data) - len(data.translate(None, bytes(set(range(256)) - set(_NOT_PRINTABLE + b"\r\n"))))
    return printable >> 7 < strange


def _has_crlf(data: bytes) -> bool:
    return b"\r\n" in data and not _is_binary(data)
