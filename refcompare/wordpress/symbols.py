"""What a release of WordPress defines and since which version: read from its own source, once."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import tree_sitter_php
from tree_sitter import Language, Node, Parser, Query, QueryCursor

from refcompare.paths import cache_directory
from refcompare.wordpress.releases import Release

Version = tuple[int, ...]
"""A release as its numbers, without zeros at the end: ``(7, 1, 1)``, ``(7,)`` for 7.0."""

FORMAT = 1
"""Counts up with every change of what is read, so that an older index is made again."""

LARGEST_FILE = 4 * 1024 * 1024
"""Bytes above which a file of the release is not read; the largest has a tenth of that."""

_SINCE = re.compile(r"@since\s+(?:MU\s*\(\s*)?(\d+(?:\.\d+){0,3})")
_NUMBERS = re.compile(r"\d+(?:\.\d+){0,3}")
_LIBRARIES = frozenset({"sodium_compat", "ID3"})
"""Folders of wp-includes with code of others, to which no test refers."""

_CLIMB = 6
"""Nodes between a hook's call and the statement, or the array's entry, that its comment stands before."""

_QUERY = """
(function_definition name: (name) @name) @function
(class_declaration name: (name) @name) @class
(interface_declaration name: (name) @name) @class
(trait_declaration name: (name) @name) @class
(enum_declaration name: (name) @name) @class
(method_declaration name: (name) @name) @method
(function_call_expression
  function: (name) @called
  (#match? @called "^(apply_filters|do_action)(_ref_array|_deprecated)?$")) @hook
(function_call_expression function: (name) @called (#eq? @called "define")) @constant
"""
_CLASSES = frozenset({"class_declaration", "interface_declaration", "trait_declaration", "enum_declaration"})


@dataclass(frozen=True, slots=True)
class Symbol:
    """One definition. ``kind`` is function, class, method, hook or constant.

    ``name`` is without a leading backslash, ``Class::method`` for a method. ``path`` is relative to the
    release's root, ``line`` counts from 1. ``since`` is the version in its documentation, empty without one.
    """

    kind: str
    name: str
    path: str
    line: int
    since: str


@dataclass(frozen=True)
class Symbols:
    """The definitions of one release. ``core`` is the folder that holds its ``wp-load.php``."""

    version: str
    core: Path
    symbols: tuple[Symbol, ...]

    def defines(self, kind: str, name: str) -> bool:
        """Say whether the release has such a symbol. Case counts for hooks and constants only, as in PHP."""
        return _key(kind, name) in self._since

    def since(self, kind: str, name: str) -> Version | None:
        """Give the version in which a symbol came; None where it is not known, or there is no such symbol."""
        return self._since.get(_key(kind, name))

    def in_file(self, path: str) -> frozenset[str]:
        """Give the names that a file defines, methods with and without their class, in lower case."""
        return self._by_file.get(path, frozenset())

    @cached_property
    def _since(self) -> Mapping[tuple[str, str], Version | None]:
        """The earliest version of each name: one that is defined twice came with the first."""
        found: dict[tuple[str, str], Version | None] = {}
        for symbol in self.symbols:
            key, version = _key(symbol.kind, symbol.name), read_version(symbol.since)
            known = found.get(key)
            if key not in found or known is None or (version is not None and version < known):
                found[key] = version or known
        return found

    @cached_property
    def _by_file(self) -> Mapping[str, frozenset[str]]:
        names: dict[str, set[str]] = {}
        for symbol in self.symbols:
            own = names.setdefault(symbol.path, set())
            own.add(symbol.name.lower())
            own.add(symbol.name.rpartition("::")[2].lower())
        return {path: frozenset(own) for path, own in names.items()}


def _key(kind: str, name: str) -> tuple[str, str]:
    name = name.lstrip("\\")
    return kind, name if kind in {"hook", "constant"} else name.lower()


def read_version(text: str) -> Version | None:
    """Give the numbers of a version, so that versions compare; None for what is none."""
    match = _NUMBERS.match(text.strip())
    if match is None:
        return None
    numbers = [int(number) for number in match[0].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def symbols_of(release: Release, progress: Callable[[str], None] | None = None) -> Symbols:
    """Give what a release defines: from the cache, else from its source, which takes some seconds.

    A cache that cannot be written costs the next run those seconds and nothing else.
    """
    place = cache_directory() / "symbols" / f"{release.digest[:32]}-{FORMAT}.json"
    known = _load(place)
    if known is None:
        if progress is not None:
            progress(f"reading what WordPress {release.version} defines (once)")
        known = tuple(_read(release.core))
        _keep(place, known)
    return Symbols(release.version, release.core, known)


def _load(place: Path) -> tuple[Symbol, ...] | None:
    try:
        rows = json.loads(place.read_bytes())
        return tuple(Symbol(str(k), str(n), str(p), int(line), str(s)) for k, n, p, line, s in rows)
    except (OSError, ValueError, TypeError, LookupError):
        return None


def _keep(place: Path, symbols: tuple[Symbol, ...]) -> None:
    rows = [[item.kind, item.name, item.path, item.line, item.since] for item in symbols]
    with suppress(OSError):
        place.parent.mkdir(mode=0o755, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=place.parent, prefix=".", delete=False) as partial:
            json.dump(rows, partial, ensure_ascii=True, separators=(",", ":"))
        Path(partial.name).chmod(0o644)
        Path(partial.name).replace(place)


def _read(core: Path) -> Iterator[Symbol]:
    parser, query = Parser(_language()), Query(_language(), _QUERY)
    for path in _files(core):
        shown = path.relative_to(core).as_posix()
        found = QueryCursor(query).matches(parser.parse(path.read_bytes()).root_node)
        for _, captures in found:
            for kind in ("function", "class", "method", "hook", "constant"):
                for node in captures.get(kind, ()):
                    symbol = _symbol(kind, node, shown)
                    if symbol is not None:
                        yield symbol


def _language() -> Language:
    return Language(tree_sitter_php.language_php())


def _files(core: Path) -> Iterator[Path]:
    yield from sorted(core.glob("*.php"))
    for folder in ("wp-includes", "wp-admin"):
        for path in sorted((core / folder).rglob("*.php")):
            inside = not _LIBRARIES.intersection(path.relative_to(core).parts)
            if inside and path.is_file() and path.stat().st_size <= LARGEST_FILE:
                yield path


def _symbol(kind: str, node: Node, path: str) -> Symbol | None:
    if kind in {"hook", "constant"}:
        name = _first_text(node)
    else:
        own = node.child_by_field_name("name")
        name = _text(own) if own is not None else ""
        owner = _owner(node) if kind == "method" else ""
        if kind == "method" and not owner:
            return None  # of an anonymous class
        name = f"{owner}::{name}" if owner else _qualified(node, name)
    if not name:
        return None
    since = _SINCE.search(_comment(node, _CLIMB if kind == "hook" else 1))
    return Symbol(kind, name, path, node.start_point[0] + 1, since[1] if since else "")


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _first_text(call: Node) -> str:
    """Give a call's first argument if it is a plain text; a hook whose name is put together has none."""
    arguments = call.child_by_field_name("arguments")
    first = arguments.named_child(0) if arguments is not None else None
    value = first.named_child(0) if first is not None and first.type == "argument" else None
    if value is None or value.type not in {"string", "encapsed_string"}:
        return ""
    if any(part.type != "string_content" for part in value.named_children):
        return ""
    return _text(value)[1:-1]


def _owner(method: Node) -> str:
    node = method.parent
    while node is not None:
        if node.type in _CLASSES:
            name = node.child_by_field_name("name")
            return _qualified(node, _text(name)) if name is not None else ""
        if node.type == "anonymous_class":
            return ""
        node = node.parent
    return ""


def _qualified(node: Node, name: str) -> str:
    """Put the namespace before a name: one in braces is around it, one without comes before it."""
    top = node
    while top.parent is not None and top.parent.type != "program":
        top = top.parent
        if top.type == "namespace_definition":
            return _joined(top, name)
    before = top.prev_named_sibling if top.parent is not None else None
    while before is not None:
        if before.type == "namespace_definition" and before.child_by_field_name("body") is None:
            return _joined(before, name)
        before = before.prev_named_sibling
    return name


def _joined(namespace: Node, name: str) -> str:
    own = namespace.child_by_field_name("name")
    return f"{_text(own)}\\{name}" if own is not None else name


def _comment(node: Node, climb: int) -> str:
    """Give the documentation that stands before a node, or before what it is a part of."""
    current: Node | None = node
    for _ in range(climb):
        if current is None:
            return ""
        before = current.prev_sibling
        if before is not None and before.type == "comment":
            text = _text(before)
            return text if text.startswith("/**") else ""
        if climb > 1 and current.type == "expression_statement":
            return ""
        current = current.parent
    return ""
