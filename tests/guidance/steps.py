"""What scripted runs are made of: the calls of an agent, and the suite files that it writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from refcompare.agents.model.script import Script, ScriptedCall, Turn

ROOT = Path(__file__).resolve().parent.parent.parent
EVALS = ROOT / "datasets/suites/guidance/agent"
SKILL = ".agents/skills/execution-tests"

Test = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One run: its calls in their order, and the metrics that it must fail, all others passing."""

    name: str
    calls: tuple[ScriptedCall, ...]
    fails: frozenset[str] = frozenset()

    @property
    def script(self) -> Script:
        """Make every call in one turn, and end."""
        return Script((Turn("", self.calls), Turn("Done.")))


def good(*calls: ScriptedCall, name: str = "good") -> Run:
    return Run(name, calls)


def bad(name: str, fails: str | set[str], *calls: ScriptedCall) -> Run:
    return Run(name, calls, frozenset({fails} if isinstance(fails, str) else fails))


def skill(name: str) -> ScriptedCall:
    return ScriptedCall(anthropic=("Skill", {"skill": name}))


def read(path: str) -> ScriptedCall:
    return ScriptedCall(anthropic=("Read", {"file_path": path}))


def write(path: str, text: str) -> ScriptedCall:
    return ScriptedCall(anthropic=("Write", {"file_path": path, "content": text}))


def shell(line: str) -> ScriptedCall:
    return ScriptedCall(anthropic=("Bash", {"command": line}))


def with_test(category: str, test: Mapping[str, Any]) -> ScriptedCall:
    """Add a test to a category of the shipped suite."""
    path = f"datasets/suites/wp-core/execution/{category}.json"
    suite = json.loads((ROOT / path).read_text("utf-8"))
    suite["tests"].append(dict(test))
    return write(path, json.dumps(suite, indent=2, ensure_ascii=False) + "\n")


def practice(eval_name: str, edit: Callable[[list[Test]], list[Test] | None]) -> ScriptedCall:
    """Edit the tests that an eval puts into the workspace, in place or by giving other ones."""
    files = yaml.safe_load((EVALS / f"{eval_name}.yaml").read_text("utf-8"))["workspace"]["files"]
    (path,) = [name for name in files if name.endswith(".json")]
    suite = json.loads(files[path])
    suite["tests"] = edit(suite["tests"]) or suite["tests"]
    return write(path, json.dumps(suite, indent=2, ensure_ascii=False) + "\n")
