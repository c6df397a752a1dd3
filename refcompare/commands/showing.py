"""``refcompare show``: all that is known of one test, or of one eval and its trials."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from refcompare import store
from refcompare.arms import Choice, open_workbench
from refcompare.commands.printing import render_options
from refcompare.errors import UsageError
from refcompare.newest import newest_results
from refcompare.report import trial as trial_report
from refcompare.report.show import show, show_json
from refcompare.wording import quoted


def show_test(
    start: Path, test_id: str, results: Path | None, as_json: bool, out: TextIO, trial: int | None = None
) -> int:
    """Show all that is known of one test, or of one eval and its trials."""
    with open_workbench(start, Choice()) as workbench:
        directory = results or newest_results(workbench.kept_results)
        names = [name for name in ("base", "head") if (directory / name / store.RUN).is_file()]
        if not names:
            raise UsageError(
                f"There are no results in {directory}: compare two refs first, "
                "or give --results a directory that --output wrote."
            )
        trials = trial_report.find(test_id, {name: store.read_trials(directory, name) for name in names})
        if trials:
            _show_trials(test_id, trial, trials, as_json, out)
            return 0
        if trial is not None:
            raise UsageError(f"--trial is about agents, and these results have no eval {quoted(test_id)}.")
        runs = [store.read_run(directory, name) for name in names]
        definitions = {
            run.arm.name: found
            for run in runs
            if (found := workbench.definition(run.arm, test_id)) is not None
        }
    if as_json:
        out.write(show_json(test_id, runs, definitions))
    else:
        out.write(show(test_id, runs, definitions, render_options(out)))
    return 0


def _show_trials(
    name: str, number: int | None, trials: trial_report.Trials, as_json: bool, out: TextIO
) -> None:
    if as_json:
        out.write(trial_report.trials_json(name, number, trials))
    elif number is None:
        out.write(trial_report.show_eval(name, trials, render_options(out)))
    else:
        out.write(trial_report.show_trial(name, number, trials, render_options(out)))
