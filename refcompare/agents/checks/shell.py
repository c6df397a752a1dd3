"""The commands in a line that an agent gave to a shell. Reads the line, and runs nothing of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from refcompare.agents.programs.trajectory import Call

_OPERATORS = "();<>|&\n"
_REDIRECTIONS = frozenset({">", ">>", "<", "<<<", ">&", "&>", "&>>", ">|", "<&", "<>"})
_LONGEST = 100_000
"""Characters of a line that are looked at."""

_DEEPEST = 4
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ash"})
# Programs that run the rest of their words, and how many words of their own come first, options aside.
_WRAPPERS = {
    "env": 0,
    "sudo": 0,
    "time": 0,
    "nice": 0,
    "nohup": 0,
    "command": 0,
    "exec": 0,
    "xargs": 0,
    "timeout": 1,
    "stdbuf": 0,
}
_HERE_DOCUMENT = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")
_DESCRIPTOR = re.compile(r"(?<=\s)\d+(?=[<>])")
_KEYWORDS = frozenset({"then", "do", "else", "if", "while", "until", "!", "{", "}", "fi", "done"})


def shell_line(call: Call) -> str | None:
    """Give the line that a call handed to a shell, None for a call of another kind.

    The tools of the agents name it ``command`` or ``cmd``, and may give it as a list of words.
    """
    if not isinstance(call.input, Mapping):
        return None
    for key in ("command", "cmd"):
        value = call.input.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, Sequence) and value and all(isinstance(word, str) for word in value):
            return shlex.join([str(word) for word in value])
    return None


def commands(line: str) -> tuple[tuple[str, ...], ...]:
    """Split a line into its simple commands, each a program and its words, without redirections.

    Goes into ``bash -c '…'``, ``timeout 9 …``, ``$(…)`` and the like, and past assignments. A line that no
    shell could read is split at its blanks.
    """
    return tuple(_commands(line[:_LONGEST], _DEEPEST))


def _commands(line: str, depth: int) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    here: list[str] = []
    redirected = comment = False
    for word in [*_words(_without_documents(line)), ";\n"]:
        if word and set(word) <= set(_OPERATORS):
            comment = comment and "\n" not in word
            redirected = word.strip("\n") in _REDIRECTIONS
            if not redirected:
                found += _unwrapped(here, depth)
                here = []
        elif redirected:
            redirected = False  # the name of a file
        elif comment or word.startswith("#"):
            comment = True
        else:
            here.append(word)
    return found


def _without_documents(line: str) -> str:
    """Take out here-documents, whose lines are text and not commands, and the numbers before a ``>``."""
    kept: list[str] = []
    ends: list[str] = []
    for text in line.split("\n"):
        if ends:
            if text.strip() == ends[0]:
                del ends[0]
            continue
        kept.append(_DESCRIPTOR.sub("", _HERE_DOCUMENT.sub("", text)))
        ends += [match[2] for match in _HERE_DOCUMENT.finditer(text)]
    return "\n".join(kept)


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line.replace("$(", "("), posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:  # a quote that does not end
        return line.split()


def _unwrapped(words: Sequence[str], depth: int) -> list[tuple[str, ...]]:
    """Give the command that words come to, and what it runs in turn."""
    words = list(words)
    while words and (words[0] in _KEYWORDS or _is_assignment(words[0])):
        del words[0]
    if not words:
        return []
    name = words[0].rpartition("/")[2]
    own = (name, *words[1:])
    if depth and name in _SHELLS:
        for at, word in enumerate(words[1:-1], 1):
            if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
                return [own, *_commands(words[at + 1], depth - 1)]
    if depth and name in _WRAPPERS:
        rest = words[1:]
        while rest and rest[0].startswith("-"):
            del rest[0]
        return [own, *_unwrapped(rest[_WRAPPERS[name] :], depth - 1)]
    return [own]


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()
