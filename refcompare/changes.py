"""What a comparison says: the kinds of change, one row for each test, and the totals. Pure values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from refcompare.metrics import TrialComparison
from refcompare.results import Arm, AssertionResult, ErrorKind, PassingExploit, Phase, Verdict, WeakSpot


class ChangeKind(StrEnum):
    """What a comparison can say of one test, the most severe first."""

    REGRESSED = "regressed"
    NEWLY_EXPLOITABLE = "newly exploitable"
    BROKEN_WHEN_ADDED = "broken when added"
    EXPLOITABLE_WHEN_ADDED = "exploitable when added"
    REMOVED = "removed"
    UNSTABLE = "unstable"
    NOT_GRADED = "not graded"
    EXPOSURE_CHANGED = "exposure changed"
    WEAKENED = "weakened"
    FIXED = "fixed"
    HARDENED = "hardened"
    ADDED = "added"
    EDITED = "edited"
    UNCHANGED = "unchanged"

    @property
    def severity(self) -> int:
        """The rank: 0 is the most severe."""
        return _SEVERITY[self]


_SEVERITY = {kind: rank for rank, kind in enumerate(ChangeKind)}


class Difference(StrEnum):
    """Something that grading depends on and that can differ between the arms."""

    TEST = "test"
    GRADER = "grader"
    WORDPRESS = "wordpress"
    PHP = "php"
    SQLITE = "sqlite"
    DATABASE = "database"
    RUNTIME = "runtime"


_PRODUCTS = {Difference.WORDPRESS: "WordPress", Difference.PHP: "PHP", Difference.SQLITE: "SQLite"}


@dataclass(frozen=True, slots=True)
class Reason:
    """One difference between the arms that can explain a change.

    ``base`` and ``head`` are versions or names; both are equal where only the digest differs (a
    patched WordPress, another build of the same PHP). ``fields`` are those of the test that were edited.
    """

    what: Difference
    base: str = ""
    head: str = ""
    fields: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The reason in words, ``WordPress 7.1.1 -> 7.2``."""
        if self.what is Difference.TEST:
            names = ", ".join(name.rpartition(".")[2] for name in self.fields)
            return f"test edited ({names})" if names else "test edited"
        if self.what is Difference.GRADER:
            return "grader differs"
        name = _PRODUCTS.get(self.what, self.what.value)
        if self.base == self.head:
            return (
                f"{name} {self.base} with other files"
                if name == "WordPress"
                else f"another build of {name} {self.base}"
            )
        return f"{name} {self.base} -> {self.head}"


@dataclass(frozen=True, slots=True)
class Side:
    """What a row says of one arm's version of a test.

    ``fields`` has a digest of each authored field, where that is known.

    ``verdict``, ``error_kind``, ``phase``, ``message``, ``failure`` (the first assertion that did not
    pass), ``forbidden`` and ``ms`` are those of one attempt of the reference: the first that did not
    pass, or else the first. ``verdict`` is None when the reference has no record. ``verdicts``
    holds every attempt that says something, in order.

    ``audited`` says that this test has an audit, ``auditable`` that cheats could be made for it.
    ``exploits`` passed in every attempt; ``unstable_exploits`` are the labels of those that passed
    only sometimes, ``ungraded_exploits`` of those that only ever met an infrastructure error.
    """

    suite: str
    category: str
    path: str
    line: int
    digest: str
    fields: Mapping[str, str] = field(default_factory=dict)
    verdict: Verdict | None = None
    verdicts: tuple[Verdict, ...] = ()
    error_kind: ErrorKind | None = None
    phase: Phase | None = None
    message: str | None = None
    failure: AssertionResult | None = None
    forbidden: tuple[str, ...] = ()
    ms: float | None = None
    reused: bool = False
    audited: bool = False
    auditable: bool = False
    audit_reason: str | None = None
    exploits: tuple[PassingExploit, ...] = ()
    unstable_exploits: tuple[str, ...] = ()
    ungraded_exploits: tuple[str, ...] = ()
    weak_spots: tuple[WeakSpot, ...] = ()
    mutants_tried: int = 0

    @property
    def graded(self) -> bool:
        """Whether the reference has a verdict that says something about it."""
        return self.verdict is not None and self.error_kind is not ErrorKind.INFRASTRUCTURE

    @property
    def stable(self) -> bool:
        """Whether all attempts of the reference gave the same verdict."""
        return len(set(self.verdicts)) <= 1

    @property
    def passing(self) -> bool:
        """Whether every attempt of the reference passed."""
        return self.graded and set(self.verdicts) == {Verdict.PASS}

    @property
    def never_passing(self) -> bool:
        """Whether the reference was graded and no attempt passed."""
        return self.graded and Verdict.PASS not in self.verdicts


