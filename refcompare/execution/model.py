"""An execution test and the candidates that are put before it, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ArtifactKind = Literal["php_snippet", "wp_plugin_files"]

ASSERTION_TYPES = frozenset(
    {
        "function_exists",
        "class_exists",
        "shortcode_exists",
        "hook_registered",
        "output_contains",
        "output_not_contains",
        "output_equals",
        "output_matches",
        "rest_response",
        "returns_value",
        "query_result",
        "option_value",
        "post_meta_value",
        "custom_assertion",
    }
)


@dataclass(frozen=True, slots=True)
class ExecutionTest:
    """One gradable execution test, as it stands in one tree.

    ``path`` and ``line`` say where (the line of the test's opening brace, from 1). ``digest`` is
    a hex SHA-256 over the fields that grading a candidate depends on, and only those: it keys
    verdicts. ``entry_digest`` is one over every authored field but ``metadata``, so that any edit
    that a reader would call one shows; it is what ``TestEntry.digest`` carries. ``static_checks``
    and ``assertions`` are the JSON values as authored; ``test_function`` is the authored
    signature; ``extra`` holds the fields that the format does not name.
    """

    id: str
    suite: str
    category: str
    path: str
    line: int
    digest: str
    prompt: str = ""
    requirements: tuple[str, ...] = ()
    expected_behavior: str = ""
    test_function: str | None = None
    artifact_kind: ArtifactKind = "php_snippet"
    reference_solution: str | None = None
    reference_files: Mapping[str, str] | None = None
    exploit_solutions: tuple[str, ...] = ()
    static_checks: Mapping[str, Any] = field(default_factory=dict)
    setup: str = ""
    assertions: tuple[Mapping[str, Any], ...] = ()
    teardown: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    entry_digest: str = ""

    @property
    def gateway(self) -> str | None:
        """The function name in ``test_function``, which the assertions call; None without one."""
        name = (self.test_function or "").strip().removeprefix("function").strip().split("(")[0].strip()
        return name or None


@dataclass(frozen=True, slots=True)
class InvalidTest:
    """A test that cannot be graded, or a file that cannot be read to its end.

    ``id`` is unique in its tree: the authored one; ``ID#2`` for a second test called ``ID``;
    ``PATH#3`` for the third test of a file, if it has no usable id; ``PATH`` for a file.
    ``reason`` is one sentence that says what is wrong; ``path`` and ``line`` say where, as near
    as can be told. The digests are those of ExecutionTest, over what could be read.
    """

    id: str
    suite: str
    category: str
    path: str
    line: int
    digest: str
    reason: str
    entry_digest: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Code put before a test: ``code`` for a snippet, ``files`` (relative path to text) for a plugin.

    ``name`` is what a record carries: ``reference``, ``exploit:LABEL``, ``mutant:LABEL``,
    ``completion:MODEL``.
    """

    name: str
    code: str = ""
    files: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What one candidate may use: ``seconds`` of wall time, ``memory`` in bytes, ``output`` bytes kept."""

    seconds: float = 90.0
    memory: int = 512 * 1024 * 1024
    output: int = 64 * 1024
