"""Rules about what makes a verdict depend on more than the candidate: the clock, the network, chance."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tree_sitter import Node

from refcompare.execution.exploits.literals import literal_at
from refcompare.execution.php_syntax import Call, Source, call_at
from refcompare.rules.model import Code, Objection, Rule, Subject
from refcompare.wording import quoted

_NOW = frozenset({"time", "microtime", "hrtime", "current_time", "current_datetime"})
_FORMATS = {"date": 1, "gmdate": 1, "date_i18n": 1, "wp_date": 1, "getdate": 0, "localtime": 0, "idate": 1}
"""What formats the moment where no timestamp is given: how many arguments come before the timestamp."""

_MADE = frozenset({"new datetime", "new datetimeimmutable", "date_create", "date_create_immutable"})
_FIXED_DATE = re.compile(r"\s*@?\d")
_FAR = re.compile(r"\s*[+-]\s*\d+\s*(hour|day|week|fortnight|month|year)s?\b.*", re.IGNORECASE | re.DOTALL)

_CLOSE = 3600
"""Seconds from the moment below which a time is not far from it: a slow machine could pass it."""

_SEEDED = frozenset({"rand", "mt_rand", "shuffle", "array_rand", "str_shuffle", "lcg_value"})
_CHANCE = _SEEDED | frozenset(
    {"wp_rand", "random_int", "random_bytes", "uniqid", "wp_generate_password", "wp_generate_uuid4"}
)
_SEEDS = frozenset({"mt_srand", "srand", "new random\\randomizer"})
_SECRETS = frozenset({"wp_create_user", "wp_set_password", "wp_insert_user", "wp_update_user"})

_REQUESTS = re.compile(
    r"wp_(safe_)?remote_(get|post|head|request)|download_url|fsockopen|stream_socket_client|curl_\w+"
    r"|gethostbyname\w*|dns_get_record|checkdnsrr|wp_oembed_get|fetch_feed|media_sideload_image|wp_update_\w+s"
    r"|->request"
)  # fmt: skip
_READERS = frozenset({"file_get_contents", "fopen", "copy", "file", "simplexml_load_file", "getimagesize"})
_DOUBLES = ("pre_http_request", "http_api_transports", "pre_oembed_result")


def clock(subject: Subject) -> Iterator[Objection]:
    """Setup and assertions do not depend on when they run."""
    mend = "give a fixed moment, as in strtotime( '2024-03-01 12:00:00 UTC' )"
    yield from _each(subject, _clock, "the moment", mend)


def network(subject: Subject) -> Iterator[Objection]:
    """Setup and assertions ask no other machine: the grader has no network."""
    texts = [code.source.code for code in subject.code("setup", "assertion")]
    if not any(double in text for text in texts for double in _DOUBLES):
        mend = "answer the request from a pre_http_request filter in setup"
        yield from _each(subject, _network, "another machine", mend)


def randomness(subject: Subject) -> Iterator[Objection]:
    """Setup and assertions do not depend on chance."""
    names = {call.name for code in subject.code("setup", "assertion") for call in code.calls}
    seeded = bool(names & _SEEDS)

    def chance(code: Code, call: Call) -> bool:
        if call.name not in _CHANCE or (seeded and call.name in _SEEDED):
            return False
        return not _is_secret(code.source, call.node)

    yield from _each(subject, chance, "chance", "write a value out, or seed mt_srand() with a number")


def _each(
    subject: Subject, objects: Callable[[Code, Call], bool], what: str, mend: str
) -> Iterator[Objection]:
    """Object once to each function that is called, in each text that the verdict depends on."""
    for code in subject.code("setup", "assertion"):
        told: set[str] = set()
        for call in code.calls:
            if call.name not in told and objects(code, call):
                told.add(call.name)
                shown = quoted(code.source.text(call.node), 60)
                place = code.place(code.source.line(call.node))
                yield Objection(code.where, f"{place} depends on {what}: {shown}", mend)


def _network(code: Code, call: Call) -> bool:
    if call.name in _READERS:
        value = literal_at(code.source, call.arguments[0]) if call.arguments else None
        return (
            value is not None
            and isinstance(value.value, str)
            and "://" in value.value[:10]
            and (value.value.startswith(("http", "ftp")))
        )
    return _REQUESTS.fullmatch(call.name) is not None and not _is_rest(code.source, call)


def _is_rest(source: Source, call: Call) -> bool:
    """A method called request() is one of WP_Http only where that is written beside it."""
    return call.name == "->request" and "_http" not in source.text(call.node).lower()


def _clock(code: Code, call: Call) -> bool:
    source = code.source
    if call.name in _NOW:
        return not _is_far(source, call.node) and not _is_argument_for_far(source, call)
    if call.name in _FORMATS:
        return len(call.arguments) <= _FORMATS[call.name]
    if call.name in _MADE:
        return not call.arguments or _is_relative(source, call.arguments[0], alone=True)
    if call.name == "strtotime":
        return len(call.arguments) == 1 and _is_relative(source, call.arguments[0], alone=True)
    return False


def _is_relative(source: Source, node: Node, *, alone: bool) -> bool:
    """Say whether a text names a moment close to now: a date does not, nor what is hours away."""
    value = literal_at(source, node)
    if value is None or not isinstance(value.value, str):
        return False
    return (
        alone
        and _FIXED_DATE.match(value.value) is None
        and _FAR.fullmatch(value.value) is None
        and (not re.search(r"\d{4}", value.value))
    )


def _is_far(source: Source, node: Node) -> bool:
    """Say whether something is added to or taken from a moment that no delay of a test makes up for."""
    for above in source.ancestors(node):
        if above.type in {"parenthesized_expression", "cast_expression"}:
            continue
        operator = above.child_by_field_name("operator") if above.type == "binary_expression" else None
        if operator is None or operator.type not in {"+", "-"}:
            return False
        return any(_seconds(source, side) for side in above.named_children if not _holds(side, node))
    return False


def _is_argument_for_far(source: Source, call: Call) -> bool:
    """``strtotime( '+2 days', time() )`` is as far from the moment as ``time() + 2 * DAY_IN_SECONDS``."""
    arguments = next((above for above in source.ancestors(call.node) if above.type == "arguments"), None)
    outer = call_at(source, node) if arguments is not None and (node := source.parent(arguments)) else None
    if outer is None or outer.name != "strtotime" or not outer.arguments:
        return False
    value = literal_at(source, outer.arguments[0])
    return value is not None and isinstance(value.value, str) and _FAR.fullmatch(value.value) is not None


def _seconds(source: Source, node: Node) -> bool:
    """Say whether an expression is an hour or more: a number, or something with a constant for it."""
    text = source.text(node)
    if re.search(r"\b(HOUR|DAY|WEEK|MONTH|YEAR)_IN_SECONDS\b", text):
        return True
    value = literal_at(source, node)
    return value is not None and isinstance(value.value, int) and abs(value.value) >= _CLOSE


def _holds(outer: Node, inner: Node) -> bool:
    return outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


def _is_secret(source: Source, node: Node) -> bool:
    """Say whether chance makes no more than the password of a user, which nothing looks at."""
    for above in source.ancestors(node):
        call = call_at(source, above)
        if call is not None:
            return call.name in _SECRETS
    return False


RULES = (
    Rule("clock", "warning", test=clock),
    Rule("network", "warning", test=network),
    Rule("randomness", "warning", test=randomness),
)
