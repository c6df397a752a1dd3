"""Chooses what of two arms takes part, so that both are asked for the same. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from refcompare.errors import UsageError
from refcompare.execution.model import ExecutionTest, InvalidTest
from refcompare.suites import SuiteSet
from refcompare.wording import alternatives, did_you_mean, quoted

Item = ExecutionTest | InvalidTest

_LISTED = 10


@dataclass(frozen=True, slots=True)
class Selection:
    """What the user asked for. Empty means everything; the conditions narrow one another.

    ``suites``, ``categories`` and ``test_ids`` hold names as typed, each perhaps several joined
    by commas. ``limit`` counts test ids over both arms together. ``changed`` keeps the tests
    whose definition differs between the arms.
    """

    suites: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    test_ids: tuple[str, ...] = ()
    limit: int | None = None
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What parts of a comparison were asked for. Agents cost money, so they work only where asked for."""

    execution: bool = True
    agents: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Asked:
        """Read the command line. Raises UsageError for options that contradict each other."""
        only = options.get("only")
        named = [
            name for name in ("eval", "agent", "repeat", "budget", "record", "replay") if options.get(name)
        ]
        if only == "execution" and named:
            raise UsageError(f"--{named[0]} is about agents, and --only execution runs none: leave one out.")
        return cls(execution=only != "agent", agents=only == "agent" or (only is None and bool(named)))


def select(
    base: SuiteSet | None, head: SuiteSet | None, selection: Selection = Selection()
) -> tuple[SuiteSet, SuiteSet]:
    """Narrow both arms to what was asked for; None for an arm that there is not gives an empty one.

    Tests that cannot be graded take part like any other, and a file that could not be read to its
    end takes part wherever one of its tests does, since it may be why a test seems to be gone.
    Raises UsageError for a name that neither arm has, for a limit below 1, and for ``changed`` with one arm.
    """
    if selection.limit is not None and selection.limit < 1:
        raise UsageError(f"--limit is {selection.limit}; ask for at least 1 test.")
    if selection.changed and (base is None or head is None):
        raise UsageError("--changed compares definitions, so it needs two refs.")
    arms = (_items(base), _items(head))
    chosen = list(_in_order(arms))
    wanted: tuple[tuple[str, str, tuple[str, ...], Callable[[Item], str]], ...] = (
        ("--suite", "suite", selection.suites, lambda item: item.suite),
        ("--category", "category", selection.categories, lambda item: item.category),
        ("--test-id", "test", selection.test_ids, lambda item: item.id),
    )
    for option, noun, typed, name_of in wanted:
        if typed:
            known = {name_of(item) for arm in arms for item in arm.values()}
            names = _expand(option, noun, typed, known)
            chosen = [
                name for name in chosen if any(name_of(arm[name]) in names for arm in arms if name in arm)
            ]
    if selection.changed:
        chosen = [name for name in chosen if _definition(arms[0], name) != _definition(arms[1], name)]
    kept = set(chosen[: selection.limit])
    kept |= _unread_files(arms, kept)
    return _narrow(base, kept), _narrow(head, kept)


def _items(suites: SuiteSet | None) -> dict[str, Item]:
    if suites is None:
        return {}
    items: list[Item] = [*suites.tests, *suites.invalid]
    return {item.id: item for item in sorted(items, key=lambda item: (item.path, item.line))}


def _in_order(arms: tuple[Mapping[str, Item], Mapping[str, Item]]) -> Iterable[str]:
    """Give every id once, ordered by where it stands: in head, or in base if head has it not."""
    places: dict[str, tuple[str, int]] = {}
    for arm in arms:
        places.update({name: (item.path, rank) for rank, (name, item) in enumerate(arm.items())})
    return sorted(places, key=lambda name: (*places[name], name))


def _expand(option: str, noun: str, typed: Iterable[str], known: set[str]) -> set[str]:
    names: set[str] = set()
    for text in typed:
        parts = [text] if text in known else [part.strip() for part in text.split(",")]
        for part in filter(None, parts):
            if part not in known:
                hint = did_you_mean(part, sorted(known)) or _what_there_is(option, known)
                raise UsageError(f"{option}: no {noun} is called {quoted(part)} on either arm; {hint}")
            names.add(part)
    if not names:
        raise UsageError(f"{option} names no {noun}.")
    return names


def _what_there_is(option: str, known: set[str]) -> str:
    if len(known) <= _LISTED:
        return f"there is {alternatives(map(quoted, sorted(known))) or 'none at all'}."
    return f"there are {len(known):,}, which --dry-run lists without {option}."


def _definition(arm: Mapping[str, Item], name: str) -> tuple[str, bool] | None:
    item = arm.get(name)
    return None if item is None else (item.entry_digest, isinstance(item, InvalidTest))


def _unread_files(arms: tuple[Mapping[str, Item], ...], kept: set[str]) -> set[str]:
    paths = {arm[name].path for arm in arms for name in kept if name in arm}
    return {name for arm in arms for name, item in arm.items() if name == item.path and name in paths}


def _narrow(suites: SuiteSet | None, kept: set[str]) -> SuiteSet:
    if suites is None:
        return SuiteSet()
    return SuiteSet(
        tuple(test for test in suites.tests if test.id in kept),
        tuple(test for test in suites.invalid if test.id in kept),
        suites.notes,
    )
