"""Every rule by its name. To add one: write the function, give it a name in its module's ``RULES``, and a
section in docs/rules.md whose examples show what it objects to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from refcompare.errors import UsageError
from refcompare.rules import (
    answers,
    assertions,
    determinism,
    evals,
    fixtures,
    format,
    prompts,
    release,
    state,
)
from refcompare.rules.model import Rule
from refcompare.wording import did_you_mean, quoted

WAIVER = "waiver"
UNUSED_WAIVER = "unused-waiver"

_WAIVERS = (
    Rule(WAIVER, "error", waivable=False),
    Rule(UNUSED_WAIVER, "warning", waivable=False),
)

ALL: tuple[Rule, ...] = (
    *format.RULES,
    *prompts.RULES,
    *answers.RULES,
    *assertions.RULES,
    *fixtures.RULES,
    *determinism.RULES,
    *release.RULES,
    *state.RULES,
    *evals.RULES,
    *_WAIVERS,
)

BY_NAME: Mapping[str, Rule] = {rule.name: rule for rule in ALL}


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which rules are asked: ``only`` these, all where it is empty, but not those ``ignored``."""

    only: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        """Say whether a rule is asked."""
        return (not self.only or name in self.only) and name not in self.ignored


def choose(only: Iterable[str], ignored: Iterable[str]) -> Chosen:
    """Read names as they were typed. Raises UsageError for one that no rule has, or that must hold."""
    chosen = Chosen(frozenset(only), frozenset(ignored))
    for name in sorted(chosen.only | chosen.ignored):
        if name not in BY_NAME:
            near = did_you_mean(name, BY_NAME) or "docs/rules.md lists them."
            raise UsageError(f"There is no rule {quoted(name)}; {near}")
    for name in sorted(chosen.ignored):
        if not BY_NAME[name].waivable:
            raise UsageError(f"The rule {quoted(name)} cannot be ignored: without it no test can be graded.")
    return chosen
