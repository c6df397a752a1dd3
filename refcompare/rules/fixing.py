"""Mends files where a finding says how: the smallest edit of the text, checked before it is written."""

from __future__ import annotations

import codecs
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from refcompare.errors import EnvironmentFailure
from refcompare.execution.loader import SourceFile
from refcompare.execution.loader_json import Document, scan
from refcompare.rules.checking import Suites
from refcompare.rules.edits import CannotEdit, Span, applied, overlap, spans
from refcompare.rules.model import Finding

MOST_ROUNDS = 20
"""How often a file is edited and checked again, since some edits can only follow others."""


@dataclass(frozen=True, slots=True)
class Mended:
    """The findings that were mended, and sentences about files that were left as they are."""

    findings: tuple[Finding, ...]
    refused: tuple[str, ...]


def mend(root: Path, suites: Suites, findings: Iterable[Finding]) -> Mended:
    """Edit the files below ``root`` as the findings say, each file at once or not at all.

    Of two edits that touch each other one is made; check again for the other. Raises EnvironmentFailure where
    a file cannot be written.
    """
    files = {file.path: file for file in suites.files}
    mended: list[Finding] = []
    refused: list[str] = []
    fixable = sorted(finding for finding in findings if finding.fixable and finding.path in files)
    for path, group in groupby(fixable, key=lambda finding: finding.path):
        file = files[path]
        try:
            data = suites.tree.read(path)
            text, made = edited(file, list(group))
            _replace(root, path, data, text)
            mended += made
        except _Refused as why:
            refused.append(f"{path} is left as it is: {why}.")
        except KeyError:
            refused.append(f"{path} is left as it is: its name is not printable.")
    return Mended(tuple(mended), tuple(refused))


class _Refused(Exception):
    """A file is not to be edited; the message says why."""


def edited(file: SourceFile, findings: Sequence[Finding]) -> tuple[str, tuple[Finding, ...]]:
    """Give a file's text with the findings' edits made, and the findings that this mends. Pure."""
    edits: list[Span] = []
    made: list[Finding] = []
    for finding in findings:
        try:
            own = spans(file.document, finding.start, finding.changes)
            applied(file.document.text, own)
        except CannotEdit:
            continue
        if not overlap(own, edits):
            edits += own
            made.append(finding)
    text = applied(file.document.text, edits)
    if not _same_tests(file.document, text, {finding.start for finding in made}):
        return file.document.text, ()
    return text, tuple(made)


def _same_tests(document: Document, text: str, starts: set[int]) -> bool:
    """Say whether a text is still JSON and holds what it held, but for the tests that were to change."""
    after = scan(text)
    if after.broken is not None or len(after.elements) != len(document.elements):
        return False
    if after.members != document.members:
        return False
    pairs = zip(document.elements, after.elements, strict=True)
    return all(old.start in starts or old.value == new.value for old, new in pairs)


def _replace(root: Path, path: str, data: bytes, text: str) -> None:
    """Put a text in a file's place, unless the file is not what was read."""
    place = root.joinpath(*path.split("/"))
    try:
        if place.is_symlink() or not place.is_file() or place.read_bytes() != data:
            raise _Refused("on the disk it is not what git would store, as where line ends are converted")
        mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        with tempfile.NamedTemporaryFile(dir=place.parent, prefix=".refcompare-", delete=False) as partial:
            partial.write(mark + text.encode("utf-8", "surrogateescape"))
        try:
            Path(partial.name).chmod(place.stat().st_mode & 0o7777)
            Path(partial.name).replace(place)
        except OSError:
            Path(partial.name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise EnvironmentFailure(
            f"{place} can't be written: {error.strerror}; nothing in it was changed."
        ) from error
