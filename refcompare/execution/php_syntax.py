"""PHP text as a syntax tree: what it defines, what it calls, and how it is edited.

The parser is tree-sitter's: it needs no PHP, runs nothing, and gives a tree for any bytes at all. Trees
are walked with an explicit stack, since a text may nest deeper than Python recurses.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import tree_sitter_php
from tree_sitter import Language, Node, Parser

MAX_SOURCE = 256 * 1024
"""Bytes of PHP that are parsed; a longer text has an ``error`` and no nodes."""

MAX_DEPTH = 400
"""Levels of nesting that are read. Work on a tree is linear in nodes times depth, so both are bounded."""

CALLABLE_NODES = frozenset(
    {"function_definition", "method_declaration", "anonymous_function", "arrow_function"}
)
CLASS_NODES = frozenset(
    {"class_declaration", "trait_declaration", "interface_declaration", "enum_declaration", "anonymous_class"}
)
_CALL_NODES = frozenset(
    {
        "function_call_expression",
        "member_call_expression",
        "nullsafe_member_call_expression",
        "scoped_call_expression",
        "object_creation_expression",
    }
)
_OPENING_TAG = re.compile(r"\s*<\?php\b", re.IGNORECASE)
_PREFIX = "<?php "
_IDENTIFIER = re.compile(r"\\?[^\W\d]\w*(\\[^\W\d]\w*)*(::[^\W\d]\w*)?\Z")


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the bytes from ``start`` to ``end`` of a source's parsed form by ``text``."""

    start: int
    end: int
    text: str

    @classmethod
    def of(cls, node: Node, text: str) -> Edit:
        """Replace one node."""
        return cls(node.start_byte, node.end_byte, text)


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, method, closure or arrow function.

    ``name`` is qualified and without a leading backslash (``Acme\\total``, ``Acme\\Cart::total``); it
    is empty for closures and arrow functions. ``body`` is None for an abstract method.
    """

    kind: Literal["function", "method", "closure", "arrow"]
    name: str
    node: Node
    parameters: Node | None
    body: Node | None

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The parameters in order, without their dollar sign."""
        if self.parameters is None:
            return ()
        names = (child.child_by_field_name("name") for child in self.parameters.named_children)
        return tuple(_plain(name).lstrip("$&. ") for name in names if name is not None)


