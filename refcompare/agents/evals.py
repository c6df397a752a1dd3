"""Agent evals as data: YAML files in a tree become values, and what is wrong with them is told by line.

The text comes from a ref, so none of it is to be trusted: it is read by `yaml_document`, held to the
published schema, and texts that a check looks for are compared as they stand, never as a pattern.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jsonschema

from refcompare.agents.checks import KINDS, make_check
from refcompare.agents.checks.interface import Check
from refcompare.agents.checks.wordpress import WordPress
from refcompare.agents.programs.interface import AgentLimits
from refcompare.errors import RefcompareError
from refcompare.execution.loader_rules import problems
from refcompare.globs import path_matches
from refcompare.resources import schema_directory
from refcompare.tree import Tree, TreeFile
from refcompare.wording import alternatives, printable, quoted
from refcompare.yaml_document import Document, Path, Refused

EVAL_GLOBS = ("datasets/suites/*/agent/*.yaml", "datasets/suites/*/agent/*.yml")
"""Where evals lie in a tree."""

LARGEST_FILE = 1024 * 1024
"""Bytes above which the file of an eval is refused."""

DEFAULT_GUIDANCE = ("AGENTS.md", "CLAUDE.md", ".agents", ".claude")
DEFAULT_REPEAT = 5
RUBRIC = "rubric"
"""What the metric of a rubric is called."""

RUBRIC_AT_LEAST = 0.7
_DEEPEST = 16
_MOST_CASES = 200
_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")


@dataclass(frozen=True, slots=True)
class WorkspaceSpec:
    """How an eval wants the ref's tree: globs of paths to ``hide``, ``files`` to put in, and shell
    commands that set it up."""

    hide: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    setup: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedCheck:
    """A check and the metric that it gives. ``kind`` is the key in the file, ``line`` where it stands."""

    name: str
    kind: str
    check: Check
    line: int


@dataclass(frozen=True, slots=True)
class Rubric:
    """Sentences that a fresh agent judges. ``agent`` is None for the one that refcompare is told to use."""

    criteria: tuple[str, ...]
    at_least: float = RUBRIC_AT_LEAST
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Eval:
    """One eval. ``repeat`` counts the trials on each arm; ``agents`` and ``variables`` span its matrix.

    ``path`` and ``line`` say where it is defined; ``digest`` is a hex SHA-256 over its definition.
    ``check_ignore`` names rules of ``refcompare check`` that it leaves aside, each with the reason.
    """

    id: str
    suite: str
    path: str
    line: int
    digest: str
    prompt: str
    description: str = ""
    workspace: WorkspaceSpec = field(default_factory=WorkspaceSpec)
    guidance: tuple[str, ...] = DEFAULT_GUIDANCE
    agents: tuple[str, ...] = ()
    variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    limits: AgentLimits = field(default_factory=AgentLimits)
    repeat: int = DEFAULT_REPEAT
    checks: tuple[NamedCheck, ...] = ()
    rubric: Rubric | None = None
    check_ignore: Mapping[str, str] = field(default_factory=dict)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the eval's metrics, in order."""
        names = tuple(check.name for check in self.checks)
        return (*names, RUBRIC) if self.rubric else names


@dataclass(frozen=True, slots=True)
class InvalidEval:
    """A file that cannot be used: where it is wrong first, and every fault as a line and a sentence."""

    id: str
    suite: str
    path: str
    faults: tuple[tuple[int, str], ...]

    @property
    def reason(self) -> str:
        """The first fault, with its place."""
        line, sentence = self.faults[0]
        return f"{self.path}:{line}: {sentence}"


