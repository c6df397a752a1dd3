"""What one step of the action leaves for the next: files in a directory of its own, no command lines."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from refcompare.errors import UsageError
from refcompare.github.artifact import OUTCOME
from refcompare.github.inputs import Inputs
from refcompare.github.page import Names

STATE_VARIABLE = "REFCOMPARE_STATE"
"""The environment variable that leads a later step to the job's directory."""

_JOB = "job.json"
_RESULTS = "results"
_LARGEST_OUTCOME = 64 * 1024
_LONGEST_SENTENCE = 4_000

Conclusion = Literal["success", "failure", "error", "skipped"]


@dataclass(frozen=True, slots=True)
class Job:
    """What is compared and for whom. ``base`` and ``head`` are full SHAs, ``head`` perhaps WORKTREE.

    ``pull`` is the pull request to comment on, ``reported`` the commit that a check run is for.
    """

    directory: Path
    inputs: Inputs
    base: str
    head: str
    names: Names
    pull: int | None = None
    reported: str | None = None

    @property
    def results(self) -> Path:
        """Where the comparison is written, and what is uploaded."""
        return self.directory / _RESULTS

    def save(self) -> None:
        """Write the job for the steps that follow."""
        value = asdict(self) | {"directory": str(self.directory)}
        (self.directory / _JOB).write_text(json.dumps(value, indent=2), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a comparison ended. ``sentence`` is for the reader; ``exit_code`` is the job's."""

    conclusion: Conclusion
    sentence: str
    exit_code: int


def new_directory(temporary: Path) -> Path:
    """Make a directory that lives as long as the job."""
    place = temporary / "refcompare" / "jobs"
    place.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=place))


def load_job(directory: str | None) -> Job:
    """Read what an earlier step saved. Raises UsageError where there was none."""
    try:
        value: dict[str, Any] = json.loads((Path(directory or "?") / _JOB).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{STATE_VARIABLE} leads to no job: run `refcompare action prepare` in an earlier step."
        ) from error
    given: dict[str, Any] = {
        name: tuple(item) if isinstance(item, list) else item for name, item in value.pop("inputs").items()
    }
    inputs = Inputs(**given)
    names = Names(**value.pop("names"))
    return Job(directory=Path(value.pop("directory")), inputs=inputs, names=names, **value)


def save_outcome(results: Path, outcome: Outcome) -> None:
    """Write how it ended beside the results."""
    results.mkdir(parents=True, exist_ok=True)
    (results / OUTCOME).write_text(json.dumps(asdict(outcome), indent=2) + "\n", encoding="utf-8")


def read_outcome(results: Path) -> Outcome | None:
    """Read how it ended, from a file that a stranger may have made; None where it does not say."""
    try:
        with (results / OUTCOME).open("rb") as file:
            value: object = json.loads(file.read(_LARGEST_OUTCOME))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(value, Mapping):
        return None
    conclusion, sentence, code = value.get("conclusion"), value.get("sentence"), value.get("exit_code")
    if conclusion not in ("success", "failure", "error", "skipped") or not isinstance(sentence, str):
        return None
    if not isinstance(code, int) or isinstance(code, bool) or not 0 <= code <= 255:
        return None
    return Outcome(conclusion, sentence[:_LONGEST_SENTENCE], code)