@dataclass(frozen=True, slots=True)
class ClassLike:
    """A named class, trait, interface or enum with its methods. ``derived``: it extends or implements."""

    name: str
    node: Node
    methods: tuple[Definition, ...]
    derived: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A call: ``name`` is ``total``, ``Cart::total``, ``->total`` or ``new Cart``, in lower case.

    ``arguments`` are the argument values in order; a name before a colon is left out. It is empty
    for first-class callable syntax (``total(...)``), where nothing is called yet.
    """

    name: str
    node: Node
    arguments: tuple[Node, ...]


class Source:
    """One PHP text, parsed once: an opening tag is optional, as it is for a candidate.

    ``error`` is None for a text that parses; otherwise it says why not, with the line, and ``nodes``
    are what could be made of it (none of a text above ``MAX_SOURCE`` or ``MAX_DEPTH``). ``nodes`` are
    the named nodes in source order, ancestors before descendants.
    """

    __slots__ = ("_namespaces", "_parents", "_prefix", "_raw", "_tree", "code", "error", "nodes")

    def __init__(self, code: str) -> None:
        self.code = code
        self._prefix = 0 if _OPENING_TAG.match(code) else len(_PREFIX)
        self._raw = ((_PREFIX if self._prefix else "") + code).encode("utf-8", "surrogatepass")
        self.nodes: tuple[Node, ...] = ()
        self._parents: dict[int, Node] = {}
        self._namespaces: list[tuple[int, int, str]] = []
        self.error: str | None = None
        if len(self._raw) > MAX_SOURCE:
            self.error = f"the text is larger than {MAX_SOURCE // 1024} KiB and was not read"
            return
        self._tree = _parser().parse(self._raw)
        self._flatten(self._tree.root_node)
        self._find_namespaces()

    def _flatten(self, root: Node) -> None:
        nodes: list[Node] = []
        parents = self._parents
        wrong: Node | None = None
        stack = [(root, 0)]
        while stack:
            node, depth = stack.pop()
            if depth > MAX_DEPTH:
                self.error = f"the text nests deeper than {MAX_DEPTH} levels and was not read"
                parents.clear()
                return
            if node.is_named:
                nodes.append(node)
            if wrong is None and (node.is_missing or node.type == "ERROR"):
                wrong = node
            children = node.children
            for child in children:
                parents[child.id] = node
            stack.extend((child, depth + 1) for child in reversed(children))
        self.nodes = tuple(nodes)
        if root.has_error:
            self.error = f"syntax error on line {self.line(wrong or root)}"

    def parent(self, node: Node) -> Node | None:
        """Give the node around a node; None at the root."""
        return self._parents.get(node.id)

    def ancestors(self, node: Node) -> Iterator[Node]:
        """Give the nodes around a node, innermost first."""
        above = self.parent(node)
        while above is not None:
            yield above
            above = self.parent(above)

    def text(self, node: Node) -> str:
        """Give a node's own text."""
        return self.slice(node.start_byte, node.end_byte)

    def slice(self, start: int, end: int) -> str:
        """Give the text between two byte offsets of the parsed form."""
        return self._raw[start:end].decode("utf-8", "surrogatepass")

    def columns(self, node: Node) -> tuple[int, int]:
        """Give where a node's text starts and ends in ``code``, in characters from 0."""
        start = len(self.slice(self._prefix, node.start_byte))
        return start, start + len(self.text(node))

    def line(self, node: Node) -> int:
        """Give the line on which a node starts, from 1."""
        return node.start_point[0] + 1

    def edited(self, edits: Iterable[Edit], node: Node | None = None) -> str:
        """Give the text, or one node's, with edits made; of two that overlap, the one that starts first.

        The whole text carries an opening tag exactly if ``code`` does.
        """
        at, end = (node.start_byte, node.end_byte) if node is not None else (self._prefix, len(self._raw))
        pieces: list[bytes] = []
        for edit in sorted(edits, key=lambda item: (item.start, -item.end)):
            if at <= edit.start and edit.end <= end:
                pieces += [self._raw[at : edit.start], edit.text.encode("utf-8", "surrogatepass")]
                at = edit.end
        return b"".join([*pieces, self._raw[at:end]]).decode("utf-8", "surrogatepass")

    def parses_with(self, edit: Edit) -> bool:
        """Say whether the text still parses with one edit; only what the edit touches is parsed again."""
        new = edit.text.encode("utf-8", "surrogatepass")
        raw = self._raw[: edit.start] + new + self._raw[edit.end :]
        tree = self._tree.copy()
        tree.edit(
            start_byte=edit.start,
            old_end_byte=edit.end,
            new_end_byte=edit.start + len(new),
            start_point=_point(self._raw, edit.start),
            old_end_point=_point(self._raw, edit.end),
            new_end_point=_point(raw, edit.start + len(new)),
        )
        return not _parser().parse(raw, tree).root_node.has_error

    def namespace(self, node: Node) -> str:
        """Give the namespace that holds at a node, without a trailing backslash; empty when global."""
        at = bisect_right(self._namespaces, (node.start_byte, MAX_SOURCE, "")) - 1
        if at < 0 or self._namespaces[at][1] < node.end_byte:
            return ""
        return self._namespaces[at][2]

    def _find_namespaces(self) -> None:
        """A namespace without braces holds to the end of the text, or to the next one."""
        for node in self.nodes[0].named_children if self.nodes else ():
            if node.type == "namespace_definition":
                name = node.child_by_field_name("name")
                braced = node.child_by_field_name("body") is not None
                end = node.end_byte if braced else len(self._raw)
                self._namespaces.append((node.start_byte, end, self.text(name) if name is not None else ""))


_local = threading.local()


def _parser() -> Parser:
    """One parser a thread: making one costs more than parsing a short text does."""
    if not hasattr(_local, "parser"):
        _local.parser = Parser(_language())
    parser: Parser = _local.parser
    return parser


@lru_cache(maxsize=1)
def _language() -> Language:
    return Language(tree_sitter_php.language_php())


def _point(raw: bytes, offset: int) -> tuple[int, int]:
    return raw.count(b"\n", 0, offset), offset - (raw.rfind(b"\n", 0, offset) + 1)


