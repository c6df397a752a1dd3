"""A SQLite file that is only a cache: it mends itself, and it never fails the run that uses it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

BUSY_SECONDS = 10.0

_BROKEN = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

T = TypeVar("T")


class CacheDatabase:
    """The database in ``file``, with one ``table``; a broken one is set aside and made anew.

    ``table`` is the statement that creates the table, ``probe`` a query that a sound table answers.
    ``problem`` is a clause that says why the database could not be used, and None while it can. Any
    number of processes may use one file; within a process the caller holds a lock around each call.
    """

    def __init__(self, file: Path, table: str, probe: str) -> None:
        """Open the database, making its directory (mode 0700) and its files if need be."""
        self.file = file
        self.problem: str | None = None
        self._table = table
        self._probe = probe
        self._connection: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._open(suspect=False)

    @property
    def usable(self) -> bool:
        """Whether there is a database to ask."""
        return self._connection is not None

    def close(self) -> None:
        """Give the files back. Afterwards ``run`` gives its fallback."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def run(self, operation: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """Give what ``operation`` gives, mending the database once; ``otherwise`` when that fails too."""
        for _ in range(2):
            if self._connection is not None and self._inode != _inode(self.file):
                self.close()
                self._open(suspect=False)
            if self._connection is None:
                break
            try:
                return operation(self._connection)
            except sqlite3.Error as error:
                if not self._mend(error):
                    break
        return otherwise

    def give_up(self, problem: str) -> None:
        """Stop using the database, for the reason ``problem``."""
        self.close()
        self.problem = problem

    def discard_broken(self) -> None:
        """Delete the database that was set aside, if there is one."""
        self._broken_file.unlink(missing_ok=True)

    @property
    def _broken_file(self) -> Path:
        return self.file.with_suffix(".broken")

    def _mend(self, error: sqlite3.Error) -> bool:
        """Say whether the operation is worth another try, after whatever could be done."""
        code = _code(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            self.problem = f"another process kept {self.file} locked"
            return False
        if code in _BROKEN:
            self.close()
            self._open(suspect=True)
            return self.usable
        self.give_up(f"{self.file} can't be used: {error}")
        return False

    def _open(self, *, suspect: bool) -> None:
        """Connect, setting a broken database aside; a ``suspect`` one is looked through first.

        The lock makes the first of several processes create the file, and the first that finds it
        broken replace it; the others then find it whole.
        """
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(self.file.with_suffix(".lock"), timeout=BUSY_SECONDS):
                try:
                    self._connection = self._connect(look_through=suspect)
                except sqlite3.DatabaseError as error:
                    if _code(error) not in _BROKEN:
                        raise
                    self._set_aside()
                    self._connection = self._connect(look_through=False)
                self._inode = _inode(self.file)
        except (OSError, Timeout, sqlite3.Error) as error:
            self.problem = f"{self.file} can't be used: {error}"

    def _set_aside(self) -> None:
        """Keep one broken database for whoever wants to know why; an older one makes room.

        A process that still has it open sees at its next use that the file is another one. Until then
        it works on files without a name, and SQLite leaves the new ones alone when it closes those.
        """
        self.file.replace(self._broken_file)
        for suffix in ("-wal", "-shm"):
            self.file.with_name(self.file.name + suffix).unlink(missing_ok=True)

    def _connect(self, *, look_through: bool) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        # A text that is no UTF-8 would raise where a value is read; bytes are for the reader to judge.
        connection.text_factory = bytes
        try:
            # Nothing waits for the disk: what a power cut breaks is noticed and made anew.
            for pragma in ("synchronous = OFF", "auto_vacuum = INCREMENTAL", "journal_mode = WAL"):
                connection.execute(f"PRAGMA {pragma}").fetchall()
            # The file is data: nothing that its schema might call is run, and odd cells are errors.
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            connection.execute(self._table)
            connection.execute(self._probe).fetchall()
            if look_through and connection.execute("PRAGMA quick_check(1)").fetchone() != (b"ok",):
                damaged = sqlite3.DatabaseError("the database is damaged")
                damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
                raise damaged
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write all or nothing, waiting for other writers before the first statement rather than after it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary error code. Errors of the Python module itself have none."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE)) & 0xFF


def _inode(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
