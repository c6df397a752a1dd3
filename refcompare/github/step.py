"""What every step of the action begins with: its surroundings, its log, the command that it runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from refcompare.arms import Choice
from refcompare.changes import ChangeKind
from refcompare.errors import RefcompareError, UsageError
from refcompare.github import page
from refcompare.github.api import Client, Patience
from refcompare.github.inputs import Inputs
from refcompare.github.job import STATE_VARIABLE, Job, Outcome, load_job, read_outcome
from refcompare.github.outputs import Log, add_summary
from refcompare.github.page import Answer
from refcompare.github.runner import Runner
from refcompare.paths import CACHE_VARIABLE
from refcompare.report.escape import code
from refcompare.store import COMPARISON, read_comparison

PATIENCE_VARIABLE = "REFCOMPARE_GITHUB_SECONDS"
"""The environment variable that bounds the seconds of one call to GitHub, waiting included."""

INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Step:
    """Where a step runs, and where it says what it does."""

    runner: Runner
    log: Log

    @classmethod
    def begin(cls) -> Step:
        """Read the surroundings, and let all that refcompare keeps lie in the runner's temporary place."""
        runner = Runner.from_environment()
        os.environ.setdefault(CACHE_VARIABLE, str(runner.temporary / "refcompare" / "cache"))
        _trust_checkout()
        return cls(runner, Log())

    def client(self) -> Client:
        """Give the GitHub API as this step's token sees it."""
        total = os.environ.get(PATIENCE_VARIABLE, "")
        patience = Patience(total=float(total)) if total.isdigit() else Patience()
        return Client(self.runner.token, self.runner.api_url, patience=patience, say=self.log.say)

    def repository(self, inputs: Inputs) -> Path:
        """Give the directory to compare in. Raises UsageError for one outside of the workspace."""
        workspace = self.runner.workspace.resolve()
        place = (workspace / inputs.working_directory).resolve()
        if not place.is_relative_to(workspace):
            raise UsageError("The input working-directory leads out of the workspace.")
        return place

    def warn(self, sentence: str) -> None:
        """Say, in the log and in the summary, what did not work although the job goes on."""
        self.log.tell("warning", sentence, title="refcompare")
        add_summary(self.runner.summary, f"> [!WARNING]\n> {as_markdown(sentence)}\n")

    def fail(self, sentence: str) -> None:
        """Say, in the log and in the summary, why the job fails."""
        self.log.tell("error", sentence, title="refcompare")
        add_summary(self.runner.summary, f"> [!CAUTION]\n> {as_markdown(sentence)}\n")

    def note(self, sentence: str) -> None:
        """Say, in the log and in the summary, why there is nothing to do."""
        self.log.tell("notice", sentence, title="refcompare")
        add_summary(self.runner.summary, as_markdown(sentence))


def as_markdown(sentence: str) -> str:
    """Give a sentence as Markdown that shows it as it is."""
    return code(sentence, 1_000)


def current_job() -> Job:
    """Give the job that ``refcompare action prepare`` found. Raises UsageError where it did not run."""
    return load_job(os.environ.get(STATE_VARIABLE))


def ended(job: Job) -> Outcome:
    """Say how the comparison ended. Raises UsageError where it did not run."""
    outcome = read_outcome(job.results)
    if outcome is None:
        raise UsageError("Nothing was compared yet: run `refcompare action compare` in an earlier step.")
    return outcome


def has_comparison(job: Job) -> bool:
    """Say whether the comparison came to its end, whatever it found."""
    return (job.results / COMPARISON).is_file()


def read_answer(job: Job) -> Answer:
    """Give the comparison that this job made, under its gate."""
    kinds = read_comparison(job.results)["fail_on"]
    assert isinstance(kinds, list)  # as its schema says
    return page.read_answer(job.results, frozenset(ChangeKind(kind) for kind in kinds), job.names)


def choice_of(inputs: Inputs) -> Choice:
    """Give the inputs that say what the arms are."""
    return Choice(
        config=Path(inputs.config) if inputs.config else None,
        suites=inputs.suites,
        wordpress=inputs.wordpress or None,
        runtime=inputs.runtime,
    )


def run_comparison(job: Job, directory: Path) -> tuple[int, str]:
    """Run ``refcompare compare`` in a directory; give its exit status, and why it came to none."""
    import click

    from refcompare.cli import cli

    for name in ("GITHUB_TOKEN", "GH_TOKEN"):  # nothing that grades needs one
        os.environ.pop(name, None)
    os.chdir(directory)
    words = ["compare", job.base, job.head, *job.inputs.compare_options(), f"--output={job.results}"]
    try:
        cli.main(words, prog_name="refcompare", standalone_mode=False)
    except SystemExit as end:
        return (end.code if isinstance(end.code, int) else 1), ""
    except RefcompareError as error:
        return error.exit_code, str(error)
    except click.ClickException as error:
        return error.exit_code, error.format_message()
    except click.Abort:
        return INTERRUPTED, "The comparison was stopped."
    return 0, ""


def _trust_checkout() -> None:
    """Let git work in a checkout that another user made, as in a job that runs in a container.

    This holds for this process and what it starts; what is trusted is the job's own workspace.
    """
    count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    os.environ[f"GIT_CONFIG_KEY_{count}"] = "safe.directory"
    os.environ[f"GIT_CONFIG_VALUE_{count}"] = "*"
    os.environ["GIT_CONFIG_COUNT"] = str(count + 1)