@dataclass(frozen=True, slots=True)
class EvalSet:
    """The evals of one tree, by path; each id occurs once."""

    evals: tuple[Eval, ...] = ()
    invalid: tuple[InvalidEval, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One point of an eval's matrix: who works, and with what in the prompt.

    ``key`` is the eval's id where the matrix has one point, ``ID[agent=codex, topic=hooks]`` otherwise.
    """

    eval: Eval
    key: str
    agent: str | None
    variables: Mapping[str, str]
    prompt: str


# ------------------------------------------------------------------------------- loading


def load_evals(tree: Tree, globs: Sequence[str] = EVAL_GLOBS) -> EvalSet:
    """Load every eval of a tree. Raises nothing for what a file holds."""
    evals: list[Eval] = []
    invalid: list[InvalidEval] = []
    owners: dict[str, str] = {}
    for file in eval_files(tree, globs):
        loaded = _load(tree, file)
        if isinstance(loaded, Eval) and loaded.id in owners:
            fault = (loaded.line, f"the id {quoted(loaded.id)} is already used at {owners[loaded.id]}.")
            loaded = InvalidEval(loaded.id, loaded.suite, loaded.path, (fault,))
        if isinstance(loaded, Eval):
            owners[loaded.id] = loaded.path
            evals.append(loaded)
        else:
            invalid.append(loaded)
    return EvalSet(tuple(evals), tuple(invalid))


def eval_files(tree: Tree, globs: Sequence[str] = EVAL_GLOBS) -> Iterator[TreeFile]:
    """Give the files of a tree that define evals, in path order."""
    patterns = [glob.removeprefix("./").split("/") for glob in globs]
    for file in tree.files():
        if any(path_matches(pattern, file.path.split("/")) for pattern in patterns):
            yield file


def _load(tree: Tree, file: TreeFile) -> Eval | InvalidEval:
    if file.size > LARGEST_FILE:
        return _invalid(file.path, f"the file has {file.size:,} bytes; keep it under {LARGEST_FILE:,}.")
    try:
        data = tree.read(file.path)
    except (KeyError, OSError, RefcompareError) as error:
        return _invalid(file.path, f"the file cannot be read ({printable(str(error))}).")
    return read_eval(data, file.path)


def _invalid(path: str, sentence: str) -> InvalidEval:
    shown = printable(path)
    return InvalidEval(shown, suite_of(path), shown, ((1, sentence),))


def suite_of(path: str) -> str:
    """Name the suite of an eval's file: the segment before ``/agent/``, else the directory it lies in."""
    *directories, name = path.split("/")
    for index in range(len(directories) - 1, 0, -1):
        if directories[index] == "agent":
            return directories[index - 1]
    return directories[-1] if directories else name.rpartition(".")[0] or name


def read_eval(data: bytes, path: str) -> Eval | InvalidEval:
    """Read the bytes of an eval's file; ``path`` is relative to the root of the tree."""
    shown, suite = printable(path), suite_of(path)
    try:
        document = Document.parse(data, largest=LARGEST_FILE, deepest=_DEEPEST, as_typed=_is_value)
        faults = sorted({*document.faults(_validator())})
        # What the schema cannot say is only asked of what it has nothing against.
        faults = faults or sorted({*_faults(document)})
    except Refused as refused:
        return InvalidEval(shown, suite, shown, ((refused.line, refused.sentence),))
    found = document.value.get("id")
    if faults:
        return InvalidEval(found if isinstance(found, str) else shown, suite, shown, tuple(faults))
    return _eval(document, shown, suite)


def _is_value(path: Path) -> bool:
    """The values of the matrix are texts: 7.10 is a version and not the number 7.1."""
    return len(path) == 4 and path[:2] == ("matrix", "variables")


def _eval(document: Document, path: str, suite: str) -> Eval:
    value = document.value
    matrix, limits = value.get("matrix", {}), value.get("limits", {})
    agents = matrix.get("agent", [value["agent"]] if "agent" in value else [])
    default = AgentLimits()
    definition = json.dumps(value, sort_keys=True)
    return Eval(
        id=value["id"],
        suite=suite,
        path=path,
        line=document.line(("id",)),
        digest=hashlib.sha256(definition.encode("utf-8", "surrogatepass")).hexdigest(),
        prompt=value["prompt"],
        description=value.get("description", ""),
        workspace=_workspace(value.get("workspace", {})),
        guidance=_list(value.get("guidance", list(DEFAULT_GUIDANCE))),
        agents=tuple(agents),
        variables={name: tuple(texts) for name, texts in matrix.get("variables", {}).items()},
        limits=AgentLimits(
            seconds=float(limits.get("seconds", default.seconds)),
            turns=limits.get("turns", default.turns),
            usd=limits.get("usd", default.usd),
        ),
        repeat=int(value.get("repeat", DEFAULT_REPEAT)),
        checks=tuple(_checks(document)),
        rubric=_rubric(value.get("rubric")),
        check_ignore=dict(value.get("check-ignore", {})),
    )


def _workspace(value: Mapping[str, Any]) -> WorkspaceSpec:
    return WorkspaceSpec(
        hide=_list(value.get("hide", [])),
        files=dict(value.get("files", {})),
        setup=tuple(value.get("setup", [])),
    )


def _rubric(value: Any) -> Rubric | None:
    if value is None:
        return None
    if isinstance(value, list):
        return Rubric(tuple(value))
    at_least = float(value.get("at-least", RUBRIC_AT_LEAST))
    return Rubric(tuple(value["criteria"]), at_least, value.get("agent"))


def _list(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _checks(document: Document) -> Iterator[NamedCheck]:
    for index, item in enumerate(document.value["checks"]):
        (kind,) = item.keys() - {"name"}
        check = make_check(kind, item[kind])
        line = document.line(("checks", index))
        yield NamedCheck(item.get("name") or check.label, kind, check, line)


# ------------------------------------------------------------------- what the schema can't say


def _faults(document: Document) -> Iterator[tuple[int, str]]:
    names: dict[str, int] = {RUBRIC: 0}
    for index, item in enumerate(document.value["checks"]):
        line = document.line(("checks", index))
        kinds = sorted(item.keys() - {"name"})
        if len(kinds) != 1:
            said = f"has {' and '.join(kinds)}" if kinds else "has no kind"
            yield line, f"checks[{index}] {said}; give it one of {alternatives(KINDS)}."
            continue
        check = make_check(kinds[0], item[kinds[0]])
        if isinstance(check, WordPress):
            yield from _assertion_faults(document, index, check)
        name = item.get("name") or check.label
        if name in names:
            where = f"in line {names[name]}" if names[name] else "by the rubric"
            yield line, f"the metric {quoted(name)} is already given {where}; give one of them another name."
        names.setdefault(name, line)
    yield from _variable_faults(document)


def _assertion_faults(document: Document, index: int, check: WordPress) -> Iterator[tuple[int, str]]:
    """Hold a wordpress check to the rules of an execution test."""
    test = {
        "id": "check",
        "prompt": "Build a plugin.",
        "artifact_kind": "wp_plugin_files",
        "reference_files": {"plugin.php": "<?php\n/* Plugin Name: Plugin */\n"},
        "runtime_checks": {
            "assertions": [dict(item) for item in check.assertions],
            "setup": check.setup,
            "teardown": check.teardown,
        },
    }
    for problem in itertools.islice(problems(test), 20):
        inner = problem.where[1:] if problem.where[:1] == ("runtime_checks",) else problem.where
        path: Path = ("checks", index, "wordpress", *inner)
        message = problem.message.replace("runtime_checks", f"checks[{index}].wordpress")
        end = "" if problem.mend.endswith("?") else "."
        yield document.line(path), f"{message}; {problem.mend}{end}"


def _variable_faults(document: Document) -> Iterator[tuple[int, str]]:
    """Hold the prompt's placeholders to the variables, and the matrix to a size."""
    value = document.value
    variables: Mapping[str, list[str]] = value.get("matrix", {}).get("variables", {})
    used = set(_PLACEHOLDER.findall(value["prompt"]))
    for name in sorted(used - variables.keys()):
        yield (
            document.line(("prompt",)),
            f"{{{{{name}}}}} is no variable of the matrix; add it there.",
        )
    for name in sorted(variables.keys() - used):
        line = document.line(("matrix", "variables", name))
        yield line, f"the prompt has no {{{{{name}}}}}; put it there, or remove the variable."
    cases = len(value.get("matrix", {}).get("agent", [None]))
    for texts in variables.values():
        cases *= len(texts)
    if cases > _MOST_CASES:
        yield document.line(("matrix",)), f"the matrix has {cases:,} cases; keep it to {_MOST_CASES}."


# --------------------------------------------------------------------------------- cases


def cases(item: Eval, agents: Sequence[str] = ()) -> tuple[Case, ...]:
    """Give the points of an eval's matrix, in order. ``agents`` replace those that the eval names."""
    who: Sequence[str | None] = agents or item.agents or (None,)
    names = list(item.variables)
    found = []
    for agent in who:
        for values in itertools.product(*item.variables.values()):
            variables = dict(zip(names, values, strict=True))
            shown = {"agent": agent, **variables} if len(who) > 1 else variables
            words = ", ".join(f"{name}={text}" for name, text in shown.items())
            key = f"{item.id}[{words}]" if words else item.id
            found.append(Case(item, key, agent, variables, _filled(item.prompt, variables)))
    return tuple(found)


def _filled(prompt: str, variables: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: variables[match[1]], prompt)


@cache
def _validator() -> jsonschema.Draft202012Validator:
    schema = json.loads((schema_directory() / "agent-eval.schema.json").read_bytes())
    return jsonschema.Draft202012Validator(schema)
