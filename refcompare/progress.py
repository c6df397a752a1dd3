"""Progress of a run on standard error: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from refcompare.report.words import plural
from refcompare.results import Record

_LINE_SECONDS = 10.0
_NOUNS = {"grading": "test", "confirming": "rerun"}


class Reporter:
    """Says what is going on, and hears the pipeline's events. Use it in a ``with`` statement."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._quiet = quiet
        self._console = Console(file=self._stream, highlight=False)
        self._bar = _bar(self._console) if self._console.is_terminal and not quiet else None
        self._task: TaskID | None = None
        self._phase, self._total, self._done, self._records, self._trials = "", 0, 0, 0, 0
        self._started = self._spoke = time.monotonic()

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, sentence: str) -> None:
        """Print one line about something that takes a while, or that the user should know."""
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.console.print(sentence, markup=False, style="dim")
        else:
            print(sentence, file=self._stream, flush=True)

    def begin(self, phase: str, total: int) -> None:
        """Start a phase with a known number of things to do."""
        self._phase, self._total, self._done, self._records, self._trials = phase, total, 0, 0, 0
        self._started = self._spoke = time.monotonic()
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(phase, total=total, rate="")
        elif total:
            noun = _NOUNS.get(phase)
            self.say(f"{phase}: {plural(total, noun) if noun else total}")

    def recorded(self, arm: str, record: Record) -> None:
        """Count a record."""
        self._records += 1

    def tried(self) -> None:
        """Count a trial."""
        self._trials += 1

    def advance(self) -> None:
        """Count one more of the phase's total."""
        self._done += 1
        now = time.monotonic()
        rate = _rate(self._records, self._trials, max(now - self._started, 1e-9))
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done, rate=rate)
        elif now - self._spoke >= _LINE_SECONDS and self._done < self._total:
            self._spoke = now
            left = (now - self._started) / self._done * (self._total - self._done)
            self.say(f"{self._phase}: {self._done} of {self._total}, {rate}, {left:.0f} s left")


def _rate(records: int, trials: int, seconds: float) -> str:
    if trials:
        return f"{60 * trials / seconds:.1f} trials/min"
    return f"{records / seconds:.0f} candidates/s"


def _bar(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
