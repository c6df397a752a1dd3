"""Results on disk: ``DIR/base`` and ``DIR/head``, the comparison and the comment beside them.

Each arm has ``records.jsonl``, one record a line, and ``run.json`` with everything else; with agent
evals also ``trials.jsonl``, one trial a line. A record or trial is on disk as soon as it is known, so
that a run which is stopped leaves what it had. Every other file appears whole or not at all.

A directory of results may come from a stranger's pull request: what is read is measured before it
is parsed and checked by its published schema, and no link in the directory is followed either way.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, TypeVar

from refcompare.codec import ARM_NAMES, Value, record_from, record_value, run_from, run_value
from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.fields import Unexpected
from refcompare.report.escape import clip
from refcompare.report.json import dump, dump_line
from refcompare.results import SCHEMA_VERSION, Record, RunResult
from refcompare.schemas import Name, violation
from refcompare.trials import Trial, TrialCaps, compact, trial_from, trial_value
from refcompare.wording import printable

RECORDS = "records.jsonl"
TRIALS = "trials.jsonl"
RUN = "run.json"
COMPARISON = "comparison.json"
COMMENT = "comment.md"

T = TypeVar("T")


class ResultsError(UsageError):
    """A directory of results cannot be read: which file, which line, what is wrong, what to do."""


@dataclass(frozen=True, slots=True)
class Caps:
    """The most bytes that are read: of one line of records or trials, of their file, of any other file."""

    line: int = 4 * 1024 * 1024
    records: int = 512 * 1024 * 1024
    document: int = 64 * 1024 * 1024


CAPS = Caps()


# ------------------------------------------------------------------------------- writing


class RecordWriter:
    """Writes one arm's run as it happens, into ``directory/ARM``. May be called from several threads.

    ``run`` says what is known at the start; it is written marked partial, and stays so until
    ``finish``. Raises EnvironmentFailure where something cannot be written.
    """

    def __init__(self, directory: Path, run: RunResult) -> None:
        self._directory = _arm_directory(directory, run.arm.name)
        with _writing(self._directory):
            _make_directory(directory)
            _make_directory(self._directory)
            write_text(self._directory, RUN, dump(run_value(replace(run, partial=True))))
        self._lines = _Lines(self._directory / RECORDS)

    def append(self, record: Record) -> None:
        """Write a record. When this returns, the record outlives the process."""
        self._lines.append(_line(record))

    def finish(self, run: RunResult) -> None:
        """Replace both files by the final run: its records in their order, and its own word on partial."""
        self.close()
        write_run(self._directory.parent, run)

    def close(self) -> None:
        """Stop writing; what is there stays, marked partial unless it was finished."""
        self._lines.close()

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TrialWriter:
    """Writes one arm's trials as they end, into ``directory/ARM``. May be called from several threads.

    Raises EnvironmentFailure where something cannot be written.
    """

    def __init__(self, directory: Path, arm: str) -> None:
        place = _arm_directory(directory, arm)
        with _writing(place):
            _make_directory(directory)
            _make_directory(place)
        self._lines = _Lines(place / TRIALS)

    def append(self, trial: Trial) -> None:
        """Write a trial. When this returns, it outlives the process."""
        self._lines.append(_trial_line(trial))

    def close(self) -> None:
        """Stop writing."""
        self._lines.close()


class _Lines:
    """A file of lines that is begun anew, each line on the disk when it was appended. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        with _writing(path):
            # Unlinked first: a link of that name is replaced, not followed.
            path.unlink(missing_ok=True)
            self._file: BinaryIO | None = os.fdopen(_create(path), "wb", buffering=0)

    def append(self, line: bytes) -> None:
        with self._lock, _writing(self._path):
            if self._file is None:
                raise ValueError("the writer is closed")
            self._file.write(line)

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None


def clear(directory: Path) -> None:
    """Remove what an earlier run left in an output directory, and nothing else.

    Raises EnvironmentFailure where that cannot be done.
    """
    with _writing(directory):
        for place in (directory, *(directory / name for name in ARM_NAMES)):
            _refuse_link(place)
            for name in (RECORDS, TRIALS, RUN, COMPARISON, COMMENT):
                if (place / name).is_file() or (place / name).is_symlink():
                    (place / name).unlink()


