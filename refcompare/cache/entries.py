"""How a known verdict is written: its key, its record, and its line in an export. No state, no database.

A row is a key (32 bytes), a record (canonical JSON, or ``UNSTABLE``), a seal (32 bytes) and the time of
grading in seconds since the epoch. What the seal means is the cache's business.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from refcompare import __version__
from refcompare.codec import record_from, record_value
from refcompare.errors import UsageError
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.results import Environment, Record, Verdict

CACHE_FORMAT = 1
MAX_RECORD_BYTES = 1024 * 1024
"""A record whose JSON is longer is not kept; a longer one that is found is not read."""

UNSTABLE = b"unstable"
"""Stands in place of a record where one key got two verdicts."""

MAX_EXPORT_BYTES = 4 * 1024 * 1024 * 1024
"""How much of an export is read, unpacked: it may have been made to unpack without end."""

_MAX_LINE_BYTES = 4 * MAX_RECORD_BYTES
_HEADER = {"refcompare": "verdicts", "format": CACHE_FORMAT}

Row = tuple[bytes, bytes, bytes, float]


def verdict_keys(
    pairs: Sequence[tuple[ExecutionTest, Candidate]], environment: Environment, limits: Limits
) -> list[bytes]:
    """Give, for each pair, the SHA-256 (32 bytes) over everything that its verdict depends on.

    Names are left out on purpose: the same code is one piece of work, whatever it is called.
    """
    common = hashlib.sha256(
        canonical_json(
            {
                "format": CACHE_FORMAT,
                "refcompare": __version__,
                "environment": asdict(environment),
                "limits": [float(limits.seconds), limits.memory, limits.output],
            }
        )
    )
    keys = []
    for test, candidate in pairs:
        files = None if candidate.files is None else dict(candidate.files)
        digest = common.copy()
        digest.update(canonical_json([test.digest, candidate.code, files]))
        keys.append(digest.digest())
    return keys


def canonical_json(value: Any) -> bytes:
    """One value, one spelling. ASCII, so that lone surrogates survive."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def encode_record(record: Record) -> bytes:
    """Write a record without what belongs to one asking: names, attempt, and whether it was reused."""
    nameless = replace(record, test_id="-", candidate="-", attempt=1, reused=False)
    return canonical_json(record_value(nameless))


def decode_record(encoded: bytes) -> Record | None:
    """Read a record back, named ``-``; None for an unstable one.

    Raises ValueError for anything but a ``pass`` or ``fail`` of this version's shape.
    """
    if encoded == UNSTABLE:
        return None
    try:
        record = record_from(json.loads(encoded))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if record.verdict is Verdict.ERROR:
        raise ValueError("an error is never kept")
    return record


def verdict_of(encoded: bytes) -> str | None:
    """Give ``pass``, ``fail`` or ``unstable``; None for what ``decode_record`` can't read."""
    try:
        record = decode_record(encoded)
    except ValueError:
        return None
    return UNSTABLE.decode() if record is None else record.verdict.value


def export_header() -> bytes:
    """Give the first line of an export."""
    return canonical_json(_HEADER) + b"\n"


def export_line(row: Row) -> bytes:
    """Give one row as a line of an export, with a checksum over all of it."""
    key, record, seal, graded = row
    fields = {"key": key.hex(), "record": record.decode("ascii"), "seal": seal.hex(), "graded": graded}
    return canonical_json(fields | {"sum": _checksum(fields)}) + b"\n"


def read_export(path: Path) -> Iterator[Row | None]:
    """Give an export's rows one at a time; None stands for a line that is damaged.

    Raises UsageError when the file is no export, and EOFError when it ends before its end: what was
    given until then is good.
    """
    refusal = UsageError(f"{path} is not an export of this version's verdict cache.")
    left = MAX_EXPORT_BYTES
    try:
        file = gzip.open(path)  # noqa: SIM115 - closed below; opening has errors of its own
    except OSError as error:
        raise UsageError(f"The exported verdicts in {path} can't be read: {error.strerror}.") from error
    with file:
        try:
            header = json.loads(file.readline(1024))
        except (EOFError, OSError, zlib.error, ValueError, RecursionError) as error:
            raise refusal from error
        if header != _HEADER:
            raise refusal
        try:
            while left > 0 and (line := file.readline(_MAX_LINE_BYTES)):
                left -= len(line)
                yield _parse_line(line)
        except (OSError, zlib.error) as error:
            raise EOFError(str(error)) from error


def _parse_line(line: bytes) -> Row | None:
    try:
        fields = json.loads(line)
        checksum = fields.pop("sum")
        row = (
            bytes.fromhex(fields["key"]),
            fields["record"].encode("ascii"),
            bytes.fromhex(fields["seal"]),
            float(fields["graded"]),
        )
        whole = checksum == _checksum(fields)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    fits = len(row[0]) == 32 and len(row[1]) <= MAX_RECORD_BYTES and math.isfinite(row[3])
    return row if whole and fits else None


def _checksum(fields: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_json(fields)).hexdigest()
