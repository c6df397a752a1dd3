"""What the grader's own PHP must not do, so that no candidate can stand in for what it calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tree_sitter_php
from tree_sitter import Language, Node, Parser

from refcompare.resources import grader_source

_PARSER = Parser(Language(tree_sitter_php.language_php()))
_SOURCES = sorted(grader_source().rglob("*.php"))

# Declared in the namespace before any candidate exists, so nobody else can declare them.
OWN_FUNCTIONS = {b"evaluate", b"load", b"take"}
LANGUAGE = {b"eval", b"isset", b"empty", b"__DIR__", b"__NAMESPACE__"}


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from nodes(child)


def unqualified_names(text: bytes) -> list[str]:
    """Calls and constants that PHP would first look for in the namespace, as ``line: name``."""
    found = []
    for node in nodes(_PARSER.parse(text).root_node):
        name = None
        if node.type == "function_call_expression":
            called = node.child_by_field_name("function")
            if called is not None and called.type == "name" and called.text not in OWN_FUNCTIONS | LANGUAGE:
                name = called
        elif node.type == "name" and node.parent is not None and node.text not in LANGUAGE:
            name = node if _is_constant(node, node.parent) else None
        if name is not None and name.text is not None:
            found.append(f"{name.start_point[0] + 1}: {name.text.decode()}")
    return found


_VALUES = {
    "argument", "array_element_initializer", "assignment_expression", "binary_expression",
    "cast_expression", "conditional_expression", "const_element", "echo_statement",
    "expression_statement", "match_condition_list", "parenthesized_expression", "property_element",
    "return_statement", "subscript_expression", "unary_op_expression",
}  # fmt: skip


def _is_constant(node: Node, parent: Node) -> bool:
    if parent.type == "const_element":
        return node != parent.children[0]
    if parent.type == "argument" and parent.child_by_field_name("name") == node:
        return False
    # `$x instanceof Name` names a class.
    instance = parent.type == "binary_expression" and any(
        child.type == "instanceof" for child in parent.children
    )
    return parent.type in _VALUES and not instance


def declares_grader_namespace(text: bytes) -> bool:
    return b"\nnamespace Refcompare;\n" in text


@pytest.mark.parametrize("path", _SOURCES, ids=lambda path: path.name)
def test_every_call_and_constant_of_the_grader_is_fully_qualified(path: Path) -> None:
    text = path.read_bytes()
    assert declares_grader_namespace(text) or path.name == "stand-ins.php"
    assert not _PARSER.parse(text).root_node.has_error
    assert unqualified_names(text) == []


@pytest.mark.parametrize(
    "code",
    [
        "return json_encode($x);",
        "return \\strlen( trim($x) );",
        "$f = static fn () => is_array($x);",
        "posix_kill(1, \\SIGKILL);",
        "\\posix_kill(1, SIGKILL);",
        "$x = PHP_INT_MAX + 1;",
        "return $a ? E_ERROR : 0;",
        "return array( 'a' => JSON_ERROR_NONE );",
        "class A { const B = E_ALL; }",
        "return $x[ ARRAY_A ];",
    ],
)
def test_the_check_finds_what_a_candidate_could_declare(code: str) -> None:
    assert len(unqualified_names(f"<?php\nnamespace Refcompare;\n{code}".encode())) == 1


@pytest.mark.parametrize(
    "code",
    [
        "return \\json_encode($x, \\JSON_THROW_ON_ERROR);",
        "return self::LIMIT + Other::LIMIT;",
        "return true && null === $x;",
        "if ($x instanceof Grader) { return new Grader(); }",
        "$this->render($x)->strlen();",
        "Describe::value(value: $x);",
        "class A { const B = 1; public function strlen(): string { return Grader::class; } }",
    ],
)
def test_the_check_lets_pass_what_nobody_else_can_declare(code: str) -> None:
    assert unqualified_names(f"<?php\nnamespace Refcompare;\n{code}".encode()) == []


def test_every_class_that_the_grader_names_is_its_own_or_global() -> None:
    own = {path.stem.removeprefix("class-").replace("-", "_").lower() for path in _SOURCES}
    for path in _SOURCES:
        for node in nodes(_PARSER.parse(path.read_bytes()).root_node):
            parent = node.parent
            if node.type != "name" or parent is None or node.text is None:
                continue
            scoped = parent.type in {"scoped_call_expression", "class_constant_access_expression"}
            names_class = (scoped and node == parent.children[0]) or parent.type in {
                "object_creation_expression",
                "type_list",
                "named_type",
            }
            if names_class:
                assert node.text.decode().lower() in {*own, "self", "static"}, f"{path.name}: {node.text!r}"


def test_nothing_of_the_grader_is_loaded_once_a_candidate_exists() -> None:
    loaded = (grader_source() / "worker.php").read_text() + (grader_source() / "boot.php").read_text()
    for path in _SOURCES:
        if path.parent.name == "src":
            assert f"/src/{path.name}'" in loaded
            assert "require" not in path.read_text().replace("required", "").replace("requires", "")