def write_run(directory: Path, run: RunResult) -> None:
    """Write one arm's finished run. Raises EnvironmentFailure where that cannot be done."""
    arm = _arm_directory(directory, run.arm.name)
    with _writing(arm):
        _make_directory(directory)
        _make_directory(arm)
        _replace(arm / RECORDS, (_line(record) for record in run.records))
        write_text(arm, RUN, dump(run_value(run)))


def write_text(directory: Path, name: str, text: str) -> None:
    """Write a file such as ``comparison.json`` into the output directory, whole or not at all.

    Raises EnvironmentFailure where that cannot be done.
    """
    with _writing(directory / name):
        _make_directory(directory)
        _replace(directory / name, [text.encode("utf-8", "backslashreplace")])


def _arm_directory(directory: Path, name: str) -> Path:
    if name not in ARM_NAMES:
        raise ValueError(f"no arm is called {name!r}")
    return directory / name


def _line(record: Record) -> bytes:
    """Encode a record, cutting its texts where it would be longer than a reader takes."""
    line = dump_line(record_value(record)).encode()
    for longest in (100_000, 10_000, 1_000, 100):
        if len(line) <= CAPS.line:
            break
        line = dump_line(record_value(_cut(record, longest))).encode()
    return line


def _trial_line(trial: Trial) -> bytes:
    """Encode a trial, cutting its texts where it would be longer than a reader takes."""
    line = dump_line(trial_value(trial)).encode()
    for longest in (4_000, 1_000, 100):
        if len(line) <= CAPS.line:
            break
        caps = TrialCaps(longest, calls=longest, files=longest, together=40 * longest)
        line = dump_line(trial_value(compact(trial, caps))).encode()
    return line


def _cut(record: Record, longest: int) -> Record:
    def cut(text: str | None) -> str | None:
        return None if text is None else clip(text, longest)

    return replace(
        record,
        message=cut(record.message),
        output=record.output[-longest:],
        forbidden=tuple(clip(item, longest) for item in record.forbidden[:longest]),
        missing=tuple(clip(item, longest) for item in record.missing[:longest]),
        assertions=tuple(
            replace(
                item,
                description=clip(item.description, longest),
                message=cut(item.message),
                expected=cut(item.expected),
                actual=cut(item.actual),
            )
            for item in record.assertions[:longest]
        ),
    )


def _make_directory(path: Path) -> None:
    _refuse_link(path)
    path.mkdir(parents=True, exist_ok=True)


def _refuse_link(path: Path) -> None:
    """Refuse to write through a link, wherever it leads: a repository may have brought it."""
    if path.is_symlink():
        raise EnvironmentFailure(f"{_shown(path)} is a link; give --output a directory that holds none.")


def _create(path: Path) -> int:
    """Create a file that did not exist, readable as the user's umask allows."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    return os.open(path, flags, 0o666)


def _replace(path: Path, chunks: Iterator[bytes] | list[bytes]) -> None:
    """Put a file in the place of whatever has its name, a link included, in one step."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with os.fdopen(_create(temporary), "wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn the operating system's errors into a sentence that names the path."""
    try:
        yield
    except OSError as error:
        what = error.strerror or type(error).__name__
        raise EnvironmentFailure(
            f"cannot write {_shown(path)}: {what}; mend that, or give another --output."
        ) from error


# ------------------------------------------------------------------------------- reading


def read_arms(directory: Path, caps: Caps = CAPS) -> tuple[RunResult, RunResult]:
    """Read both arms of a comparison. Raises ResultsError."""
    return read_run(directory, "base", caps), read_run(directory, "head", caps)


def read_run(directory: Path, arm: str, caps: Caps = CAPS) -> RunResult:
    """Read one arm's run; a record whose writing was broken off is left out with a note.

    Raises ResultsError where there is no run, or where a file breaks its schema or a cap.
    """
    place = _arm_directory(directory, arm)
    document = _document(place / RUN, caps)
    records, torn = _read_lines("record", place / RECORDS, record_from, caps)
    run = _checked("run", document, lambda value: run_from(value, records), place / RUN)
    if run.arm.name != arm:
        raise ResultsError(
            f"{_shown(place / RUN)} is the run of another arm, {run.arm.name}; it was misplaced."
        )
    if torn:
        note = f"the last line of {RECORDS} was broken off and is left out"
        run = replace(run, partial=True, notes=(*run.notes, note))
    return run


