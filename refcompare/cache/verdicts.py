"""Verdicts that are known already, so that a pull request pays only for what it changed.

An entry is found by everything that its verdict depends on (``verdict_keys``) and is kept in one
SQLite file, which any number of processes may use at once. Losing an entry costs one grading, believing
a wrong one costs the truth: so every failure here ends in "not known".

Threat model. What is kept, and what an answer can be trusted for:

- Only ``pass`` and ``fail`` are kept. An error says something about the machine or the moment.
- A key under which both verdicts were put is *unstable*, and is never answered again.
- Damage (a truncated file, a flipped bit, a crash, a full disk) is detected: each entry carries
  an HMAC-SHA256 over its key, its record and its time, and a database that SQLite can't read is set
  aside and rebuilt.
- Tampering by someone who can write the database but not read the ``key`` file beside it (mode 0600,
  random, one per cache) is detected by the same HMAC. So is an entry moved under another key.
- Somebody who can read the key file can forge a verdict: that is the user who runs refcompare.
  Candidates can't: a sandbox shows them neither file.
- An export carries no key. ``merge`` believes an entry that this cache's key sealed; entries of another
  cache are believed, and sealed anew, only when the caller says that the file is ``trusted``. Their
  checksum then detects damage, not malice. A CI job that restores the key file from a secret can
  merge its own exports without trusting whoever stored them.
"""

from __future__ import annotations

import gzip
import hmac
import os
import secrets
import sqlite3
import stat
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from refcompare.cache.database import CacheDatabase, transaction
from refcompare.cache.entries import (
    CACHE_FORMAT,
    MAX_RECORD_BYTES,
    UNSTABLE,
    Row,
    decode_record,
    encode_record,
    export_header,
    export_line,
    read_export,
    verdict_keys,
    verdict_of,
)
from refcompare.errors import EnvironmentFailure
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.paths import cache_directory
from refcompare.results import Environment, Record, Verdict

DEFAULT_MAX_BYTES = 512 * 1024 * 1024
DEFAULT_MAX_AGE_SECONDS = 30 * 24 * 3600.0

_BATCH = 500
_USED_GRANULARITY_SECONDS = 3600.0
_ENTRY_OVERHEAD_BYTES = 128
"""What a key, a seal, two times and SQLite's own structures add to a record."""

_TABLE = """
CREATE TABLE IF NOT EXISTS entries (
    key BLOB PRIMARY KEY, record BLOB NOT NULL, seal BLOB NOT NULL, graded REAL NOT NULL, used REAL NOT NULL
) WITHOUT ROWID
"""
_PROBE = "SELECT key, record, seal, graded, used FROM entries LIMIT 0"
_SELECT = f"SELECT key, record, seal, graded FROM entries WHERE length(record) <= {MAX_RECORD_BYTES} AND "  # noqa: S608


@dataclass(frozen=True, slots=True)
class CacheStats:
    """How full the cache is (``bytes`` on disk) and what this process asked of it.

    ``rejected`` counts entries that were found but not believed. ``problem`` is a sentence for the
    reader when the cache could not be used; then every ``get`` is a miss.
    """

    path: Path
    entries: int
    bytes: int
    hits: int
    misses: int
    rejected: int
    stored: int
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What became of an export's entries. ``complete`` is False when the file ended too early."""

    added: int
    known: int
    rejected: int
    complete: bool


