"""Rules about assertions, patterns and the gateway: that each says something, and each thing once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from tree_sitter import Node

from refcompare.execution.exploits.literals import literal_at
from refcompare.execution.loader_json import Where
from refcompare.execution.php_syntax import Source, call_at, within
from refcompare.rules.edits import Append, Change, Cut, Remove
from refcompare.rules.model import Code, Objection, Rule, Subject, without_gaps
from refcompare.wording import quoted

_CLEANS = re.compile(
    r"(wp_)?(delete|remove|unregister|deregister|unschedule|trash)_\w+|wp_clear_scheduled_hook|unlink|rmdir"
    r"|wp_cache_flush\w*|wp_reset_(postdata|query)"
)
_BARE_PATTERN = re.compile(r"\W*(function\s*\\?[s ]?[*+]?\s*)?\\?b?(?P<name>[A-Za-z_]\w*)(\\b)?\W*")
_SHARED = frozenset(
    {
        *("member_access_expression", "nullsafe_member_access_expression"),
        *("scoped_property_access_expression", "include_expression"),
    }
)
"""What gives a value that somebody else may have changed meanwhile."""

_REFERENCES = frozenset(
    {"by_ref", "reference_assignment_expression", "global_declaration", "function_static_declaration"}
)
"""What gives somebody else a hold of a variable."""

_LONGEST_BARE = 300
"""Characters of a pattern that are read: a name with something around it has fewer."""


def idle_assertion(subject: Subject) -> Iterator[Objection]:
    """An assertion looks at something: one that returns a constant holds, or fails, for every candidate."""
    idle, counted = 0, 0
    found = []
    for index, (assertion, source) in enumerate(subject.texts.assertions):
        counted += 1
        value = _constant(assertion, source)
        if value is not None:
            idle += 1
            where = ("runtime_checks", "assertions", index)
            message = f"assertion {index + 1} looks at nothing: it is {value} for every candidate"
            found.append(Objection(where, message, "return what the candidate's code does to the site"))
    all_idle = idle == counted == len(subject.test.assertions)
    for objection in found:
        yield Objection(
            objection.where, objection.message, objection.mend, severity="error" if all_idle else None
        )


def _constant(assertion: Any, source: Source | None) -> str | None:
    """Give as PHP what an assertion's code always returns; None where it does anything at all."""
    if source is None or without_gaps(source) is None:
        return None
    kind = assertion.get("type")
    statements = [node for node in source.nodes[0].named_children if node.type not in {"comment", "php_tag"}]
    if kind not in {"custom_assertion", "returns_value"} or len(statements) != 1:
        return None
    inner = statements[0].named_children
    if statements[0].type != "return_statement" or not inner:
        return None
    literal = literal_at(source, inner[0])
    return literal.text[:40] if literal is not None else None


def gateway_in_patterns(subject: Subject) -> Iterator[Objection]:
    """No required pattern asks for the name in test_function: that it exists is checked anyway."""
    name = (subject.test.gateway or "").lstrip("\\").lower()
    patterns = subject.test.static_checks.get("required_patterns")
    if not name or not isinstance(patterns, list):
        return
    for index, item in enumerate(patterns):
        match = _BARE_PATTERN.fullmatch(item["pattern"][:_LONGEST_BARE])
        if match is not None and match["name"].lower() == name:
            where = ("static_checks", "required_patterns", index)
            message = f"the pattern {quoted(item['pattern'])} only repeats test_function"
            yield Objection(where, message, "remove the pattern", (Remove(where),))


def unused_gateway(subject: Subject) -> Iterator[Objection]:
    """What test_function names is called, or at least named, where the test is set up or judged."""
    name = (subject.test.gateway or "").lstrip("\\")
    if not name:
        return
    short = re.compile(rf"(?<!\w){re.escape(name.rpartition('::')[2])}(?!\w)", re.IGNORECASE)
    texts = [code.source.code for code in subject.code("setup", "assertion", "teardown")]
    texts += [str(value) for item in subject.test.assertions for value in item.values()]
    if not any(short.search(text) for text in texts):
        message = f"nothing calls {quoted(name)}, which test_function asks for"
        yield Objection(("test_function",), message, "call it in an assertion, or ask for no function")


def cleanup_in_assertion(subject: Subject) -> Iterator[Objection]:
    """What a test has made is removed by its teardown, which runs also where an assertion fails."""
    last = len(subject.test.assertions) - 1
    for code in subject.code("assertion"):
        if without_gaps(code.source) is None:
            continue
        statements = list(_trailing_cleanup(code.source))
        if statements:
            index = code.where[-2]
            shown = code.source.text(statements[0]).strip()
            message = f"{code.place(code.source.line(statements[0]))} cleans up: {quoted(shown, 60)}"
            changes = _moved(subject, code, statements) if index == last else ()
            yield Objection(code.where, message, "move it to runtime_checks.teardown", changes)


