"""Rules about ids, categories and what setup defines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tree_sitter import Node

from refcompare.execution.php_syntax import Source, classes, definitions, own_nodes
from refcompare.rules.model import Code, Objection, Rule, Subject, without_gaps
from refcompare.wording import quoted

_ID = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")
_NAME = re.compile(r"[A-Za-z_]\w*")
_MENTIONED = re.compile(r"(\$\w+)|['\"](\w+)['\"]")
"""A variable, or its name as a text."""

_SPREADS = frozenset({"compact", "extract", "get_defined_vars"})


def id_form(subject: Subject) -> Iterator[Objection]:
    """An id is lower-case words and numbers, so that it can be typed and stands in any file name."""
    test_id = subject.test.id
    if _ID.fullmatch(test_id) is None:
        message = f"the id {quoted(test_id)} is not made of lower-case letters, digits and hyphens"
        yield Objection(("id",), message, "name it CATEGORY-NUMBER, such as hooks-004")


def category_of_file(subject: Subject) -> Iterator[Objection]:
    """A test is in the file of its category, where who looks for it looks."""
    category, name = subject.test.category, subject.file.category
    own, file = _plain(category), _plain(name)
    if own != file and not own.endswith(file) and not file.endswith(own):
        message = f"the category is {quoted(category)} in the file of {quoted(name)}"
        mend = "move the test to the file of its category, or mend the category"
        yield Objection(("category",), message, mend)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def unused_setup(subject: Subject) -> Iterator[Objection]:
    """What setup defines is used by something: a function, a class, a variable."""
    for code in subject.code("setup"):
        if without_gaps(code.source) is None:
            continue
        yield from _unused_definitions(subject, code)
        yield from _unused_variables(subject, code)


def _unused_definitions(subject: Subject, code: Code) -> Iterator[Objection]:
    """A name that stands in no text but where it is defined is used by nobody, callbacks included."""
    named = Counter(name.lower() for text in _texts(subject) for name in _NAME.findall(text))
    items = [(item.name, item.node) for item in definitions(code.source) if item.kind == "function"]
    items += [(item.name, item.node) for item in classes(code.source)]
    for name, node in items:
        short = name.rpartition("\\")[2]
        inside = Counter(found.lower() for found in _NAME.findall(code.source.text(node)))
        if named[short.lower()] <= inside[short.lower()]:
            kind = "class" if node.type != "function_definition" else "function"
            place = code.place(code.source.line(node))
            message = f"{place} defines the {kind} {quoted(short)}, which nothing uses"
            yield Objection(code.where, message, "remove it, or use it in an assertion")


def _texts(subject: Subject) -> Iterator[str]:
    """Give every text in which a name of setup's could be used."""
    test = subject.test
    yield from (test.setup, test.teardown, test.prompt, test.expected_behavior, *test.requirements)
    yield test.reference_solution or ""
    yield from (test.reference_files or {}).values()
    yield from test.exploit_solutions
    for assertion in test.assertions:
        yield from (str(value) for value in assertion.values())


def _unused_variables(subject: Subject, code: Code) -> Iterator[Objection]:
    """A variable of setup's own is gone when setup ends, so only setup can read it."""
    source = code.source
    root = source.nodes[0]
    own = list(own_nodes(root))
    if any(source.text(node) in _SPREADS for node in own if node.type == "name"):
        return
    if any(node.type in {"dynamic_variable_name", "include_expression"} for node in own):
        return
    reads = Counter(source.text(node) for node in source.nodes if node.type == "variable_name")
    globals_ = {
        source.text(item) for node in own if node.type == "global_declaration" for item in node.named_children
    }
    texts = [item.source.code for item in subject.code("reference", "assertion", "teardown")]
    elsewhere = {name for text in texts for pair in _MENTIONED.findall(text) for name in pair}
    for name, node in _assigned(source, own).items():
        used = reads[name] > 1 or name in globals_ or name == "$this"
        if not used and not elsewhere.intersection({name, name[1:]}):
            place = code.place(source.line(node))
            message = f"{place} gives {name} a value, which nothing reads"
            yield Objection(code.where, message, "leave the variable out")


def _assigned(source: Source, nodes: list[Node]) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for node in nodes:
        if node.type == "assignment_expression":
            left = node.child_by_field_name("left")
            if left is not None and left.type == "variable_name":
                found.setdefault(source.text(left), left)
    return found


RULES = (
    Rule("id-form", "warning", test=id_form),
    Rule("category-of-file", "warning", test=category_of_file),
    Rule("unused-setup", "warning", test=unused_setup),
)
