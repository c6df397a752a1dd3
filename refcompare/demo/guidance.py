"""A small plugin in a repository whose guidance changes, and agent evals that show what that does.

From base to head the description of one skill says when to use it, another skill escapes what it prints,
and AGENTS.md no longer asks for a syntax check. A stand-in follows the guidance to the letter: it is no
model, and what it does says nothing of what one would do.
"""

from __future__ import annotations

from pathlib import Path

from refcompare.demo import STATES, build_from

_FILES = Path(__file__).resolve().parent / "guidance"
_EVALS = "datasets/suites/demo/agent"
_MESSAGES = {
    "base": "Add a plugin, guidance for agents, and evals that measure it",
    "head": "Say when release notes are due, escape in the example, drop the syntax check",
}


def build_guidance_repository(destination: Path) -> tuple[str, str]:
    """Make a git repository at ``destination``, as `build_repository` does, and give its two commits."""
    return build_from(destination, {state: guidance_files(state) for state in STATES}, _MESSAGES)


def guidance_files(state: str) -> dict[str, bytes]:
    """Give a state's files by their path in the repository. ``state`` is ``base`` or ``head``."""
    found = {}
    for folder, prefix in (("both", ""), ("evals", f"{_EVALS}/"), (state, "")):
        for file in sorted((_FILES / folder).rglob("*")):
            if file.is_file():
                path = file.relative_to(_FILES / folder).as_posix()
                # Without the dot on the disk, since tools leave out what is hidden.
                path = f".agents/{path}" if path.startswith("skills/") else path
                found[prefix + path] = file.read_bytes()
    return found
