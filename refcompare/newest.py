"""Where the results of a repository's newest run are, so that ``refcompare show`` needs no path."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

_NOTE = "elsewhere"
"""Holds the path that the newest run was told to write to. Beside the results that the cache itself keeps."""

_ROOM = 64 * 1024
"""Bytes that have to fit, or else the directory is taken to be full."""


def newest_results(kept: Path) -> Path:
    """Give where the newest results are: in ``kept``, or where it is noted that they are."""
    try:
        noted = (kept / _NOTE).read_bytes()
    except OSError:
        return kept
    return Path(os.fsdecode(noted))


def note_output(kept: Path, output: Path | None) -> None:
    """Note in ``kept`` that the newest results are in ``output``, or with None that they are in ``kept``.

    A note is a convenience, so that it cannot be written is no failure.
    """
    with suppress(OSError):
        if output is None:
            (kept / _NOTE).unlink(missing_ok=True)
        else:
            kept.mkdir(parents=True, exist_ok=True)
            (kept / _NOTE).write_bytes(os.fsencode(output.absolute()))


def obstacle(kept: Path) -> str | None:
    """Say why nothing can be written into ``kept``, which is made where it is missing; None where it can."""
    try:
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=kept) as file:
            file.write(bytes(_ROOM))
            file.flush()
    except OSError as error:
        return error.strerror or type(error).__name__
    return None
