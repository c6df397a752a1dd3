"""Small results for the tests of what is made from them, built by naming only what matters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import settings

from refcompare.results import (
    REFERENCE,
    Arm,
    AssertionResult,
    Audit,
    Environment,
    ErrorKind,
    PassingExploit,
    Record,
    RunResult,
    TestEntry,
    Verdict,
    WeakSpot,
)

ENVIRONMENT = Environment(
    wordpress="7.1.1",
    wordpress_digest="a" * 64,
    php="8.2.29",
    php_digest="b" * 64,
    sqlite="3.40.1",
    grader_digest="c" * 64,
)
DETERMINISTIC = settings(deadline=None, derandomize=True)
"""For property tests: the same examples every time, on a machine of any speed."""

PASS, FAIL = Verdict.PASS, Verdict.FAIL


def arm(name: str = "head", *, environment: Environment | None = ENVIRONMENT, ref: str | None = None) -> Arm:
    ref = ref or {"base": "main", "head": "feature"}[name]
    return Arm(name=name, ref=ref, commit=name[0] * 40, tree=name[-1] * 40, environment=environment)


def entry(
    test_id: str = "t",
    *,
    category: str = "hooks",
    digest: str = "d1",
    invalid: str | None = None,
    line: int = 3,
    suite: str = "core",
) -> TestEntry:
    path = f"datasets/suites/{suite}/execution/{category}.json"
    return TestEntry(test_id, suite, category, path, line, digest, invalid)


def record(
    test_id: str = "t",
    verdict: Verdict = PASS,
    *,
    candidate: str = REFERENCE,
    attempt: int = 1,
    **fields: Any,
) -> Record:
    """Give a record; a failing one has an assertion that failed, unless told otherwise."""
    if verdict is Verdict.FAIL and "assertions" not in fields:
        fields["assertions"] = (
            AssertionResult("function_exists", "declares the function", True),
            AssertionResult(
                "custom_assertion", "filters the title", False, message="Title was not filtered."
            ),
        )
    return Record(test_id, candidate, verdict, fields.pop("ms", 12.5), attempt=attempt, **fields)


def error(test_id: str = "t", kind: ErrorKind = ErrorKind.TIMEOUT, **fields: Any) -> Record:
    return record(test_id, Verdict.ERROR, error_kind=kind, **fields)


def infrastructure(test_id: str = "t", **fields: Any) -> Record:
    return error(test_id, ErrorKind.INFRASTRUCTURE, message="the worker could not be started", **fields)


def exploit(
    label="return-1", *, exploit_class="generic", code="function f() { return 1; }"
) -> PassingExploit:
    return PassingExploit(label, exploit_class, code)


def audit(
    test_id: str = "t",
    *labels: str,
    survivors: int = 0,
    mutants: int = 0,
    auditable: bool = True,
    **fields: Any,
) -> Audit:
    return Audit(
        test_id,
        auditable,
        passing_exploits=tuple(exploit(label) for label in labels),
        weak_spots=tuple(
            WeakSpot(line, "a statement dropped", f"drop-{line}") for line in range(1, survivors + 1)
        ),
        candidates_tried=9,
        mutants_tried=mutants,
        **fields,
    )


def run(
    name: str = "head",
    tests: Iterable[TestEntry] = (),
    records: Iterable[Record] = (),
    audits: Iterable[Audit] = (),
    **fields: Any,
) -> RunResult:
    """Give a run; it counts as audited when it has audits, unless told otherwise."""
    environment = fields.pop("environment", ENVIRONMENT)
    audits = tuple(audits)
    fields.setdefault("audited", bool(audits))
    return RunResult(
        arm(name, environment=environment), tuple(tests), tuple(records), audits, seconds=1.5, **fields
    )


def many(count: int, *, every_head_fails: bool = False) -> tuple[RunResult, RunResult]:
    """Give a pair of runs of ``count`` tests in 20 categories, unchanged or all regressed."""
    tests = [entry(f"test-{number:05}", category=f"category-{number % 20:02}") for number in range(count)]
    base = [record(test.test_id) for test in tests]
    head = [record(test.test_id, FAIL) for test in tests] if every_head_fails else base
    return run("base", tests, base), run("head", tests, head)


@dataclass(frozen=True)
class Sketch:
    """One arm's version of a test: a verdict for each attempt (None: the environment failed), and cheats."""

    verdicts: tuple[Verdict | None, ...]
    digest: str = "d1"
    labels: tuple[str, ...] = ()
    survivors: int = 0

    def result(self, test_id: str) -> RunResult:
        """Give a run of this test alone."""
        records = [
            infrastructure(test_id) if verdict is None else record(test_id, verdict, attempt=number)
            for number, verdict in enumerate(self.verdicts, 1)
        ]
        audits = [audit(test_id, *self.labels, survivors=self.survivors, mutants=10)]
        return run("head", [entry(test_id, digest=self.digest, category=test_id[0])], records, audits)