def _trailing_cleanup(source: Source) -> Iterator[Node]:
    """Give the statements after the last look at the site that only remove something.

    What stands before a return that looks at the site again, or at what a callback may have written, may be
    what the test is about.
    """
    body = [node for node in source.nodes[0].named_children if node.type not in {"comment", "php_tag"}]
    if body and body[-1].type == "return_statement" and not _is_settled(source, body.pop()):
        return
    found = []
    while body and _cleans(source, body[-1]):
        found.append(body.pop())
    if body:  # else nothing was looked at: removing is what the assertion is about
        yield from reversed(found)


def _is_settled(source: Source, returned: Node) -> bool:
    """Say whether nothing that is removed can change a returned value any more.

    It holds local variables and literals alone: no call, no object that a callback may share, no global, and
    no variable that something has a reference to.
    """
    parts = list(within(returned))
    if any(part.type in _SHARED or call_at(source, part) is not None for part in parts):
        return False
    names = {source.text(part) for part in parts if part.type == "variable_name"}
    if "$GLOBALS" in names:
        return False
    shared = (node for node in source.nodes if node.type in _REFERENCES)
    return all(names.isdisjoint(source.text(item) for item in within(node)) for node in shared)


def _cleans(source: Source, statement: Node) -> bool:
    inner = statement.named_children
    call = call_at(source, inner[0]) if statement.type == "expression_statement" and inner else None
    return call is not None and _CLEANS.fullmatch(call.name) is not None


def _moved(subject: Subject, code: Code, statements: Sequence[Node]) -> tuple[Change, ...]:
    """Give the edits that move statements to the teardown; none where they need what is not there.

    In the last assertion nothing runs after them but the return of a value that they cannot change, and the
    teardown, so moving them changes no verdict. What prints may print in them too.
    """
    source, teardown = code.source, subject.test.teardown
    if any(node.type == "variable_name" for item in statements for node in within(item)):
        return ()
    if "?>" in teardown or source.nodes[0].named_children[-1].type != "return_statement":
        return ()
    texts, cuts = [], []
    for item in statements:
        start, end = _columns(source, item)
        cuts.append(Cut(code.where, start, end))
        texts.append(source.text(item))
    missing = [text for text in texts if text not in teardown]
    kept: tuple[Change, ...] = ()
    if missing:
        kept = (Append(("runtime_checks", "teardown"), "\n".join(missing)),)
    return (*cuts, *kept)


def _columns(source: Source, node: Node) -> tuple[int, int]:
    """Give a statement's place in the authored text, in characters, with the white space before it."""
    start, end = source.columns(node)
    while start > 0 and source.code[start - 1] in " \t\r\n":
        start -= 1
    return start, end


def php_syntax(subject: Subject) -> Iterator[Objection]:
    """The PHP of a test can be parsed."""
    for code in (code for code in subject.codes if code.source.error is not None):
        message = f"{code.name} cannot be parsed: {code.source.error}"
        yield Objection(code.where, message, "mend the PHP")


def repeated_entry(subject: Subject) -> Iterator[Objection]:
    """No requirement, exploit or source is listed twice."""
    lists: list[tuple[Where, Sequence[Any]]] = [
        (("requirements",), subject.test.requirements),
        (("exploit_solutions",), subject.test.exploit_solutions),
    ]
    refs = subject.metadata.get("source_refs")
    if isinstance(refs, list):
        lists.append((("metadata", "source_refs"), refs))
    for where, items in lists:
        first: dict[str, int] = {}
        for index, item in enumerate(items):
            if isinstance(item, str) and first.setdefault(item.strip(), index) != index:
                message = f"{where[-1]} lists {quoted(item, 60)} twice"
                place: Where = (*where, index)
                yield Objection(place, message, "remove one of the two", (Remove(place),))


RULES = (
    Rule("idle-assertion", "warning", test=idle_assertion),
    Rule("cleanup-in-assertion", "warning", test=cleanup_in_assertion),
    Rule("gateway-in-patterns", "warning", test=gateway_in_patterns),
    Rule("unused-gateway", "warning", test=unused_gateway),
    Rule("repeated-entry", "warning", test=repeated_entry),
    Rule("php-syntax", "warning", test=php_syntax),
)
