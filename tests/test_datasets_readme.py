"""datasets/README.md documents every field of the formats and of the export, and none that is not there."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "datasets/README.md"

pytestmark = pytest.mark.skipif(not README.is_file(), reason="only a checkout has the datasets")


def documented(heading: str) -> list[str]:
    """Give what the first column of the table under a heading names."""
    _, _, rest = README.read_text("utf-8").partition(f"\n{heading}\n")
    section = re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def schema(name: str) -> dict[str, Any]:
    return dict(json.loads((ROOT / f"datasets/schema/{name}.schema.json").read_text("utf-8")))


def fields(whole: Mapping[str, Any], part: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Give the dotted names of every property of a part of a schema."""
    while "$ref" in part:
        part = {
            **whole["$defs"][part["$ref"].rpartition("/")[2]],
            **{key: value for key, value in part.items() if key != "$ref"},
        }
    for name, inner in part.get("properties", {}).items():
        dotted = f"{prefix}.{name}" if prefix else name
        yield dotted
        yield from fields(whole, inner, dotted)
    if isinstance(part.get("items"), dict):
        yield from fields(whole, part["items"], f"{prefix}[]")
    for choice in (*part.get("anyOf", ()), *part.get("oneOf", ())):
        yield from fields(whole, choice, prefix)


def same(found: list[str], wanted: set[str]) -> None:
    assert len(found) == len(set(found)), "each once"
    assert set(found) == wanted


def test_every_field_of_an_execution_suite_is_documented():
    suite = schema("execution-suite")
    of_a_file = {name for name in fields(suite, suite) if "." not in name and "[" not in name}
    same(documented("### Fields of a file"), of_a_file)
    same(documented("### Fields of a test"), set(fields(suite, suite["$defs"]["test"])))


def test_every_type_of_assertion_is_documented():
    types = schema("execution-suite")["$defs"]["assertion"]["properties"]["type"]["oneOf"]
    same(documented("### Types of assertions"), {item["const"] for item in types})


def test_every_field_of_an_agent_eval_is_documented():
    agent = schema("agent-eval")
    same(documented("## Agent evals"), set(fields(agent, agent)))


def test_every_column_of_the_export_is_documented_in_its_order():
    spec = importlib.util.spec_from_file_location("export_dataset", ROOT / "datasets/export_dataset.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert documented("## The export") == list(module.COLUMNS)


def test_every_suite_is_documented():
    names = {path.name for path in (ROOT / "datasets/suites").iterdir() if path.is_dir()}
    found = re.findall(r"^\| `([a-z-]+)` \| ", README.read_text("utf-8").split("## Execution tests")[0], re.M)
    same(found, names)
