"""Everything that is known of one test, on one arm or two: for a person, or for a script. Pure."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from refcompare.changes import Change
from refcompare.codec import Value, arm_value, audit_value, environment_value, record_value
from refcompare.compare import compare
from refcompare.errors import UsageError
from refcompare.report import words
from refcompare.report.escape import clip_lines, one_line, visible
from refcompare.report.interface import DEFAULTS, Options
from refcompare.report.json import dump
from refcompare.report.layout import MIN_WIDTH, Ink, fact_lines, table, wrap
from refcompare.report.words import Fact, Tone
from refcompare.results import JSON, REFERENCE, SCHEMA_VERSION, Audit, Record, RunResult, TestEntry, Verdict
from refcompare.wording import did_you_mean, quoted

_OUTPUT_LINES = 40
_CODE_LINES = 60
_DIFF_LINES = 400
_LONGEST_DIFF = 4_000
"""Lines of both definitions together from which they are not compared line by line: it could take minutes."""

_BREAK = re.compile(r"(?<!\\)((?:\\\\)*)\\n")


def show(
    test_id: str,
    runs: Sequence[RunResult],
    definitions: Mapping[str, JSON] | None = None,
    options: Options = DEFAULTS,
) -> str:
    """Tell a person all about a test. ``runs`` are one arm or base and head; ``definitions``, by the
    name of the arm, are the test as its tree has it. Raises UsageError where no run has the test.
    """
    arms, change = _find(test_id, runs)
    ink, width = Ink(colour=options.colour), max(options.width, MIN_WIDTH)
    blocks = [*_head(test_id, arms, change, width, ink), *_definition(definitions or {}, runs, ink)]
    for arm in arms:
        blocks += _arm(arm, width, ink)
    return "\n\n".join(block for block in blocks if block) + "\n"


def show_json(test_id: str, runs: Sequence[RunResult], definitions: Mapping[str, JSON] | None = None) -> str:
    """Tell a script the same, all texts at full length. Raises UsageError where no run has the test."""
    arms, change = _find(test_id, runs)
    value: Value = {"schema_version": SCHEMA_VERSION, "test_id": test_id}
    if change is not None:
        value |= {"kind": change.kind.value, "also": [kind.value for kind in change.also]}
        value["reasons"] = [reason.text for reason in change.reasons]
    value["arms"] = [_arm_value(arm, (definitions or {}).get(arm.run.arm.name)) for arm in arms]
    return dump(value)


class _Arm:
    """What one run knows of the test."""

    def __init__(self, run: RunResult, entry: TestEntry) -> None:
        self.run = run
        self.entry = entry
        mine = [record for record in run.records if record.test_id == entry.test_id]
        mine.sort(key=lambda record: record.attempt)
        self.references = [record for record in mine if record.candidate == REFERENCE]
        self.others = [record for record in mine if record.candidate != REFERENCE]
        self.audit: Audit | None = next(
            (audit for audit in run.audits if audit.test_id == entry.test_id), None
        )


def _find(test_id: str, runs: Sequence[RunResult]) -> tuple[list[_Arm], Change | None]:
    arms = []
    for run in runs:
        entry = next((entry for entry in run.tests if entry.test_id == test_id), None)
        if entry is not None:
            arms.append(_Arm(run, entry))
    if not arms:
        known = sorted({entry.test_id for run in runs for entry in run.tests})
        hint = did_you_mean(test_id, known) or f"they hold {words.plural(len(known), 'other test')}."
        raise UsageError(f"no test {quoted(test_id)} in these results; {hint}")
    if len(runs) != 2:
        return arms, None
    changes = compare(runs[0], runs[1]).changes
    return arms, next(change for change in changes if change.test_id == test_id)


# ------------------------------------------------------------------------------- the page


def _head(test_id: str, arms: list[_Arm], change: Change | None, width: int, ink: Ink) -> Iterator[str]:
    entry = arms[-1].entry
    place = f"suite {one_line(entry.suite, 60)}, category {one_line(entry.category, 60)}"
    yield ink.bold(wrap(f"{one_line(test_id, 200)} ({place})", width))
    if change is not None:
        kinds = ", ".join(kind.value for kind in change.kinds)
        both = change.base is not None and change.head is not None
        became = words.transition(change) if both else words.verdict_words(change.head or change.base)
        lines = [ink.tone(f"{kinds}: {became}", words.tone(change.kind))]
        facts = (fact for fact in words.facts(change) if not fact.place)
        yield "\n".join([*lines, *fact_lines(facts, width, ink, limit=1_000)])


def _definition(definitions: Mapping[str, JSON], runs: Sequence[RunResult], ink: Ink) -> Iterator[str]:
    names = [run.arm.name for run in runs if run.arm.name in definitions]
    if len(names) == 1:
        text = clip_lines(visible(canonical(definitions[names[0]])), _DIFF_LINES)
        yield f"definition on {names[0]}\n{text}"
    elif len(names) == 2:
        before, after = names
        lines = definition_diff(definitions[before], definitions[after], before, after)
        shown = clip_lines("\n".join(map(visible, lines)), _DIFF_LINES).split("\n")
        body = "\n".join(_diff_line(line, ink) for line in shown) if lines else "the same on both arms"
        yield f"definition\n{body}"


def _diff_line(line: str, ink: Ink) -> str:
    if line.startswith("+"):
        return ink.tone(line, Tone.GOOD)
    return ink.tone(line, Tone.BAD) if line.startswith("-") else line


def canonical(definition: JSON) -> str:
    """Write a definition for reading: keys sorted, texts broken after the line ends that JSON escapes."""
    text = json.dumps(definition, ensure_ascii=False, indent=2, sort_keys=True)
    return _BREAK.sub(r"\1\\n" + "\n", text)


def definition_diff(
    before: JSON, after: JSON, before_name: str = "base", after_name: str = "head"
) -> list[str]:
    """Give the unified diff of two definitions, line by line; empty where they are the same."""
    old, new = canonical(before).split("\n"), canonical(after).split("\n")
    if old == new:
        return []
    if len(old) + len(new) > _LONGEST_DIFF:
        return [f"differs, and is too long to compare: {len(old):,} lines before, {len(new):,} after"]
    return list(difflib.unified_diff(old, new, before_name, after_name, lineterm=""))


def _arm(arm: _Arm, width: int, ink: Ink) -> Iterator[str]:
    run, entry = arm.run, arm.entry
    environment = run.arm.environment
    on = f" on WordPress {environment.wordpress}, PHP {environment.php}" if environment else ""
    commit = f" ({run.arm.commit[:12]})" if run.arm.commit else ""
    facts = [Fact("at", data=f"{entry.path}:{entry.line}"), Fact("definition digest", data=entry.digest)]
    if entry.invalid:
        facts.append(Fact("invalid", data=entry.invalid))
    title = ink.bold(one_line(f"{run.arm.name}: {run.arm.ref}{commit}{on}", 300))
    yield "\n".join([title, *fact_lines(facts, width, ink, limit=1_000)])
    if not arm.references:
        yield "no verdict of the reference"
    else:
        yield _attempts(arm.references)
        yield from _reference(_most_telling(arm.references), width, ink)
    if arm.audit is not None:
        yield from _audit(arm.audit, width, ink)
    yield _cheats(arm.others)


def _most_telling(records: Sequence[Record]) -> Record:
    return next((record for record in records if record.verdict is not Verdict.PASS), records[0])


def _attempts(records: Sequence[Record]) -> str:
    rows = [
        [
            str(record.attempt),
            _verdict(record),
            "" if record.score is None else f"{record.score:.3f}",
            f"{record.ms:,.1f}",
            record.phase.value if record.phase else "",
            "yes" if record.reused else "",
        ]
        for record in records
    ]
    titles = ["attempt", "reference", "score", "ms", "ended in", "reused"]
    told = [number for number in range(len(titles)) if number < 4 or any(row[number] for row in rows)]
    return table([[row[number] for number in told] for row in rows], [titles[number] for number in told],
                 right=(2, 3))  # fmt: skip


def _verdict(record: Record) -> str:
    if record.error_kind is None:
        return record.verdict.value
    return f"{record.verdict.value} ({record.error_kind.value.replace('_', ' ')})"


def _reference(record: Record, width: int, ink: Ink) -> Iterator[str]:
    facts = [Fact("message", data=record.message)] if record.message else []
    facts += [Fact("forbidden pattern", data=pattern) for pattern in record.forbidden]
    facts += [Fact("required pattern not found", data=pattern) for pattern in record.missing]
    yield "\n".join(fact_lines(facts, width, ink, limit=2_000))
    if record.assertions:
        yield _assertions(record, width)
    if record.output.strip():
        # Of output the end matters, which is what a record keeps.
        lines = visible(record.output).strip("\n").split("\n")
        dropped = len(lines) - _OUTPUT_LINES
        start = [f"… ({dropped:,} lines before)"] if dropped > 0 else []
        kept = clip_lines("\n".join(lines[-_OUTPUT_LINES:]), _OUTPUT_LINES)
        yield "\n".join([ink.dim("output"), *start, kept])


def _assertions(record: Record, width: int) -> str:
    room = max(width - 40, 30)
    rows = []
    for item in record.assertions:
        told = [wrap(one_line(item.description), room)]
        for label, text in (("message", item.message), ("expected", item.expected), ("actual", item.actual)):
            if text is not None and not (item.passed and label != "message"):
                told.append(wrap(f"{label}: {one_line(text, 1_000)}", room, "  "))
        outcome = "pass" if item.passed else "fail"
        rows.append([outcome, one_line(item.type, 24), f"{item.weight:g}", "\n".join(told)])
    return table(rows, ["result", "assertion", "weight", "what it checks"], right=(2,))


def _audit(audit: Audit, width: int, ink: Ink) -> Iterator[str]:
    state = "exploitable" if audit.exploitable else "not exploitable" if audit.auditable else "not auditable"
    facts = [Fact("note" if audit.auditable else "because", data=audit.reason)] if audit.reason else []
    if audit.gateway:
        facts.append(Fact("function inferred" if audit.inferred else "function", data=audit.gateway))
    tried = f"{audit.candidates_tried:,}; mutants: {audit.mutants_tried:,}"
    facts.append(Fact("candidates tried", text=tried))
    if audit.stopped_early:
        facts.append(Fact("stopped", text="cheats of a class were left untried once one passed"))
    facts += [Fact("weak spot", data=words.weak_spot_words(spot)) for spot in audit.weak_spots]
    title = ink.tone(
        state, Tone.BAD if audit.exploitable else Tone.GOOD if audit.auditable else Tone.DOUBTFUL
    )
    yield "\n".join([title, *fact_lines(facts, width, ink, limit=1_000)])
    for exploit in audit.passing_exploits:
        named = ink.dim(f"{words.PASSING_CHEAT} {one_line(words.exploit_words(exploit), 200)}")
        yield f"{named}\n{clip_lines(visible(exploit.code).strip(chr(10)), _CODE_LINES)}"


def _cheats(records: Sequence[Record]) -> str:
    """Give the verdict of every attempt of every other candidate, one candidate a row."""
    verdicts: dict[str, list[Record]] = {}
    for record in records:
        verdicts.setdefault(record.candidate, []).append(record)
    rows = [
        [one_line(candidate, 60), ", ".join(map(_verdict, attempts)), f"{attempts[0].ms:,.1f}"]
        for candidate, attempts in sorted(verdicts.items())
    ]
    return table(rows, ["candidate", "verdict", "ms"], right=(2,)) if rows else ""


# -------------------------------------------------------------------------- for a script


def _arm_value(arm: _Arm, definition: Any) -> Value:
    entry = arm.entry
    value: Value = arm_value(arm.run.arm)
    if arm.run.arm.environment is not None:
        value["environment"] = environment_value(arm.run.arm.environment)
    value |= {"path": entry.path, "line": entry.line, "digest": entry.digest}
    if entry.invalid is not None:
        value["invalid"] = entry.invalid
    value["records"] = [record_value(record) for record in (*arm.references, *arm.others)]
    if arm.audit is not None:
        value["audit"] = audit_value(arm.audit)
    return value if definition is None else value | {"definition": definition}
