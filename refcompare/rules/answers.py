"""Whether one constant answers every assertion: decided from what they say, without running anything.

What is read is narrow on purpose: an assertion that is not plainly a comparison of the gateway's result with
a literal counts as not decided, and one such assertion ends the reading. The audit tries constants for real.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tree_sitter import Node

from refcompare.execution.exploits.literals import Value, found, from_json, literal_at, written
from refcompare.execution.php_syntax import Call, Source, call_at, unwrapped
from refcompare.rules.model import Objection, Rule, Subject

_EXISTS = frozenset({"function_exists", "is_callable"})
_LONGEST_SHOWN = 60


class _Undecided(Exception):
    """The assertion depends on something else than a constant, or may."""


@dataclass(slots=True)
class _Answers:
    """What each function has to return, or to print, for all assertions read so far to hold."""

    returned: dict[str, Value] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)
    holding: dict[str, list[str]] = field(default_factory=dict)

    def returns(self, name: str, value: Value) -> None:
        if name in self.returned and written(self.returned[name]) != written(value):
            raise _Undecided
        self.returned[name] = value

    def prints(self, name: str, text: str) -> None:
        if self.printed.setdefault(name, text) != text:
            raise _Undecided


def constant_answer(subject: Subject) -> Iterator[Objection]:
    """No constant that the gateway returns or prints satisfies every assertion."""
    names = {function.name.lower(): function.name for function in subject.gateway.functions}
    if not names or len(subject.texts.assertions) < len(subject.test.assertions):
        return
    answers = _Answers()
    try:
        for assertion, source in subject.texts.assertions:
            if assertion.get("weight") != 0:
                _Reading(source, frozenset(names), answers).read(assertion)
        cheats = list(_cheats(names, answers))
    except _Undecided:
        return
    stub = "; ".join(cheats) or f"{next(iter(names.values()))}() {{}}"
    yield Objection(
        ("runtime_checks", "assertions"),
        f"every assertion holds for the constant {stub}",
        "call the function with other arguments, or before and after a change, and expect something else",
    )


def _cheats(names: Mapping[str, str], answers: _Answers) -> Iterator[str]:
    for name in names:
        texts = answers.holding.get(name, [])
        both = name in answers.returned and (name in answers.printed or texts)
        if both or (name in answers.printed and any(text not in answers.printed[name] for text in texts)):
            raise _Undecided
        if name in answers.returned:
            yield f"{names[name]}() {{ return {_short(written(answers.returned[name]))}; }}"
        elif name in answers.printed or texts:
            text = answers.printed.get(name, " ".join(dict.fromkeys(texts)))
            yield f"{names[name]}() {{ echo {_short(written(text))}; }}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


class _Reading:
    """Reads one assertion for what the gateway has to give, raising _Undecided where that cannot be told."""

    def __init__(self, source: Source | None, names: frozenset[str], answers: _Answers) -> None:
        self._source = source
        self._names = names
        self._answers = answers
        self._aliases: dict[str, Node] = {}

    def read(self, assertion: Mapping[str, Any]) -> None:
        kind, source = assertion.get("type"), self._source
        if kind == "function_exists":
            if str(assertion.get("target")).lstrip("\\").lower() not in self._names:
                raise _Undecided
            return
        if source is None or source.error is not None or not source.nodes:
            raise _Undecided
        statements = [node for node in source.nodes[0].named_children if _says(node)]
        if not statements:
            raise _Undecided
        *before, last = statements
        if kind in {"returns_value", "custom_assertion"}:
            for statement in before:
                self._statement(source, statement)
            if last.type != "return_statement" or not last.named_children:
                raise _Undecided
            if kind == "returns_value":
                self._gives(source, last.named_children[0], from_json(assertion.get("expected")))
            else:
                self._holds(source, last.named_children[0])
        elif not before and kind in {"output_equals", "output_contains"}:
            self._output(source, last, str(kind), str(assertion.get("expected", "")))
        else:
            raise _Undecided

    def _statement(self, source: Source, node: Node) -> None:
        """Take a guard, and a result that is put into a variable once."""
        if node.type == "if_statement":
            if not self._is_guard(source, node):
                raise _Undecided
            return
        inner = node.named_children[0] if node.named_children else node
        left, right = inner.child_by_field_name("left"), inner.child_by_field_name("right")
        if node.type != "expression_statement" or inner.type != "assignment_expression":
            raise _Undecided
        if left is None or right is None or left.type != "variable_name":
            raise _Undecided
        if source.text(left) in self._aliases:
            raise _Undecided
        self._aliases[source.text(left)] = right

    def _is_guard(self, source: Source, node: Node) -> bool:
        """Say whether an if only ends the assertion where the gateway does not exist."""
        condition = node.child_by_field_name("condition")
        asked = unwrapped(condition) if condition is not None else node
        operator = asked.child_by_field_name("operator")
        inner = asked.child_by_field_name("argument")
        if asked.type != "unary_op_expression" or operator is None or operator.type != "!" or inner is None:
            return False
        return self._exists(source, inner) and node.child_by_field_name("alternative") is None

    def _exists(self, source: Source, node: Node) -> bool:
        """Say whether an expression asks whether the gateway exists, which it does for every cheat."""
        call = call_at(source, unwrapped(node))
        if call is None or call.name not in _EXISTS or not call.arguments:
            return False
        name = literal_at(source, call.arguments[0])
        return name is not None and str(name.value).lstrip("\\").lower() in self._names

    def _gives(self, source: Source, node: Node, expected: Value) -> None:
        """An expression has to have a value, exactly."""
        node = self._resolved(source, node)
        call = self._called(source, node)
        if call is not None:
            self._answers.returns(call, expected)
            return
        literal = literal_at(source, node)
        if literal is not None:
            if literal.identity != written(expected):
                raise _Undecided
            return
        if node.type == "array_creation_expression" and not isinstance(expected, str | int | float | None):
            self._array(source, node, expected)
        elif expected is True:
            self._holds(source, node)
        else:
            raise _Undecided

    def _array(self, source: Source, node: Node, expected: Value) -> None:
        items = [item for item in node.named_children if item.type != "comment"]
        members = getattr(expected, "items", None)
        if members is None or len(members) != len(items):
            raise _Undecided
        for position, (item, (key, value)) in enumerate(zip(items, members, strict=True)):
            inner = item.named_children
            if item.type != "array_element_initializer" or not 1 <= len(inner) <= 2:
                raise _Undecided
            named = literal_at(source, inner[0]) if len(inner) == 2 else found(position)
            if named is None or named.value != key:
                raise _Undecided
            self._gives(source, inner[-1], value)

    def _holds(self, source: Source, node: Node) -> None:
        """An expression has to be true."""
        node = self._resolved(source, node)
        operator = node.child_by_field_name("operator") if node.type == "binary_expression" else None
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if self._exists(source, node):
            return
        if self._called(source, node) is not None:
            self._gives(source, node, True)
        elif operator is None or left is None or right is None:
            raise _Undecided
        elif operator.type in {"&&", "and"}:
            self._holds(source, left)
            self._holds(source, right)
        elif operator.type == "===":
            for one, other in ((left, right), (right, left)):
                literal = literal_at(source, one)
                if literal is not None:
                    self._gives(source, other, literal.value)
                    return
            raise _Undecided
        else:
            raise _Undecided

    def _output(self, source: Source, node: Node, kind: str, expected: str) -> None:
        """What is printed has to be, or to hold, a text."""
        inner = node.named_children
        if len(inner) != 1 or node.type not in {"echo_statement", "expression_statement"}:
            raise _Undecided
        name = self._called(source, inner[0])
        if name is None:
            raise _Undecided
        if kind == "output_contains":
            self._answers.holding.setdefault(name, []).append(expected)
        elif node.type == "echo_statement":
            self._answers.returns(name, expected)
        else:
            self._answers.prints(name, expected)

    def _resolved(self, source: Source, node: Node) -> Node:
        for _ in range(8):
            node = unwrapped(node)
            if node.type != "variable_name" or source.text(node) not in self._aliases:
                return node
            node = self._aliases[source.text(node)]
        raise _Undecided

    def _called(self, source: Source, node: Node) -> str | None:
        """Give the gateway's name where an expression is a call of it, whatever its arguments are."""
        call: Call | None = call_at(source, unwrapped(node))
        return call.name if call is not None and call.name in self._names else None


def _says(node: Node) -> bool:
    return node.type not in {"comment", "php_tag", "text_interpolation", "text"}


RULES = (Rule("constant-answer", "error", test=constant_answer),)