def _plain(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def is_name(text: str) -> bool:
    """Say whether a text can name a function or a ``Class::method``, qualified or not."""
    return _IDENTIFIER.match(text) is not None


def within(node: Node) -> Iterator[Node]:
    """Give the named nodes in a node, itself first, in source order."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.named_children))


def own_nodes(body: Node) -> Iterator[Node]:
    """Give the named nodes in a body, without what nested functions and classes hold."""
    stack = [body]
    while stack:
        current = stack.pop()
        yield current
        if current is body or current.type not in CALLABLE_NODES | CLASS_NODES:
            stack.extend(reversed(current.named_children))


def unwrapped(node: Node) -> Node:
    """Give the expression inside parentheses and an argument's wrapper."""
    while node.type in {"parenthesized_expression", "argument"} and node.named_child_count:
        inner = node.named_child(node.named_child_count - 1)
        if inner is None or inner.type in {"variadic_unpacking", "comment"}:
            break
        node = inner
    return node


def definitions(source: Source) -> tuple[Definition, ...]:
    """Give every function, method, closure and arrow function, outer before inner."""
    return tuple(_definition(source, node) for node in source.nodes if node.type in CALLABLE_NODES)


def _definition(source: Source, node: Node) -> Definition:
    parameters, body = node.child_by_field_name("parameters"), node.child_by_field_name("body")
    if node.type in {"anonymous_function", "arrow_function"}:
        kind: Literal["closure", "arrow"] = "arrow" if node.type == "arrow_function" else "closure"
        return Definition(kind, "", node, parameters, body)
    own = node.child_by_field_name("name")
    name = source.text(own) if own is not None else ""
    if node.type == "function_definition":
        return Definition("function", _qualified(source, node, name), node, parameters, body)
    owner = next((above for above in source.ancestors(node) if above.type in CLASS_NODES), None)
    return Definition("method", f"{class_name(source, owner)}::{name}", node, parameters, body)


def class_name(source: Source, node: Node | None) -> str:
    """Give a class's qualified name; empty for an anonymous class or none."""
    own = node.child_by_field_name("name") if node is not None else None
    return _qualified(source, own, source.text(own)) if own is not None else ""


def _qualified(source: Source, node: Node, name: str) -> str:
    namespace = source.namespace(node)
    return f"{namespace}\\{name}" if namespace else name


def classes(source: Source) -> tuple[ClassLike, ...]:
    """Give every named class, trait, interface and enum."""
    found = []
    for node in source.nodes:
        if node.type not in CLASS_NODES or node.type == "anonymous_class":
            continue
        body = node.child_by_field_name("body")
        members = body.named_children if body is not None else []
        methods = tuple(_definition(source, item) for item in members if item.type == "method_declaration")
        derived = any(item.type in {"base_clause", "class_interface_clause"} for item in node.named_children)
        found.append(ClassLike(class_name(source, node), node, methods, derived))
    return tuple(found)


def call_at(source: Source, node: Node) -> Call | None:
    """Give the call that a node is; None where it is none or its name is computed."""
    if node.type not in _CALL_NODES:
        return None
    arguments = node.child_by_field_name("arguments")
    if arguments is None:
        arguments = next((item for item in node.named_children if item.type == "arguments"), None)
    given = arguments.named_children if arguments is not None else []
    if any(item.type == "variadic_placeholder" for item in given):
        return None
    name = _call_name(source, node)
    if name is None:
        return None
    return Call(name, node, tuple(unwrapped(item) for item in given if item.type == "argument"))


def _call_name(source: Source, node: Node) -> str | None:
    if node.type == "object_creation_expression":
        made = next((item for item in node.named_children if item.type != "arguments"), None)
        return f"new {_lowered(source, made)}" if made is not None and _is_plain(made) else None
    if node.type == "function_call_expression":
        called = node.child_by_field_name("function")
        return _lowered(source, called) if called is not None and _is_plain(called) else None
    name = node.child_by_field_name("name")
    if name is None or name.type != "name":
        return None
    if node.type != "scoped_call_expression":
        return f"->{_lowered(source, name)}"
    scope = node.child_by_field_name("scope")
    return f"{_lowered(source, scope)}::{_lowered(source, name)}" if scope is not None else None


def _is_plain(node: Node) -> bool:
    return node.type in {"name", "qualified_name", "namespace_name", "relative_scope"}


def _lowered(source: Source, node: Node) -> str:
    return source.text(node).lstrip("\\").lower()


def calls(source: Source) -> Iterator[Call]:
    """Give every call whose name is written out, outer before inner."""
    for node in source.nodes:
        call = call_at(source, node)
        if call is not None:
            yield call
