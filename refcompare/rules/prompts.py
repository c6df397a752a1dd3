"""Rules about prompts: that they ask for an outcome, say neither the answer nor how to get it, and differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice, pairwise

from refcompare.agents.checks.calls import SkillUsed
from refcompare.agents.checks.reads import Read
from refcompare.execution.php_syntax import classes, definitions
from refcompare.rules.model import EvalSubject, Objection, Prompt, Rule, Subject
from refcompare.wording import quoted

NEARLY = 0.9
"""The share of words in one order from which a prompt says what another text says."""

ALIKE = 0.7
"""The share of word pairs that two prompts have in common, from which they are near-duplicates."""

FEWEST_WORDS = 6
"""Words below which two prompts are not compared but for being equal: short ones are alike by chance."""

MOST_WORDS = 2_000
"""Words of one prompt that are compared."""

MOST_COMPARED = 200
"""Prompts that one is compared with, those with its rarest pairs of words first: more share no rare one."""

_WORD = re.compile(r"\w+")
_NAME = re.compile(r"(?<![\w\\$'\"-])\\?(?:[A-Za-z]\w*(?:::|->))?[A-Za-z]\w*")


def _words(text: str) -> list[str]:
    return [match[0].lower() for match in islice(_WORD.finditer(text), MOST_WORDS)]


def prompt_repeats_answer(subject: Subject) -> Iterator[Objection]:
    """The prompt asks for something, and expected_behavior says what a right answer does."""
    test = subject.test
    asked, expected = _words(test.prompt), _words(test.expected_behavior)
    if not expected or not asked:
        return
    matcher = SequenceMatcher(None, asked, expected, autojunk=False)
    if asked == expected:
        message = "prompt and expected_behavior say the same"
    elif matcher.real_quick_ratio() >= NEARLY and matcher.ratio() >= NEARLY:
        message = "prompt and expected_behavior say nearly the same"
    else:
        return
    mend = "say in expected_behavior what a right answer does that a wrong one does not"
    yield Objection(("expected_behavior",), message, mend)


def prompt_names_gateway(subject: Subject) -> Iterator[Objection]:
    """A prompt does not repeat the name in test_function, which a candidate is given beside it."""
    name = (subject.test.gateway or "").lstrip("\\")
    if name and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", subject.test.prompt, re.IGNORECASE):
        message = f"the prompt names {quoted(name)}, which test_function says already"
        yield Objection(("prompt",), message, "say what has to come out, and leave the name to test_function")


def prompt_names_helper(subject: Subject) -> Iterator[Objection]:
    """A prompt does not name what of WordPress or PHP the reference calls: that is the answer.

    What the assertions name as well is no mere helper: a class that they ask for is part of the outcome.
    """
    asked = {name.lstrip("\\").lower(): name for name in _NAME.findall(subject.test.prompt)}
    if not asked:
        return
    own, seen = _own_names(subject), _observed_names(subject)
    helpers: dict[str, str] = {}
    for code in subject.code("reference"):
        for call in code.calls:
            name = call.name.removeprefix("new ")
            telling = "_" in name or "::" in name
            if telling and not name.startswith("->") and name in asked and name not in own | seen:
                helpers[name] = asked[name]
    for name in helpers.values():
        message = f"the prompt names {quoted(name)}, which the reference calls"
        mend = "name the outcome instead, or what the caller sees of it"
        yield Objection(("prompt",), message, mend)


def _own_names(subject: Subject) -> set[str]:
    """Give what the test itself defines, in lower case: naming that is no help."""
    names = {(subject.test.gateway or "").lstrip("\\").lower()}
    for code in subject.code("reference", "setup"):
        names |= {item.name.lower() for item in definitions(code.source)}
        names |= {item.name.lower() for item in classes(code.source)}
    return names


def _observed_names(subject: Subject) -> set[str]:
    """Give the names in assertions, in setup and in the signature that is asked for, in lower case."""
    texts = [code.source.code for code in subject.code("assertion", "setup")]
    texts.append(subject.test.test_function or "")
    names = {name.lower() for text in texts for name in _NAME.findall(text)}
    return names | ({"wp_error"} if "is_wp_error" in names else set())


def near_duplicate_prompts(prompts: Sequence[Prompt]) -> Iterator[tuple[Prompt, str, str]]:
    """No two prompts ask for the same, whichever suites they are in."""
    shingled = [_shingles(prompt.text) for prompt in prompts]
    for later, earlier, share in similar(shingled, ALIKE):
        one, other = prompts[later], prompts[earlier]
        if one.kind != other.kind:
            continue
        alike = "is that of" if share == 1 else f"is {share:.0%} that of"
        message = f"the prompt {alike} {quoted(other.owner)} at {other.path}:{other.line}"
        yield one, message, "ask for something else, or remove one of the two"


def _shingles(text: str) -> frozenset[str]:
    """Give the pairs of words in a row; numbers count as one word, so that a numbered name tells nothing."""
    words = [re.sub(r"\d+", "0", word) for word in _words(text)]
    if len(words) < FEWEST_WORDS:
        return frozenset({" ".join(words)}) if words else frozenset()
    counts: Counter[str] = Counter(f"{one} {two}" for one, two in pairwise(words))
    return frozenset(f"{pair} {number}" for pair, times in counts.items() for number in range(times))


def similar(sets: Sequence[frozenset[str]], least: float) -> Iterator[tuple[int, int, float]]:
    """Give each set that is like an earlier one: its index, that of the one it is most like, and the share.

    The share is Jaccard's. Exact, and without comparing all with all: two sets that have that much in common
    have one of their rarest members in common, so only the rarest are indexed (prefix filtering, as in
    Bayardo, Ma and Srikant, "Scaling up all pairs similarity search", 2007).
    """
    times = Counter(member for members in sets for member in members)
    index: dict[str, list[int]] = {}
    first: dict[frozenset[str], int] = {}
    for at, members in enumerate(sets):
        if members and first.setdefault(members, at) != at:
            yield at, first[members], 1.0
            continue
        ordered = sorted(members, key=lambda member: (times[member], member))
        prefix = ordered[: len(ordered) - _least_overlap(len(ordered), least) + 1] if ordered else []
        near = (other for member in prefix for other in index.get(member, ()))
        candidates = set(islice(near, MOST_COMPARED))
        best = (0.0, 0)
        for other in candidates:
            common = len(members & sets[other])
            share = common / (len(members) + len(sets[other]) - common)
            best = max(best, (share, -other))
        if best[0] >= least:
            yield at, -best[1], best[0]
        for member in prefix:
            index.setdefault(member, []).append(at)


def _least_overlap(size: int, least: float) -> int:
    """Give how many members a set has to have in common with any that is so much like it."""
    exact = least * size
    return int(exact) if exact == int(exact) else int(exact) + 1


def prompt_names_guidance(subject: EvalSubject) -> Iterator[tuple[int, str, str]]:
    """The prompt of an eval does not name the guidance whose use it measures."""
    item = subject.eval
    prompt = item.prompt.lower()
    for named in item.checks:
        check = named.check
        if isinstance(check, Read) and check.path.lower() in prompt:
            wanted = check.path
        elif isinstance(check, SkillUsed) and _is_named(check.skill, item.prompt):
            wanted = check.skill
        else:
            continue
        message = f"the prompt names {quoted(wanted)}, whose use the check in line {named.line} measures"
        yield item.line, message, "ask as a person would who does not know of it"


def _is_named(skill: str, prompt: str) -> bool:
    """Say whether a prompt names a skill as one: its words alone may be what the task is about."""
    name = re.escape(skill)
    return (
        re.search(rf"(?i)(skill\s+[`'\"]?{name}\b|\b{name}[`'\"]?\s+skill|/{name}\b|`{name}`)", prompt)
        is not None
    )


RULES = (
    Rule("prompt-repeats-answer", "warning", test=prompt_repeats_answer),
    Rule("prompt-names-gateway", "warning", test=prompt_names_gateway),
    Rule("prompt-names-helper", "warning", test=prompt_names_helper),
    Rule("near-duplicate-prompt", "warning", prompts=near_duplicate_prompts),
    Rule("prompt-names-guidance", "warning", eval=prompt_names_guidance),
)
