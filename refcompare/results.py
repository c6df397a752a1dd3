"""What a run produces: records, audits and the arm they belong to. Pure values, no I/O.

Every type here is what is written to ``records.jsonl`` and ``run.json``; the published JSON
Schemas in ``datasets/schema`` describe the same shapes, versioned by ``SCHEMA_VERSION``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

SCHEMA_VERSION = 1

REFERENCE = "reference"
"""The candidate name of a test's own reference solution."""

JSON = None | bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"]


class Verdict(StrEnum):
    """What grading one candidate against one test said."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"


class ErrorKind(StrEnum):
    """Why a verdict is ``error``; an error is neither a fail of the contract nor a pass."""

    TIMEOUT = "timeout"
    CRASH = "crash"
    OUT_OF_MEMORY = "out_of_memory"
    TAMPERED = "tampered"
    INVALID = "invalid"
    INFRASTRUCTURE = "infrastructure"


class Phase(StrEnum):
    """Where in the order plugin, setup, candidate, assertions a run ended early."""

    PLUGIN = "plugin"
    SETUP = "setup"
    CANDIDATE = "candidate"
    ASSERTIONS = "assertions"
    TEARDOWN = "teardown"


@dataclass(frozen=True, slots=True)
class AssertionResult:
    """One assertion's outcome. ``expected`` and ``actual`` are short renderings, for reading only."""

    type: str
    description: str
    passed: bool
    weight: float = 1.0
    message: str | None = None
    expected: str | None = None
    actual: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One candidate graded once against one test on one arm.

    ``candidate`` is ``reference``, ``exploit:LABEL``, ``mutant:LABEL`` or ``completion:MODEL``.
    ``ms`` is the wall time of the grading in milliseconds. ``score`` is the weighted share of
    passed assertions from 0 to 1, None where no assertion ran. ``attempt`` counts from 1; later
    attempts are confirmation reruns. ``reused`` says that the verdict came from the cache.
    """

    test_id: str
    candidate: str
    verdict: Verdict
    ms: float
    error_kind: ErrorKind | None = None
    phase: Phase | None = None
    message: str | None = None
    assertions: tuple[AssertionResult, ...] = ()
    score: float | None = None
    forbidden: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    output: str = ""
    attempt: int = 1
    reused: bool = False

    @property
    def first_failure(self) -> AssertionResult | None:
        """The first assertion that did not pass, in the order in which they ran."""
        return next((item for item in self.assertions if not item.passed), None)


@dataclass(frozen=True, slots=True)
class Environment:
    """What graded an arm. Two equal environments give the same verdict for the same test.

    ``wordpress``, ``php`` and ``sqlite`` are version numbers; each ``*_digest`` is a hex SHA-256
    over the files (WordPress, grader) or the build and its extensions (PHP).
    """

    wordpress: str
    wordpress_digest: str
    php: str
    php_digest: str
    sqlite: str
    grader_digest: str
    runtime: str = "native"
    database: str = "sqlite"


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison: a resolved ref with the environment that graded it.

    ``name`` is ``base`` or ``head``; ``ref`` is what the user typed; ``commit`` is None for
    ``WORKTREE``; ``tree`` is the digest of the tree that was read.
    """

    name: str
    ref: str
    commit: str | None
    tree: str
    environment: Environment | None = None


@dataclass(frozen=True, slots=True)
class TestEntry:
    """What one arm's tree says of one test. ``invalid`` holds the reason when it can't be graded.

    ``path`` is relative to the tree's root, ``line`` counts from 1 and points at the test's own
    line in its file (for an invalid one at what is wrong). ``digest`` is a hex SHA-256 over every
    authored field but ``metadata``, so that an edit of the prompt counts as one; verdicts are
    keyed by the narrower ``ExecutionTest.digest``, which covers only what grading depends on.
    ``fields`` has a short digest of each field under ``digest``; it is empty for an invalid test.
    """

    __test__ = False  # not a pytest class

    test_id: str
    suite: str
    category: str
    path: str
    line: int
    digest: str
    invalid: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PassingExploit:
    """A cheat that passed. ``exploit_class`` is generic, authored, harvested, patterns or forger."""

    label: str
    exploit_class: str
    code: str


@dataclass(frozen=True, slots=True)
class WeakSpot:
    """A mutant of the reference that still passes: the line in the reference and what was changed."""

    line: int
    mutation: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Audit:
    """What the exploit audit of one test found.

    ``auditable`` is False where no cheat could be made (``reason`` says why). ``gateway`` is the
    function that cheats replace; ``inferred`` says that it was inferred rather than authored.
    ``stopped_early`` says that cheats of a class were left untried after one passed.
    """

    test_id: str
    auditable: bool
    passing_exploits: tuple[PassingExploit, ...] = ()
    weak_spots: tuple[WeakSpot, ...] = ()
    candidates_tried: int = 0
    mutants_tried: int = 0
    gateway: str | None = None
    inferred: bool = False
    stopped_early: bool = False
    reason: str | None = None

    @property
    def exploitable(self) -> bool:
        """Whether at least one cheat passed."""
        return bool(self.passing_exploits)


@dataclass(frozen=True, slots=True)
class RunResult:
    """Everything that one arm produced. ``audited`` says whether the exploit audit ran.

    ``partial`` is True when the run was stopped before every record existed; ``seconds`` is wall
    time. ``notes`` are sentences for the reader (unknown fields, unreadable files).
    """

    arm: Arm
    tests: tuple[TestEntry, ...]
    records: tuple[Record, ...]
    audits: tuple[Audit, ...] = ()
    audited: bool = False
    partial: bool = False
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
