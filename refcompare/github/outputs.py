"""What a step leaves behind for GitHub: outputs, the job's summary, and commands in its log."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import TextIO

from refcompare.errors import EnvironmentFailure
from refcompare.wording import printable

SUMMARY_BYTES = 1024 * 1024
"""The most that GitHub takes of one step's summary; of a longer one it takes nothing."""


def set_outputs(path: Path | None, values: Mapping[str, str]) -> None:
    """Set outputs of the step. A value may hold anything: its end is marked by a word nobody can guess."""
    if path is None:
        return
    end = f"end-{secrets.token_hex(16)}"
    text = "".join(f"{name}<<{end}\n{value}\n{end}\n" for name, value in values.items())
    _append(path, text)


def add_summary(path: Path | None, text: str) -> bool:
    """Add Markdown to the step's summary; say whether there was room and somebody to read it."""
    if path is None:
        return False
    encoded = text.encode("utf-8", "backslashreplace")
    taken = path.stat().st_size if path.exists() else 0
    if taken + len(encoded) + 1 > SUMMARY_BYTES:
        return False
    _append(path, encoded.decode("utf-8") + "\n")
    return True


def room_for_summary(path: Path | None) -> int:
    """Give how many bytes more the step's summary may have."""
    taken = path.stat().st_size if path is not None and path.exists() else 0
    return max(0, SUMMARY_BYTES - taken - 1)


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise EnvironmentFailure(f"The runner's file {path} can't be written: {error.strerror}.") from error


# ---------------------------------------------------------------------------------- log


def command(name: str, message: str, **properties: str | int) -> str:
    """Write a workflow command such as ``::error file=a.json,line=3::message``.

    Whatever the texts hold stays inside of them: line ends, colons and commas are written as GitHub
    decodes them, and what a terminal would obey is made visible.
    """
    listed = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    return f"::{name}{' ' if listed else ''}{listed}::{_data(_visible(message))}"


def _visible(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")


class Log:
    """The step's log. Lines of refcompare's own; ``quoting`` is for output that others have a part in."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout

    def say(self, line: str) -> None:
        """Write one line that is no command, whatever it holds."""
        # A command starts a line with two colons; one of the old form may stand anywhere.
        text = printable(line).replace("##[", "## [")
        self._write(f"- {text}" if text.lstrip().startswith("::") else text)

    def tell(self, level: str, message: str, **properties: str | int) -> None:
        """Write an ``error``, ``warning`` or ``notice``."""
        self._write(command(level, message, **properties))

    @contextmanager
    def quoting(self) -> Iterator[None]:
        """Let nothing that is printed meanwhile be taken for a command."""
        token = secrets.token_hex(24)
        self._write(f"::stop-commands::{token}")
        try:
            # In one stream, since the order of two is anybody's guess.
            with redirect_stderr(self._out):
                yield
        finally:
            self._write(f"::{token}::")

    def _write(self, line: str) -> None:
        self._out.write(f"{line}\n")
        self._out.flush()
