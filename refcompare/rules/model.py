"""What a rule is, what it looks at, and what it gives: findings, with the change that mends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from refcompare.agents.evals import Eval
from refcompare.execution.exploits.gateway import Gateway, find_gateway
from refcompare.execution.exploits.texts import Texts, read
from refcompare.execution.loader import SourceFile, SourceTest
from refcompare.execution.loader_json import Where
from refcompare.execution.model import ExecutionTest
from refcompare.execution.php_syntax import Call, Source, calls
from refcompare.rules.edits import Change
from refcompare.tree import Tree
from refcompare.wordpress.symbols import Symbols

Severity = Literal["error", "warning"]
Needs = Literal["nothing", "release", "run"]
"""What a rule needs: nothing, the source of a release in the cache, or a site in which tests are run."""

Role = Literal["reference", "setup", "assertion", "teardown", "exploit"]


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One thing that a rule objects to, with the line of its file (from 1) and what mends it.

    An ``error`` keeps a test from being graded or from measuring anything; a ``warning`` does neither.
    ``changes`` are the edits of the file with which ``--fix`` mends it, none where a person has to think.
    """

    path: str
    line: int
    rule: str
    message: str
    mend: str
    severity: Severity = "error"
    changes: tuple[Change, ...] = field(default=(), compare=False)
    start: int = field(default=0, compare=False)
    """Where the test that ``changes`` are about starts in its file's text."""
    owner: str = field(default="", compare=False)
    """The id of the test or eval that the finding is about, whose waivers hold; empty for anything else."""

    @property
    def fixable(self) -> bool:
        """Whether ``--fix`` mends it."""
        return bool(self.changes)


@dataclass(frozen=True, slots=True)
class Objection:
    """What one rule has against one place in a test; the place is a path into the authored test."""

    where: Where
    message: str
    mend: str
    changes: tuple[Change, ...] = ()
    severity: Severity | None = None


@dataclass(frozen=True)
class Code:
    """One text of PHP in a test: what it is for, where it stands, and its syntax tree."""

    role: Role
    where: Where
    source: Source

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """The calls in it, which most rules look at."""
        return tuple(calls(self.source))

    @property
    def name(self) -> str:
        """What a reader calls it: ``setup``, ``assertion 2``, ``the reference``."""
        match self.role:
            case "assertion" | "exploit":
                number = next((step for step in reversed(self.where) if isinstance(step, int)), 0)
                return f"{self.role} {number + 1}"
            case "reference":
                return str(self.where[-1]) if self.where[0] == "reference_files" else "the reference"
            case _:
                return self.role

    def place(self, line: int) -> str:
        """Say where a line of the text is: ``assertion 2, line 3``."""
        return f"{self.name}, line {line}" if self.source.code.count("\n") else self.name


class Subject:
    """One gradable test as rules see it. Its PHP is parsed when a rule first asks for it."""

    def __init__(
        self, file: SourceFile, entry: SourceTest, test: ExecutionTest, symbols: Symbols | None = None
    ) -> None:
        self.file = file
        self.entry = entry
        self.test = test
        self.symbols = symbols

    @cached_property
    def codes(self) -> tuple[Code, ...]:
        """Every text of PHP that the test holds, in the order in which it runs."""
        return tuple(self._codes())

    def _codes(self) -> Iterator[Code]:
        test, texts = self.test, self.texts
        if test.setup.strip():
            yield Code("setup", ("runtime_checks", "setup"), texts.setup)
        for path, source in texts.reference:
            yield Code(
                "reference", ("reference_solution",) if path is None else ("reference_files", path), source
            )
        for index, (assertion, code) in enumerate(texts.assertions):
            if code is not None:
                named = assertion.get("type") == "custom_assertion" and "code" in assertion
                where = ("runtime_checks", "assertions", index, "code" if named else "target")
                yield Code("assertion", where, code)
        if test.teardown.strip():
            yield Code("teardown", ("runtime_checks", "teardown"), Source(test.teardown))
        for index, text in enumerate(test.exploit_solutions):
            yield Code("exploit", ("exploit_solutions", index), Source(text))

    @cached_property
    def texts(self) -> Texts:
        """The test's PHP as the search for cheats reads it."""
        return read(self.test)

    @cached_property
    def gateway(self) -> Gateway:
        """The functions that assertions call, authored or inferred."""
        return find_gateway(self.test, self.texts)

    def forget(self) -> None:
        """Let the syntax trees go: those of a large suite would not fit into memory together."""
        for name in ("codes", "texts", "gateway"):
            self.__dict__.pop(name, None)

    def code(self, *roles: Role) -> Iterator[Code]:
        """Give the texts of some roles."""
        return (code for code in self.codes if code.role in roles)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The test's own metadata."""
        return self.test.metadata

    @property
    def file_metadata(self) -> Mapping[str, Any]:
        """What stands beside the tests about all of them."""
        found = self.file.document.members.get("metadata")
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class EvalSubject:
    """One usable agent eval, and the tree that it is about."""

    eval: Eval
    tree: Tree
    paths: frozenset[str]


TestCheck = Callable[[Subject], Iterator[Objection]]
EvalCheck = Callable[[EvalSubject], Iterator[tuple[int, str, str]]]
"""Gives a line, what is so, and what mends it."""
PromptsCheck = Callable[[Sequence["Prompt"]], Iterator[tuple["Prompt", str, str]]]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt that stands in a file, whoever it is for."""

    path: str
    line: int
    owner: str
    text: str
    kind: Literal["test", "eval"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule by its name. ``test``, ``eval`` or ``prompts`` is what it looks at, all None for the format.

    ``waivable`` is False for what keeps a test from being graded: no reason makes that right.
    """

    name: str
    severity: Severity
    test: TestCheck | None = None
    eval: EvalCheck | None = None
    prompts: PromptsCheck | None = None
    needs: Needs = "nothing"
    waivable: bool = True


def without_gaps(source: Source) -> Source | None:
    """Give a source that could be read to its end, None for any other: half a tree misleads."""
    return source if source.error is None and source.nodes else None
