"""A stand-in for a model: it follows the guidance that it is given, to the letter, and knows nothing else.

It is no model, and what it does says nothing of what one would do. It is here so that a change of
guidance can be seen to change what an agent does, in seconds and without a key. The rules are few:

- A skill is loaded when its description shares at least two telling words with the prompt.
- Of the guidance and of every skill that was loaded, these lines are followed, in their order:
  *Read `PATH`*, *Run `COMMAND`*, and *Write `PATH`:* with the fenced block after it.
- It ends when nothing is left to follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refcompare.agents.model.script import ScriptedCall, Turn
from refcompare.agents.model.wire import RequestFacts, Tokens

MODEL_NAME = "guidance-follower"

_SKILL = re.compile(r"^- ([\w.-]+): (.*)$", re.MULTILINE)
_WORD = re.compile(r"[a-z]{4,}")
_COMMON = frozenset(
    {
        *(
            "about",
            "after",
            "also",
            "before",
            "does",
            "each",
            "else",
            "every",
            "file",
            "files",
            "from",
            "have",
        ),
        *("into", "make", "more", "must", "only", "other", "should", "some", "that", "them", "then", "there"),
        *("these", "this", "those", "what", "when", "where", "which", "with", "work", "your"),
    }
)
_STEP = re.compile(
    r"\b(?:[Rr]ead `(?P<read>[^`\n]+)`"
    r"|[Rr]un `(?P<run>[^`\n]+)`"
    r"|[Ww]rite `(?P<write>[^`\n]+)`:?[^\n]*\n\s*```[^\n]*\n(?P<content>.*?)\n```)",
    re.DOTALL,
)
_SHARED_WORDS = 2
_MOST_STEPS = 40


@dataclass(frozen=True, slots=True)
class GuidanceFollower:
    """Speaks Anthropic's format only, since it follows what the stand-in agent tells it."""

    def turn(self, request: Mapping[str, Any], facts: RequestFacts, number: int) -> Turn | None:
        """Give the next steps that the guidance asks for, those that were taken left out."""
        if not facts.has_tools:
            return Turn("Noted.", tokens=_tokens(request))
        system = _plain(request.get("system"))
        messages = [message for message in request.get("messages", []) if isinstance(message, dict)]
        taken = list(_taken(messages))
        loaded = [text for name, _, text in taken if name == "Skill"]
        prompt = _plain(messages[0].get("content")) if messages else ""
        wanted: list[tuple[str, Mapping[str, Any]]] = [
            ("Skill", {"skill": name}) for name in _skills_for(prompt, system)
        ]
        for text in (_own_guidance(system), *loaded):
            wanted += _steps(text)
        done = [(name, given) for name, given, _ in taken]
        left = [step for step in dict.fromkeys(map(_hashable, wanted)) if step not in map(_hashable, done)]
        if not left or len(done) >= _MOST_STEPS:
            said = f"Done: {len(done)} steps of the guidance followed."
            return Turn(said, tokens=_tokens(request))
        calls = [(name, dict(given)) for name, given in left if name == "Skill"] or [
            (name, dict(given)) for name, given in left[:1]
        ]
        return Turn("", tuple(ScriptedCall(anthropic=call) for call in calls), _tokens(request))


def _hashable(step: tuple[str, Mapping[str, Any]]) -> tuple[str, tuple[tuple[str, str], ...]]:
    return step[0], tuple(sorted((key, str(value)) for key, value in step[1].items()))


def _taken(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Give the calls of a conversation so far, each with its name, input and result."""
    results: dict[str, str] = {}
    for message in messages:
        for block in _blocks(message):
            if block.get("type") == "tool_result":
                results[str(block.get("tool_use_id"))] = _plain(block.get("content"))
    for message in messages:
        for block in _blocks(message):
            if block.get("type") == "tool_use" and isinstance(block.get("input"), dict):
                yield str(block.get("name")), block["input"], results.get(str(block.get("id")), "")


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _plain(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def _own_guidance(system: str) -> str:
    return system.partition("# Skills\n")[0]


def _skills_for(prompt: str, system: str) -> list[str]:
    """Give the skills whose description is about what the prompt asks for, in their order."""
    asked = _telling(prompt)
    listed = _SKILL.findall(system.partition("# Skills\n")[2])
    return [name for name, about in listed if len(_telling(about) & asked) >= _SHARED_WORDS]


def _telling(text: str) -> set[str]:
    words = set(_WORD.findall(text.lower())) - _COMMON
    return {word.removesuffix("s") for word in words}


def _steps(text: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    for found in _STEP.finditer(text):
        if found["read"]:
            yield "Read", {"file_path": found["read"]}
        elif found["run"]:
            yield "Bash", {"command": found["run"]}
        else:
            yield "Write", {"file_path": found["write"], "content": found["content"] + "\n"}


def _tokens(request: Mapping[str, Any]) -> Tokens:
    """Say how much was read: a stand-in has no tokens, and counts four characters as one."""
    return Tokens(input=len(str(request.get("messages"))) // 4, output=20)