@dataclass(frozen=True, slots=True)
class Change:
    """The one row that a comparison has for one test.

    ``kind`` is the most severe thing that holds; ``also`` are the lesser ones, the most severe first.
    ``base`` is None for a test that the base arm has not, and likewise ``head``. ``reasons`` are
    empty where one arm has not the test, since nothing is compared then.
    """

    test_id: str
    suite: str
    category: str
    kind: ChangeKind
    also: tuple[ChangeKind, ...]
    base: Side | None
    head: Side | None
    reasons: tuple[Reason, ...] = ()

    @property
    def kinds(self) -> tuple[ChangeKind, ...]:
        """Everything that holds, the most severe first."""
        return (self.kind, *self.also)


@dataclass(frozen=True, slots=True)
class CategoryCounts:
    """How many tests of one category one arm has, and how they stand. Each counts tests.

    ``passing`` counts stable passes only; ``invalid`` and ``not_graded`` are references that could
    not be graded because of the test, or because of the environment.
    """

    tests: int = 0
    passing: int = 0
    exploitable: int = 0
    not_auditable: int = 0
    invalid: int = 0
    not_graded: int = 0

    def __add__(self, other: CategoryCounts) -> CategoryCounts:
        return CategoryCounts(
            self.tests + other.tests,
            self.passing + other.passing,
            self.exploitable + other.exploitable,
            self.not_auditable + other.not_auditable,
            self.invalid + other.invalid,
            self.not_graded + other.not_graded,
        )


@dataclass(frozen=True, slots=True)
class CategoryRow:
    """One category on both arms."""

    category: str
    base: CategoryCounts
    head: CategoryCounts


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What the reader should know of one arm's run beside its tests.

    ``seconds`` is wall time. ``records`` counts verdicts, of which ``reused`` came from the cache.
    """

    audited: bool
    partial: bool
    seconds: float
    tests: int
    records: int
    reused: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two arms compared: one ``Change`` for every test id that either has, and the metrics of agent evals.

    ``changes`` are ordered by severity, then category, then test id; ``categories`` by name. ``trials`` is
    empty where no agent worked.
    """

    base: Arm
    head: Arm
    base_run: RunSummary
    head_run: RunSummary
    changes: tuple[Change, ...]
    categories: tuple[CategoryRow, ...]
    trials: TrialComparison = field(default_factory=TrialComparison)

    @property
    def totals(self) -> dict[ChangeKind, int]:
        """How many rows have each kind as their most severe one; kinds without a row are left out."""
        counts = Counter(change.kind for change in self.changes)
        return {kind: counts[kind] for kind in ChangeKind if counts[kind]}

    @property
    def audited(self) -> bool:
        """Whether both arms were audited, so that exposure was compared."""
        return self.base_run.audited and self.head_run.audited

    @property
    def partial(self) -> bool:
        """Whether either run was stopped before every record existed."""
        return self.base_run.partial or self.head_run.partial

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the reader from both arms; one that both arms have is given once."""
        both = set(self.base_run.notes) & set(self.head_run.notes)
        notes = [note for note in dict.fromkeys(self.base_run.notes) if note in both]
        for name, run in ((self.base.name, self.base_run), (self.head.name, self.head_run)):
            notes += [f"{name}: {note}" for note in dict.fromkeys(run.notes) if note not in both]
        return tuple(notes)