def read_trials(directory: Path, arm: str, caps: Caps = CAPS) -> tuple[Trial, ...]:
    """Read one arm's trials, in the order in which they ended; empty where no agent worked.

    A trial whose writing was broken off is left out. Raises ResultsError where the file breaks its schema
    or a cap.
    """
    path = _arm_directory(directory, arm) / TRIALS
    if not path.exists() and not path.is_symlink():
        return ()
    return _read_lines("trial", path, trial_from, caps)[0]


def read_comparison(directory: Path, caps: Caps = CAPS) -> Value:
    """Read ``comparison.json`` as a JSON object that its schema allows. Raises ResultsError."""
    path = directory / COMPARISON
    document = _document(path, caps)
    problem = violation("comparison", document)
    if problem is not None:
        raise ResultsError(_sentence(path, problem))
    return document


def _document(path: Path, caps: Caps) -> Value:
    """Read one JSON object with a schema version that this refcompare knows."""
    with _open(path, caps.document) as file:
        value = _parsed(file.read(caps.document + 1), path)
    if not isinstance(value, dict):
        raise ResultsError(_sentence(path, "the whole is not an object"))
    version = value.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        found = version if isinstance(version, int) and abs(version) < 10**6 else "none that is known"
        raise ResultsError(
            f"{_shown(path)} has schema version {found}, but this refcompare reads {SCHEMA_VERSION}; "
            "use the refcompare that wrote it, or run the comparison again."
        )
    return value


def _read_lines(
    name: Name, path: Path, decode: Callable[[object], T], caps: Caps
) -> tuple[tuple[T, ...], bool]:
    """Read values, one a line, and say whether the last line was broken off in writing."""
    values: list[T] = []
    with _open(path, caps.records) as file:
        number, read = 0, 0
        while line := file.readline(caps.line + 1):
            number += 1
            read += len(line)
            if len(line) > caps.line or read > caps.records:
                size = f"line {number} is longer than {caps.line:,} bytes"
                raise ResultsError(
                    _sentence(path, size if len(line) > caps.line else "it grew while it was read")
                )
            try:
                value = _parsed(line, path, number)
            except ResultsError:
                if line.endswith(b"\n"):
                    raise
                return tuple(values), True
            values.append(_checked(name, value, decode, path, number))
    return tuple(values), False


def _open(path: Path, largest: int) -> BinaryIO:
    """Open a regular file of at most ``largest`` bytes, following no link and waiting for no pipe."""
    if path.parent.is_symlink() or path.is_symlink():
        raise ResultsError(_sentence(path, "it is reached by a link, and links in results are not followed"))
    flags = os.O_RDONLY
    for name in ("O_BINARY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):
        flags |= getattr(os, name, 0)
    try:
        file = os.fdopen(os.open(path, flags), "rb")
    except FileNotFoundError:
        raise ResultsError(
            f"there is no {_shown(path)}; name a directory that a run with --output wrote."
        ) from None
    except OSError as error:
        raise ResultsError(_sentence(path, f"it cannot be read ({error.strerror})")) from error
    status = os.fstat(file.fileno())
    if stat.S_ISREG(status.st_mode) and status.st_size <= largest:
        return file
    file.close()
    regular = stat.S_ISREG(status.st_mode)
    raise ResultsError(
        _sentence(path, f"it is larger than {largest:,} bytes" if regular else "it is no file")
    )


def _parsed(data: bytes, path: Path, line: int | None = None) -> object:
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError:
        problem = "it is not UTF-8"
    except RecursionError:
        problem = "it is nested too deeply"
    except json.JSONDecodeError as error:
        problem = f"it is not JSON ({error.msg} at character {error.pos + 1})"
    except ValueError:
        problem = "it holds a number that JSON does not know"
    raise ResultsError(_sentence(path, problem, line))


def _no_constant(name: str) -> object:
    raise ValueError(name)


def _checked(
    name: Name, value: object, decode: Callable[[object], T], path: Path, line: int | None = None
) -> T:
    """Decode a value, or say by its schema why that cannot be done.

    The decoder refuses all that the schema does, and is forty times as fast; so the schema is
    asked only for what to say.
    """
    try:
        return decode(value)
    except Unexpected:
        problem = violation(name, value) or f"it does not fit the schema of a {name}"
        raise ResultsError(_sentence(path, problem, line)) from None


def _sentence(path: Path, problem: str, line: int | None = None) -> str:
    place = f"{_shown(path)}, line {line}" if line else _shown(path)
    return f"{place}: {problem}; the results are damaged or not refcompare's, so run the comparison again."


def _shown(path: Path) -> str:
    return printable(str(path))