def sketch(
    *verdicts: Verdict | None, digest: str = "d1", labels: Iterable[str] = (), survivors: int = 0
) -> Sketch:
    return Sketch(verdicts, digest, tuple(labels), survivors)


EVERYTHING = {
    "a-regressed": (sketch(PASS), sketch(FAIL, FAIL, digest="d2")),
    "b-newly-exploitable": (sketch(PASS), sketch(PASS, labels=["return-1", "literal-2"])),
    "c-broken-when-added": (None, sketch(FAIL)),
    "d-exploitable-when-added": (None, sketch(PASS, labels=["empty-stub"])),
    "e-removed": (sketch(PASS), None),
    "f-unstable": (sketch(PASS), sketch(FAIL, PASS)),
    "g-not-graded": (sketch(PASS), sketch(None)),
    "h-exposure-changed": (sketch(PASS, labels=["return-1"]), sketch(PASS, labels=["return-0"])),
    "i-weakened": (sketch(PASS, survivors=1), sketch(PASS, survivors=3)),
    "j-fixed": (sketch(FAIL), sketch(PASS)),
    "k-hardened": (sketch(PASS, labels=["return-1"]), sketch(PASS)),
    "l-added": (None, sketch(PASS)),
    "m-edited": (sketch(PASS), sketch(PASS, digest="d2")),
    "n-unchanged": (sketch(PASS), sketch(PASS)),
}


def a_bit_of_everything() -> tuple[RunResult, RunResult]:
    """Give a pair of runs with one row of every kind of change, the head on a newer WordPress."""
    newer = replace(ENVIRONMENT, wordpress="7.2", wordpress_digest="e" * 64)
    base, head = run("base", audited=True), run("head", audited=True, environment=newer)
    for test_id, (before, after) in EVERYTHING.items():
        base = _joined(base, before.result(test_id)) if before else base
        head = _joined(head, after.result(test_id)) if after else head
    return base, head


def _joined(one: RunResult, other: RunResult) -> RunResult:
    return replace(
        one,
        tests=one.tests + other.tests,
        records=one.records + other.records,
        audits=one.audits + other.audits,
    )


HOSTILE_TEXTS = (
    "a | b `c` ``d`` ``` e",
    "<script>alert(1)</script><!-- refcompare:default --><img src=x onerror=y>",
    "@octocat, @org/team, fixes #12, GH-3, org/repo#4, deadbeefdeadbeefdeadbeefdeadbeefdeadbeef",
    "[click](https://evil.example) https://evil.example www.evil.example bob@evil.example",
    "\u202eevil\u202c \u200bzero\u200d \ufeff \u2066x\u2069 \u00ad \U000e0041",
    "\x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \x9b31m \x07 \x00",
    "line one\nline two\r\nline three\u2028four",
    "\udc80\ud83d lone surrogates",
    "$x_y$ **bold** _em_ ~~gone~~ :tada: \\| \\ &amp; &#64; # heading",
    "</pre></details></code></td></table>\n\n# heading\n\n```php\n",
    "עברית 漢字 🎉 é",
)


def hostile(text: str) -> tuple[RunResult, RunResult]:
    """Give a pair of runs in which everything that somebody else can write is ``text``."""
    failed = (AssertionResult(text, text, False, 1.0, text, text, text),)
    test = entry(text, category=text, suite=text, digest=text)
    broken = entry(f"{text}2", category=text, invalid=text)
    cheat = exploit(text, exploit_class=text, code=text)
    found = replace(audit(text), passing_exploits=(cheat,), reason=text, gateway=text)
    head = run(
        "head",
        [test, broken],
        [
            record(
                text, FAIL, message=text, assertions=failed, output=text, forbidden=(text,), missing=(text,)
            )
        ],
        [found],
        notes=(text,),
    )
    environment = replace(ENVIRONMENT, wordpress=text, php=text, sqlite=text, runtime=text)
    head = replace(head, arm=replace(head.arm, ref=text, commit=text, environment=environment))
    return run("base", [test, entry(f"{text}2")], [record(text), record(f"{text}2")], [audit(text)]), head
