"""Holds the suites of a tree to the rules: reads every file once, asks every rule, applies the waivers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from refcompare.agents.evals import EVAL_GLOBS, EvalSet, load_evals
from refcompare.execution.definition import build
from refcompare.execution.loader import SourceFile, SourceTest
from refcompare.execution.model import ExecutionTest
from refcompare.rules import format
from refcompare.rules.catalogue import ALL, UNUSED_WAIVER, Chosen
from refcompare.rules.model import EvalSubject, Finding, Needs, Prompt, Rule, Severity, Subject
from refcompare.rules.waivers import Waiver, eval_waivers, waived, waivers
from refcompare.suites import DEFAULT_GLOBS, sources
from refcompare.tree import Tree
from refcompare.wordpress.symbols import Symbols


@dataclass(frozen=True, slots=True)
class Checked:
    """The findings by path and line, and the names of the rules that could not be asked, with what they lack.

    ``tests`` and ``evals`` count what was looked at.
    """

    findings: tuple[Finding, ...]
    unasked: tuple[tuple[str, Needs], ...] = ()
    tests: int = 0
    evals: int = 0

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return sum(finding.severity == "error" for finding in self.findings)


class Suites:
    """The suites of a tree as read, so that rules which run tests can look at the same subjects."""

    def __init__(
        self,
        tree: Tree,
        globs: Sequence[str] = DEFAULT_GLOBS,
        symbols: Symbols | None = None,
        eval_globs: Sequence[str] = EVAL_GLOBS,
    ) -> None:
        self.tree = tree
        self.symbols = symbols
        self.missing: list[str] = []
        self.files = tuple(sources(tree, globs, self.missing))
        self.evals: EvalSet = load_evals(tree, eval_globs)
        self.subjects = tuple(self._subjects())

    def _subjects(self) -> Iterator[Subject]:
        """Give the tests that can be graded; what is wrong with the others is said by the format's rules."""
        for file in self.files:
            for entry in file.tests:
                if next(file.problems(entry), None) is None:
                    yield Subject(file, entry, _built(file, entry), self.symbols)

    @property
    def prompts(self) -> list[Prompt]:
        """Every prompt of a test or an eval, in the order of the files."""
        found = [
            Prompt(
                subject.file.path,
                subject.file.line_of(subject.entry, ("prompt",)),
                subject.test.id,
                subject.test.prompt,
                "test",
            )
            for subject in self.subjects
        ]
        return found + [
            Prompt(item.path, item.line, item.id, item.prompt, "eval") for item in self.evals.evals
        ]


def _built(file: SourceFile, entry: SourceTest) -> ExecutionTest:
    return build(entry.value, suite=file.suite, category=file.category, path=file.path, line=entry.line)


def check_suites(
    tree: Tree,
    globs: Sequence[str] = DEFAULT_GLOBS,
    *,
    chosen: Chosen = Chosen(),  # noqa: B008 (it is frozen)
    symbols: Symbols | None = None,
) -> Checked:
    """Check every file that ``globs`` name, and every agent eval of the tree. Never raises for content.

    ``symbols`` are those of the release that the tests are for; without them its rules are not asked.
    """
    return check(Suites(tree, globs, symbols), chosen)


def check(suites: Suites, chosen: Chosen, measured: Iterable[Finding] | None = None) -> Checked:
    """Ask the rules. ``measured`` are the findings of rules that run tests, None where nothing was run."""
    has: set[Needs] = {"nothing"}
    if suites.symbols is not None:
        has.add("release")
    if measured is not None:
        has.add("run")
    # Whether a waiver is used shows only where everything that it may be about is asked.
    everything = UNUSED_WAIVER in chosen.only
    asked = [
        rule for rule in ALL if chosen.has(rule.name) or (everything and rule.name not in chosen.ignored)
    ]
    ran = frozenset(rule.name for rule in asked if rule.needs in has)
    findings = [*_format(suites), *(measured or ())]
    rules = [rule for rule in asked if rule.name in ran]
    for subject in suites.subjects:
        for rule in rules:
            findings.extend(_objections(rule, subject))
        subject.forget()
    for rule in rules:
        findings.extend(_ask(rule, suites))
    given = [item for subject in suites.subjects for item in waivers(subject)]
    given += [item for one in suites.evals.evals for item in eval_waivers(one)]
    refused = [item for item in given if isinstance(item, Finding)]
    left = waived(findings, (item for item in given if isinstance(item, Waiver)), ran)
    return Checked(
        findings=tuple(sorted(item for item in {*left, *refused} if chosen.has(item.rule))),
        unasked=tuple((rule.name, rule.needs) for rule in asked if rule.name not in ran),
        tests=sum(len(file.tests) for file in suites.files),
        evals=len(suites.evals.evals),
    )


def _format(suites: Suites) -> Iterator[Finding]:
    evals = suites.evals
    # A repository may have agent evals alone; a glob beside others that match is a slip of the pen.
    if suites.files or not (evals.evals or evals.invalid):
        severity: Severity = "warning" if suites.files else "error"
        yield from (format.unmatched(glob, severity) for glob in suites.missing)
    yield from format.findings(suites.files, evals)


def _ask(rule: Rule, suites: Suites) -> Iterator[Finding]:
    """Ask a rule that looks at more than one test, or at evals."""
    if rule.prompts is not None:
        for prompt, message, mend in rule.prompts(suites.prompts):
            place, owner = (prompt.path, prompt.line), prompt.owner
            yield Finding(*place, rule.name, message, mend, rule.severity, owner=owner)
    if rule.eval is not None:
        paths = frozenset(file.path for file in suites.tree.files())
        for item in suites.evals.evals:
            for line, message, mend in rule.eval(EvalSubject(item, suites.tree, paths)):
                yield Finding(item.path, line, rule.name, message, mend, rule.severity, owner=item.id)


def _objections(rule: Rule, subject: Subject) -> Iterator[Finding]:
    objections = rule.test(subject) if rule.test is not None else iter(())
    for objection in islice(objections, format.MOST_OF_A_KIND):
        yield Finding(
            path=subject.file.path,
            line=subject.file.line_of(subject.entry, objection.where),
            rule=rule.name,
            message=objection.message,
            mend=objection.mend,
            severity=objection.severity or rule.severity,
            changes=objection.changes,
            start=subject.entry.element.start,
            owner=subject.test.id,
        )
