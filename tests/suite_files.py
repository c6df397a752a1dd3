"""Suite files in memory: a tree that holds them, and tests that are right until a part is changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from refcompare.tree import TreeFile

PLUGIN = {"acme.php": "<?php\n/* Plugin Name: Acme */\n"}


@dataclass(frozen=True)
class MemoryTree:
    """A tree whose files are given; ``sizes`` claims another size than the bytes have."""

    contents: Mapping[str, bytes]
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr(sorted(self.contents.items())).encode()).hexdigest()

    def files(self) -> Iterator[TreeFile]:
        for path in sorted(self.contents):
            yield TreeFile(path, self.sizes.get(path, len(self.contents[path])))

    def read(self, path: str) -> bytes:
        return self.contents[path]


def a_test(test_id: str = "acme-001", /, **changed: Any) -> dict[str, Any]:
    """Give a test that can be graded. A field that is changed to ``...`` is left out."""
    test = {
        "id": test_id,
        "category": "hooks",
        "prompt": "Say hello.",
        "reference_solution": "function acme_hello() { return 'hello'; }",
        "runtime_checks": {"assertions": [an_assertion()]},
        **changed,
    }
    return {name: value for name, value in test.items() if value is not ...}


def an_assertion(kind: str = "custom_assertion", **changed: Any) -> dict[str, Any]:
    """Give an assertion of a type with everything that the type needs."""
    needed: dict[str, Any] = {"target": "acme"}
    if kind.startswith("output_"):
        needed = {"target": "echo 1;", "expected": "1"}
    elif kind in {"returns_value", "query_result", "option_value"}:
        needed = {"target": "return 1;", "expected": 1}
    elif kind == "rest_response":
        needed = {"target": "/acme/v1/items", "expected_status": 200}
    elif kind == "post_meta_value":
        needed = {"post_id": 1, "meta_key": "acme", "expected": "1"}
    elif kind == "custom_assertion":
        needed = {"code": "return 'hello' === acme_hello();"}
    assertion = {"type": kind, **needed, **changed}
    return {name: value for name, value in assertion.items() if value is not ...}


def with_assertions(*assertions: Any, **changed: Any) -> dict[str, Any]:
    """Give a test with these assertions."""
    return a_test(runtime_checks={"assertions": list(assertions)}, **changed)


def a_file(*tests: Any, indent: int | None = 2) -> bytes:
    """Give the bytes of a suite file with these tests."""
    return json.dumps({"tests": list(tests)}, indent=indent).encode()
