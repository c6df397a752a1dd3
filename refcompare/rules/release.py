"""Rules that look into the source of WordPress: that what a test refers to is there, and old enough."""

from __future__ import annotations

import re
from collections.abc import Iterator

from refcompare.execution.exploits.literals import literal_at
from refcompare.execution.php_syntax import Call, Source, classes, definitions
from refcompare.rules.model import Code, Objection, Rule, Subject
from refcompare.wording import did_you_mean, quoted
from refcompare.wordpress.symbols import Symbols, Version, read_version

_REF = re.compile(
    r"(?P<path>[^:#\s]+?)(:(?P<line>\d{1,7})(-\d{1,7})?|#(?P<symbol>\\?[A-Za-z_][\w\\]*(::\$?\w+)?(\(\))?|[^\s]+))?"
)
_DEVELOP = "src/"
"""Where the repository in which WordPress is developed keeps what a release has at its root."""

_LISTENS = frozenset({"add_filter", "add_action"})
_ASKS = frozenset({"function_exists", "class_exists", "method_exists", "is_callable", "interface_exists"})
_WORDPRESS = re.compile(r"(wp|rest|_wp)_[a-z]\w*|new wp_\w+")
"""Names by which only WordPress calls what it defines; PHP has none of them."""


def source_ref(subject: Subject) -> Iterator[Objection]:
    """What source_refs name is in the release: a path, ``path:line`` or ``path#symbol``."""
    refs = subject.metadata.get("source_refs")
    symbols = subject.symbols
    if symbols is None or not isinstance(refs, list):
        return
    for index, ref in enumerate(refs):
        where = ("metadata", "source_refs", index)
        if not isinstance(ref, str):
            yield Objection(
                where, "a source_ref is no text", "name a file of WordPress, such as wp-includes/post.php"
            )
        elif not ref.startswith(("http://", "https://")):
            fault = _fault(ref, symbols)
            if fault is not None:
                message = f"{quoted(ref)}: {fault}"
                yield Objection(where, message, "name the file, line or symbol as the release has it")


def _fault(ref: str, symbols: Symbols) -> str | None:
    match = _REF.fullmatch(ref)
    if match is None:
        return "this is no path, path:line or path#symbol"
    path = match["path"].removeprefix("./").removeprefix(_DEVELOP)
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or "\\" in path or "\0" in path:
        return "this is no path below the root of WordPress"
    place = symbols.core.joinpath(*parts)
    if not place.exists():
        return f"WordPress {symbols.version} has no such file"
    if match["line"] is not None:
        lines = place.read_bytes().count(b"\n") + 1 if place.is_file() else 0
        if not 1 <= int(match["line"]) <= lines:
            return f"the file has {lines:,} lines in WordPress {symbols.version}"
    if match["symbol"] is not None:
        name = match["symbol"].lstrip("\\").removesuffix("()").lower()
        names = symbols.in_file(path)
        if name not in names and not any(known.endswith(f"\\{name}") for known in names):
            near = did_you_mean(name, names)
            missing = f"the file defines no {quoted(name)} in WordPress {symbols.version}"
            return f"{missing}; {near}" if near else missing
    return None


def newer_api(subject: Subject) -> Iterator[Objection]:
    """Setup, reference and assertions use nothing that is newer than the release that the test is for."""
    symbols = subject.symbols
    if symbols is None:
        return
    target, stated = _target(subject, symbols)
    own = _own(subject)
    told: set[tuple[str, str]] = set()
    for code in subject.code("setup", "reference", "assertion", "teardown"):
        asked = _asked(code)
        for kind, name, line in _uses(code):
            if (kind, name) in told or name in own or name in asked:
                continue
            since = symbols.since(kind, name)
            used = f"{code.place(line)} uses the {kind} {quoted(name)}"
            if since is not None and since > target:
                told.add((kind, name))
                message = f"{used}, which came with {_written(since)}, and the test is for {stated}"
                yield Objection(code.where, message, "use what that release has, or state the newer release")
            elif since is None and _is_missing(kind, name, symbols):
                told.add((kind, name))
                message = f"{used}, which WordPress {symbols.version} does not have"
                yield Objection(code.where, message, "use what the release has, or grade in a newer one")


def _written(version: Version) -> str:
    return ".".join(str(number) for number in (version if len(version) > 1 else (*version, 0)))


def _is_missing(kind: str, name: str, symbols: Symbols) -> bool:
    """Say whether only WordPress could define a name, and does not."""
    if symbols.defines(kind, name):
        return False
    text = {"class": f"new {name}", "function": name}.get(kind, "")
    return _WORDPRESS.fullmatch(text) is not None


def _target(subject: Subject, symbols: Symbols) -> tuple[Version, str]:
    """Give the release that a test is for: its own word, that of its file, else the one that grades it.

    A release of two numbers stands for the whole series, since no API comes with a third.
    """
    for stated in (subject.metadata.get("wp_version"), subject.file_metadata.get("wp_version")):
        version = read_version(stated) if isinstance(stated, str) else None
        if version is not None:
            return _whole_series(version), str(stated)
    graded = read_version(symbols.version) or (999,)
    focus = subject.metadata.get("release_focus")
    version = read_version(focus) if isinstance(focus, str) else None
    if version is not None and version < graded:
        return _whole_series(version), f"{focus} (release_focus)"
    return graded, symbols.version


def _whole_series(version: Version) -> Version:
    """Give the last release that a version of one or two numbers may stand for."""
    return version if len(version) > 2 else (*(*version, 0)[:2], 99)


def _own(subject: Subject) -> set[str]:
    """Give what the test itself defines, in lower case."""
    names: set[str] = set()
    for code in subject.code("setup", "reference"):
        names |= {item.name.rpartition("\\")[2].lower() for item in definitions(code.source)}
        names |= {item.name.lower() for item in classes(code.source)}
        names |= {item.name.rpartition("\\")[2].lower() for item in classes(code.source)}
    return names


def _asked(code: Code) -> set[str]:
    """Give the names whose existence a text asks for before it uses them, in lower case."""
    return {
        value.value.lstrip("\\").lower()
        for call in code.calls
        if call.name in _ASKS
        for argument in call.arguments
        if (value := literal_at(code.source, argument)) is not None and isinstance(value.value, str)
    }


def _uses(code: Code) -> Iterator[tuple[str, str, int]]:
    """Give the kind and name of what a text uses of WordPress, with the line in it."""
    source = code.source
    for call in code.calls:
        line = source.line(call.node)
        owner, scoped, method = call.name.rpartition("::")
        if call.name.startswith("new "):
            yield "class", call.name.removeprefix("new "), line
        elif scoped:
            yield "class", owner, line
            yield "method", f"{owner}::{method}", line
        elif not call.name.startswith("->"):
            yield "function", call.name, line
            hook = _hook(source, call)
            if hook:
                yield "hook", hook, line


def _hook(source: Source, call: Call) -> str:
    value = literal_at(source, call.arguments[0]) if call.name in _LISTENS and call.arguments else None
    return value.value if value is not None and isinstance(value.value, str) else ""


RULES = (
    Rule("source-ref", "warning", test=source_ref, needs="release"),
    Rule("newer-api", "warning", test=newer_api, needs="release"),
)
