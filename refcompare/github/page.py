"""From results on disk to what GitHub shows of them: the comment and the job's summary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from refcompare.changes import ChangeKind, Comparison
from refcompare.compare import compare
from refcompare.gate import GateResult, gate
from refcompare.metrics import TrialComparison, compare_trials
from refcompare.report.escape import code, code_block, marker
from refcompare.report.interface import Options
from refcompare.report.markdown import render
from refcompare.results import RunResult
from refcompare.store import CAPS, Caps, read_arms, read_trials

COMMENT_CHARACTERS = 65_536

_SIGN = "⚠️"


@dataclass(frozen=True, slots=True)
class Answer:
    """A comparison with the gate's word on it."""

    comparison: Comparison
    gate: GateResult

    def count(self, kind: ChangeKind) -> int:
        """Count the tests of which this holds, also where something worse does."""
        return sum(kind in change.kinds for change in self.comparison.changes)

    @property
    def new_verdicts(self) -> bool:
        """Whether anything was graded that was not known before."""
        runs = (self.comparison.base_run, self.comparison.head_run)
        return any(run.records > run.reused for run in runs)


@dataclass(frozen=True, slots=True)
class Names:
    """What the arms are called for the reader: ``main``, ``#12 merged``."""

    base: str
    head: str


def read_answer(directory: Path, fail_on: frozenset[ChangeKind], names: Names, caps: Caps = CAPS) -> Answer:
    """Compare the results in a directory anew. Raises ResultsError where they are damaged."""
    base, head = read_arms(directory, caps)
    trials = compare_trials(*(read_trials(directory, arm, caps) for arm in ("base", "head")))
    return make_answer(base, head, fail_on, names, trials)


def make_answer(
    base: RunResult,
    head: RunResult,
    fail_on: frozenset[ChangeKind],
    names: Names,
    trials: TrialComparison | None = None,
) -> Answer:
    """Compare two runs under names that say more than the SHAs that were graded."""
    comparison = compare(_named(base, names.base), _named(head, names.head))
    if trials is not None:
        comparison = replace(comparison, trials=trials)
    return Answer(comparison, gate(comparison, fail_on))


def comment(answer: Answer, key: str, report_url: str = "", footer: str = "") -> str:
    """Give the comment: its hidden marker, the comparison, and ``footer``, which is Markdown."""
    ending = f"\n{footer}\n" if footer else ""
    options = Options(
        key=key,
        report_url=report_url or None,
        limit=COMMENT_CHARACTERS - len(ending.encode("utf-16-le")) // 2,
    )
    return render(answer.comparison, answer.gate, options) + ending


def without_verdict(sentence: str, key: str, names: Names, report_url: str = "", footer: str = "") -> str:
    """Give the comment of a comparison that came to no verdict, for the reason in ``sentence``."""
    base, head = (code(name, 80) or "?" for name in (names.base, names.head))
    parts = [marker(key), f"{_SIGN} **no verdict** ({base} → {head})", code_block(sentence, lines=40)]
    if report_url:
        parts.append(f"[The job]({report_url})")
    if footer:
        parts.append(footer)
    return "\n\n".join(parts) + "\n"


def summary(answer: Answer, room: int) -> str:
    """Give the job's summary in at most ``room`` bytes, by leaving rows out; empty where nothing fits."""
    limit = room
    for _ in range(6):
        text = without_marker(render(answer.comparison, answer.gate, Options(limit=limit)))
        size = len(text.encode())
        if size <= room:
            return text
        limit = int(limit * room / size * 0.9)
    return ""


def without_marker(text: str) -> str:
    """Take the hidden marker off a page that is no comment."""
    first, _, rest = text.partition("\n")
    return rest.lstrip("\n") if first.startswith("<!--") else text


def _named(run: RunResult, name: str) -> RunResult:
    commit = run.arm.commit
    return replace(run, arm=replace(run.arm, ref=f"{name} ({commit[:7]})" if commit else name))
