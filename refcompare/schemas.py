"""What is wrong with a result by the measure of its published JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from refcompare.resources import schema_directory
from refcompare.wording import alternatives

Name = Literal["record", "run", "trial", "comparison", "audit"]
"""Lines of records.jsonl and trials.jsonl, run.json, comparison.json, what ``audit --json`` prints."""


@cache
def validator(name: Name) -> Draft202012Validator:
    """Give the validator of a schema; each is complete in itself, so that nothing else is ever read."""
    path = schema_directory() / f"{name}.schema.json"
    schema: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return Draft202012Validator(schema)


def violation(name: Name, value: object) -> str | None:
    """Say in one clause what the schema has against a value, or None.

    The value may be hostile, so nothing of it is quoted: only names and words from the schema.
    """
    error = next(validator(name).iter_errors(value), None)
    return None if error is None else f"{_place(error)} {_complaint(error)}"


def _place(error: ValidationError) -> str:
    """Name the value by the keys on the way to it, all of which the schema knows."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
    return f"`{path.removeprefix('.')}`" if path else "the object"


def _complaint(error: ValidationError) -> str:
    expected: Any = error.validator_value
    match error.validator:
        case "type":
            return f"should be of type {expected}"
        case "enum":
            return f"should be {alternatives(map(str, expected))}"
        case "const":
            return f"should be {expected}"
        case "required":
            present: Any = error.instance
            return f"lacks `{next(key for key in expected if key not in present)}`"
        case "minimum" | "maximum":
            return f"should have a {error.validator} of {expected}"
        case rule:
            return f"breaks the rule {rule}"
