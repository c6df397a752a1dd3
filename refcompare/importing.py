"""Results of another harness, compared, printed and kept as those of refcompare's own agents are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from refcompare import store
from refcompare.agents.programs.redaction import Redactor
from refcompare.agents.promptfoo import LARGEST_FILE, read_promptfoo
from refcompare.arms import Choice, open_workbench
from refcompare.changes import Comparison
from refcompare.commands.printing import print_comparison, write_comparison
from refcompare.compare import compare
from refcompare.errors import UsageError
from refcompare.gate import DEFAULT_FAIL_ON, gate, parse_fail_on
from refcompare.metrics import compare_trials
from refcompare.newest import note_output, obstacle
from refcompare.results import Arm, RunResult
from refcompare.trials import Trial, TrialCaps, kept


def import_promptfoo(start: Path, options: Mapping[str, Any], out: TextIO) -> int:
    """Compare two results files of promptfoo, print what changed, and keep it where ``show`` looks.

    Gives the exit status of the gate. Raises UsageError for a file that cannot be used.
    """
    fail_on = DEFAULT_FAIL_ON if options["fail_on"] is None else parse_fail_on(options["fail_on"])
    arms = [_arm(name, options[name]) for name in ("base", "head")]
    directory = _results_directory(start, options["output"])
    comparison = _compared(arms, directory)
    result = gate(comparison, fail_on)
    if directory is not None:
        write_comparison(directory, comparison, result)
    print_comparison(options, comparison, result, out)
    return result.exit_code


def _arm(name: str, path: Path) -> tuple[RunResult, tuple[Trial, ...]]:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    redactor = Redactor.from_environment()
    trials = tuple(kept(trial, redactor.text, TrialCaps()) for trial in read_promptfoo(data, str(path)))
    arm = Arm(name, str(path), None, hashlib.sha256(data).hexdigest())
    return RunResult(arm, (), ()), trials


def _compared(arms: list[tuple[RunResult, tuple[Trial, ...]]], directory: Path | None) -> Comparison:
    if directory is not None:
        store.clear(directory)
        for run, trials in arms:
            writer = store.TrialWriter(directory, run.arm.name)
            for trial in trials:
                writer.append(trial)
            writer.close()
            store.write_run(directory, run)
    (base, before), (head, after) = arms
    return replace(compare(base, head), trials=compare_trials(before, after))


def _results_directory(start: Path, output: Path | None) -> Path | None:
    """Give ``output``, else where the repository around ``start`` keeps results; None where nothing does."""
    with suppress(UsageError), open_workbench(start, Choice()) as workbench:
        note_output(workbench.kept_results, output)
        if output is None and obstacle(workbench.kept_results) is None:
            return workbench.kept_results
    return output