class VerdictCache:
    """The verdicts kept in the directory ``path`` (by default the user's cache directory).

    Threads may share one; each process opens its own. Only ``merge`` and ``export`` raise for a broken
    cache: otherwise what can't be read is not known, and what can't be written is graded again.
    """

    def __init__(self, path: Path | None = None, *, clock: Callable[[], float] = time.time) -> None:
        """Open the cache, making it if need be. ``clock`` gives seconds since the epoch.

        Raises EnvironmentFailure when there is no user's cache directory to open it in.
        """
        self.path = path if path is not None else cache_directory() / "verdicts"
        self._clock = clock
        self._lock = threading.RLock()
        self._hits = self._misses = self._rejected = self._stored = 0
        self._database = CacheDatabase(self.path / f"verdicts-v{CACHE_FORMAT}.sqlite3", _TABLE, _PROBE)
        self._seal_key = b""
        if self._database.usable:
            try:
                self._seal_key = _seal_key(self.path / "key")
            except OSError as error:
                self._database.give_up(f"its key can't be read: {error}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the files back. Afterwards every ``get`` is a miss and nothing is kept."""
        with self._lock:
            self._database.close()

    def get(
        self, test: ExecutionTest, candidate: Candidate, environment: Environment, limits: Limits
    ) -> Record | None:
        """Give the known record, named as asked and marked ``reused``, or None."""
        return self.get_many([(test, candidate)], environment, limits)[0]

    def get_many(
        self, pairs: Sequence[tuple[ExecutionTest, Candidate]], environment: Environment, limits: Limits
    ) -> list[Record | None]:
        """Give what ``get`` gives for each pair, in order, at a fraction of the cost."""
        keys = verdict_keys(pairs, environment, limits)
        known: dict[bytes, Record | None] = {}
        with self._lock:
            for start in range(0, len(keys), _BATCH):
                known.update(self._read(keys[start : start + _BATCH]))
            answers = [
                None
                if (record := known.get(key)) is None
                else replace(record, test_id=test.id, candidate=candidate.name, reused=True)
                for key, (test, candidate) in zip(keys, pairs, strict=True)
            ]
            hits = sum(answer is not None for answer in answers)
            self._hits += hits
            self._misses += len(answers) - hits
        return answers

    def put(
        self,
        test: ExecutionTest,
        candidate: Candidate,
        environment: Environment,
        limits: Limits,
        record: Record,
    ) -> None:
        """Keep a freshly graded ``pass`` or ``fail``; anything else is left alone.

        Raises ValueError when the record is of another test or candidate.
        """
        self.put_many([(test, candidate, record)], environment, limits)

    def put_many(
        self,
        graded: Iterable[tuple[ExecutionTest, Candidate, Record]],
        environment: Environment,
        limits: Limits,
    ) -> None:
        """Keep what ``put`` keeps, in one transaction."""
        now = self._clock()
        rows: list[tuple[bytes, bytes, float]] = []
        for test, candidate, record in graded:
            if (record.test_id, record.candidate) != (test.id, candidate.name):
                raise ValueError(f"a record of {record.test_id} was put under {test.id}")
            if record.verdict is Verdict.ERROR or record.reused:
                continue
            encoded = encode_record(record)
            if len(encoded) <= MAX_RECORD_BYTES:
                rows.append((verdict_keys([(test, candidate)], environment, limits)[0], encoded, now))
        with self._lock:
            self._stored += self._database.run(lambda connection: self._write(connection, rows), 0)

    def prune(
        self, max_bytes: int = DEFAULT_MAX_BYTES, max_age_seconds: float = DEFAULT_MAX_AGE_SECONDS
    ) -> int:
        """Drop verdicts graded more than ``max_age_seconds`` ago, then the least recently used ones
        until at most ``max_bytes`` are left. Gives how many were dropped.
        """

        def drop(connection: sqlite3.Connection) -> int:
            with transaction(connection):
                old = connection.execute(
                    "DELETE FROM entries WHERE graded < ?", (self._clock() - max_age_seconds,)
                )
                large = connection.execute(
                    "DELETE FROM entries WHERE key IN (SELECT key FROM (SELECT key, SUM(length(record) + ?)"
                    " OVER (ORDER BY used DESC, key) AS running FROM entries) WHERE running > ?)",
                    (_ENTRY_OVERHEAD_BYTES, max_bytes),
                )
            # As a script, because the pragma frees one page a step and execute() takes one step.
            connection.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)")
            self._database.discard_broken()
            return old.rowcount + large.rowcount

        with self._lock:
            return self._database.run(drop, 0)

    def stats(self) -> CacheStats:
        """Give the cache's size and what this process got from it."""

        def measure(connection: sqlite3.Connection) -> tuple[int, int]:
            (entries,) = connection.execute("SELECT COUNT(*) FROM entries").fetchone()
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            (page_size,) = connection.execute("PRAGMA page_size").fetchone()
            return int(entries), int(pages) * int(page_size)

        with self._lock:
            entries, size = self._database.run(measure, (0, 0))
            return CacheStats(
                self.path,
                entries,
                size,
                self._hits,
                self._misses,
                self._rejected,
                self._stored,
                self._database.problem,
            )

    def export(self, path: Path) -> int:
        """Write every believed entry to ``path`` (gzipped JSON Lines); give how many there were.

        The file appears whole or not at all. Raises OSError when it can't be written, and
        EnvironmentFailure when the cache can't be read.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".verdicts-", dir=path.parent)
        temporary = Path(name)
        count = 0
        try:
            with (
                os.fdopen(handle, "wb") as raw,
                gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as out,
            ):
                out.write(export_header())
                for row in self._believed_rows():
                    out.write(export_line(row))
                    count += 1
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return count

    def merge(self, path: Path, *, trusted: bool = False) -> MergeResult:
        """Take over the entries of an export.

        Entries that this cache's key did not seal are taken only when the file is ``trusted``. A file
        that was cut short gives what it holds. Raises UsageError when it is no export at all, and
        EnvironmentFailure when there is no cache to merge it into.
        """
        added = known = rejected = 0
        complete = True
        batch: list[tuple[bytes, bytes, float]] = []

        def flush() -> None:
            nonlocal added, known
            written = self._database.run(lambda connection: self._write(connection, batch), 0)
            self._require_connection()
            added += written
            known += len(batch) - written
            batch.clear()

        with self._lock:
            self._require_connection()
            try:
                for row in read_export(path):
                    if row is None or not (trusted or self._sealed(row)) or verdict_of(row[1]) is None:
                        rejected += 1
                        continue
                    batch.append((row[0], row[1], min(row[3], self._clock())))
                    if len(batch) >= _BATCH:
                        flush()
            except EOFError:
                complete = False
            flush()
        return MergeResult(added, known, rejected, complete)

    # -- entries ---------------------------------------------------------------------------------

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Record | None]:
        wanted = sorted(set(keys))
        query = f"{_SELECT} key IN ({_marks(wanted)})"

        found: dict[bytes, Record | None] = {}
        for row in self._rows(query, *wanted):
            try:
                if not self._sealed(row):
                    raise ValueError("altered or damaged")
                found[row[0]] = decode_record(row[1])
            except ValueError:
                self._rejected += 1
        if found:
            self._touch(sorted(found))
        return found

    def _touch(self, keys: Sequence[bytes]) -> None:
        """Note the use, at most once an hour, so that reading seldom writes."""
        now = self._clock()
        query = f"UPDATE entries SET used = ? WHERE used < ? AND key IN ({_marks(keys)})"  # noqa: S608
        values = (now, now - _USED_GRANULARITY_SECONDS, *keys)
        self._database.run(lambda connection: connection.execute(query, values).rowcount, 0)

    def _write(self, connection: sqlite3.Connection, rows: Sequence[tuple[bytes, bytes, float]]) -> int:
        """Insert records, turning a key with two verdicts into an unstable one; count the changes."""
        changed = 0
        with transaction(connection):
            for key, record, graded in rows:
                kept, new = record, verdict_of(record)
                old = connection.execute(f"{_SELECT} key = ?", (key,)).fetchone()
                if old is not None and self._sealed(old):
                    before = verdict_of(old[1])
                    if before == verdict_of(UNSTABLE) or (before == new and graded <= old[3]):
                        continue
                    kept = record if before in (None, new) else UNSTABLE
                connection.execute(
                    "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?)",
                    (key, kept, self._seal(key, kept, graded), graded, self._clock()),
                )
                changed += 1
        return changed

    def _believed_rows(self) -> Iterator[Row]:
        """Walk the entries in key order, a batch at a time, so that no lock is held for long."""
        query = f"{_SELECT} key > ? ORDER BY key LIMIT {_BATCH}"
        after = b""
        while True:
            with self._lock:
                rows = self._rows(query, after)
                self._require_connection()
            if not rows:
                return
            yield from (row for row in rows if self._sealed(row))
            after = rows[-1][0]

    def _rows(self, query: str, *values: bytes) -> list[Row]:
        return self._database.run(lambda connection: connection.execute(query, values).fetchall(), [])

    def _seal(self, key: bytes, record: bytes, graded: float) -> bytes:
        return hmac.digest(self._seal_key, key + struct.pack(">d", graded) + record, "sha256")

    def _sealed(self, row: Row) -> bool:
        """Whether the row is as this cache wrote it. SQLite is free to give values of any type."""
        key, record, seal, graded = row
        return (
            isinstance(key, bytes)
            and isinstance(record, bytes)
            and isinstance(seal, bytes)
            and isinstance(graded, float)
            and hmac.compare_digest(seal, self._seal(key, record, graded))
        )

    def _require_connection(self) -> None:
        if not self._database.usable:
            raise EnvironmentFailure(f"The verdict cache: {self._database.problem or 'it is closed'}.")


def _marks(keys: Sequence[bytes]) -> str:
    return ",".join("?" * len(keys))


def _seal_key(path: Path) -> bytes:
    """Give the 32 bytes that seal this cache, made anew when others could have read or written them."""
    for _ in range(5):
        key = _private_key(path)
        if key is not None:
            return key
        path.unlink(missing_ok=True)
        handle, name = tempfile.mkstemp(prefix=".key-", dir=path.parent)  # mode 0600
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(32))
        try:
            # Of several processes that start at once, one makes the key and all use it.
            with suppress(FileExistsError):
                path.hardlink_to(name)
        finally:
            Path(name).unlink()
    raise PermissionError(f"{path} does not stay private (mode 0600)")


def _private_key(path: Path) -> bytes | None:
    with suppress(FileNotFoundError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            private = stat.S_ISREG(status.st_mode) and status.st_mode & 0o077 == 0
            key = file.read(33)
        if private and status.st_uid == os.geteuid() and len(key) == 32:
            return key
    return None
