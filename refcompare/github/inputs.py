"""The action's inputs: one value, checked before anything runs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from refcompare.errors import UsageError
from refcompare.gate import parse_fail_on
from refcompare.wording import alternatives, did_you_mean, quoted

PREFIX = "INPUT_"
"""Before the name of an environment variable that carries an input; hyphens become underscores."""

Mode = Literal["compare", "publish", "drift"]
CommentPolicy = Literal["always", "changes", "failures", "never"]
CommentMode = Literal["update", "recreate"]
Runtime = Literal["auto", "native", "docker"]

# A key is part of a hidden marker, of an artifact's name and of a cache's.
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# An image's name, perhaps with a host and its port, and no tag after it.
IMAGE_REPOSITORY = re.compile(r"(?:[a-z0-9.-]+(?::\d+)?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*")
_OPTION = re.compile(r"(?P<option>--[a-z-]+)(?:(?:=|\s+)(?P<value>.*))?")
_OWN_OPTIONS = ("--output", "--format", "--quiet", "--dry-run", "--help")


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a workflow asked for; each field is the input of the same name, with hyphens.

    Empty texts mean the default. ``options`` are further options of ``refcompare compare``.
    """

    mode: Mode = "compare"
    base: str = ""
    head: str = ""
    working_directory: str = "."
    suites: tuple[str, ...] = ()
    config: str = ""
    wordpress: str = ""
    runtime: Runtime = "docker"
    fail_on: str = ""
    audit: bool = True
    fresh: bool = False
    options: tuple[str, ...] = ()
    comment: CommentPolicy = "always"
    comment_mode: CommentMode = "update"
    key: str = "default"
    check_run: bool = False
    artifact: str = ""
    image_repository: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Inputs:
        """Read the variables that ``action.yml`` fills. Raises UsageError naming the input that is wrong."""
        found: dict[str, Any] = {}
        for item in fields(cls):
            text = environment.get(f"{PREFIX}{item.name.upper()}", "").strip()
            if text:
                found[item.name] = _READERS.get(item.name, _text)(input_name(item.name), text)
        return cls(**found)

    @property
    def artifact_name(self) -> str:
        """The artifact that holds the results."""
        return self.artifact or ("refcompare" if self.key == "default" else f"refcompare-{self.key}")

    def compare_options(self) -> list[str]:
        """Give the inputs as options of ``refcompare compare``."""
        words = [f"--suites={glob}" for glob in self.suites]
        for name in ("config", "wordpress", "runtime", "fail_on"):
            value = getattr(self, name)
            if value:
                words.append(f"--{input_name(name)}={value}")
        if not self.audit:
            words.append("--no-audit")
        if self.fresh:
            words.append("--fresh")
        return [*words, *self.options]


def input_name(field: str) -> str:
    """Give the name that a field has in ``action.yml``."""
    return field.replace("_", "-")


def _text(name: str, text: str) -> str:
    if "\n" in text or "\0" in text:
        raise UsageError(f"The input {name} has several lines; give one.")
    return text


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f"The input {name} is {quoted(text)}; give true or false.")
    return text.lower() == "true"


def _lines(name: str, text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _option_words(name: str, text: str) -> tuple[str, ...]:
    """Read one option a line, its value after a space or an equals sign; no shell takes part."""
    words: list[str] = []
    for line in _lines(name, text):
        match = _OPTION.fullmatch(line)
        if match is None:
            raise UsageError(
                f"The input {name} holds {quoted(line)}; give options of refcompare compare, one a line."
            )
        option, value = match["option"], match["value"]
        if option in _OWN_OPTIONS:
            raise UsageError(f"The input {name} may not hold {option}: the action sets it itself.")
        words.append(option if value is None else f"{option}={value}")
    return tuple(words)


def _choice(choices: tuple[str, ...]) -> Callable[[str, str], str]:
    def read(name: str, text: str) -> str:
        if text not in choices:
            hint = did_you_mean(text, choices) or f"give {alternatives(choices)}."
            raise UsageError(f"The input {name} is {quoted(text)}; {hint}")
        return text

    return read


def _pattern(pattern: re.Pattern[str], what: str) -> Callable[[str, str], str]:
    def read(name: str, text: str) -> str:
        if not pattern.fullmatch(text):
            raise UsageError(f"The input {name} is {quoted(text)}; give {what}.")
        return text

    return read


def _kinds(name: str, text: str) -> str:
    parse_fail_on(text)
    return text


_READERS: Mapping[str, Callable[[str, str], Any]] = {
    "mode": _choice(get_args(Mode)),
    "suites": _lines,
    "runtime": _choice(get_args(Runtime)),
    "fail_on": _kinds,
    "audit": _flag,
    "fresh": _flag,
    "options": _option_words,
    "comment": _choice(get_args(CommentPolicy)),
    "comment_mode": _choice(get_args(CommentMode)),
    "key": _pattern(_KEY, "up to 64 letters, digits, dots, hyphens and underscores"),
    "check_run": _flag,
    "artifact": _pattern(_KEY, "up to 64 letters, digits, dots, hyphens and underscores"),
    "image_repository": _pattern(IMAGE_REPOSITORY, "a repository of images without a tag"),
}
