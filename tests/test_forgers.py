"""No candidate gets a pass that it did not earn, learns its assertions, or changes another's verdict."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from refcompare.execution import worker as worker_module
from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.results import Record, Verdict
from refcompare.wordpress.graders import installed_grader
from refcompare.wordpress.native import NativeRuntime
from refcompare.wordpress.php import Php
from refcompare.wordpress.site import Site

pytestmark = pytest.mark.wordpress

CATALOGUE = Path(__file__).parent / "forgers"
GATEWAY = (CATALOGUE / "support" / "gateway.php").read_text().removeprefix("<?php")


@dataclass(frozen=True)
class Forger:
    """One file of the catalogue: what it tries, how it may end, and the code."""

    name: str
    tries: str
    acceptable: tuple[str, ...]
    code: str
    limits: Limits
    tests: tuple[str, ...]


def load_forger(path: Path) -> Forger:
    text = path.read_text()
    match = re.fullmatch(r"<\?php\n/\*\n(.*?)\*/\n(.*)", text, re.DOTALL)
    assert match, f"{path.name} has no header"
    header = yaml.safe_load(match[1])
    limits = Limits(seconds=header.get("seconds", 10), memory=header.get("memory", 256 * 1024 * 1024))
    # PHP wants a namespace before everything else, and then braces around each.
    body = match[2]
    namespace = re.match(r"\s*namespace (\w+);", body)
    code = f"{GATEWAY}\n{body}"
    if namespace:
        code = f"namespace {{ {GATEWAY} }}\nnamespace {namespace[1]} {{ {body[namespace.end() :]} }}"
    tests = tuple(header.get("tests", SHAPES))
    return Forger(path.stem, header["tries"], tuple(header["acceptable"]), code, limits, tests)


def canary(text: str) -> str:
    """A value that an honest solution computes and that nobody guesses."""
    return f"CANARY-{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def _shape(name: str, reference: str, *assertions: dict[str, object], **fields: object) -> ExecutionTest:
    """A test with markers in all that a candidate must not learn."""
    return ExecutionTest(
        id=f"shape-{name}",
        suite="forgers",
        category="forgers",
        path="tests/test_forgers.py",
        line=1,
        digest="0" * 64,
        reference_solution="function canary($t) { return 'CANARY-' . substr(hash('sha256', $t), 0, 24); }"
        + reference,
        assertions=tuple({"description": f"CANARY-description-{name}", **item} for item in assertions),
        teardown=f"$GLOBALS['done'] = 'CANARY-teardown-{name}';",
        static_checks={
            "required_patterns": [{"pattern": f"CANARY-pattern-{name}"}],
            "forbidden_patterns": [{"pattern": r"\beval\s*\(\s*'a thing that", "severity": "error"}],
        },
        **fields,  # type: ignore[arg-type]
    )


_ALL = [
    _shape(
        "function",
        'function acme_answer(int $n): string { return canary("function:$n"); }',
        {
            "type": "returns_value",
            "target": "/* CANARY-target */ return acme_answer(7);",
            "expected": canary("function:7"),
        },
        {"type": "custom_assertion", "code": f"return acme_answer(8) === '{canary('function:8')}';"},
        test_function="function acme_answer( int $n ): string",
    ),
    _shape(
        "rest",
        "add_filter('acme_answer', fn() => canary('hook'));"
        "function CANARY_saved() {} add_action('acme_saved', 'CANARY_saved');"
        "add_action('rest_api_init', fn() => register_rest_route('acme/v1', '/answer', ["
        "'methods' => 'GET', 'permission_callback' => '__return_true',"
        "'callback' => fn() => ['answer' => canary('rest')]]));",
        {
            "type": "rest_response",
            "target": "/acme/v1/answer",
            "expected_status": 200,
            "expected_data": {"answer": canary("rest")},
        },
        {"type": "hook_registered", "target": "acme_saved", "callback": "CANARY_saved"},
        {
            "type": "custom_assertion",
            "code": f"return apply_filters('acme_answer', 1) === '{canary('hook')}';",
        },
    ),
    _shape(
        "options",
        "update_option('acme_answer', canary('option'));",
        {"type": "option_value", "target": "acme_answer", "expected": canary("option")},
        {
            "type": "query_result",
            "target": "SELECT option_value FROM wp_options WHERE option_name = 'acme_answer'",
            "expected": [{"option_value": canary("option")}],
        },
        {
            "type": "custom_assertion",
            "code": 'global $wpdb; return $wpdb->get_var("SELECT option_value FROM wp_options'
            f" WHERE option_name = 'acme_answer'\") === '{canary('option')}';",
        },
    ),
    _shape(
        "output",
        "add_shortcode('acme_answer', fn() => '<b>' . canary('output') . '</b>');",
        {
            "type": "output_contains",
            "target": "/* CANARY-target */ echo do_shortcode('[acme_answer]');",
            "expected": canary("output"),
        },
        {
            "type": "output_matches",
            "target": "/* CANARY-target */ echo do_shortcode('[acme_answer]');",
            "expected": f"~^<b>{canary('output')}</b>$~",
        },
        {
            "type": "output_not_contains",
            "target": "/* CANARY-target */ echo 'unwanted' . do_shortcode('[acme_answer]'); ob_get_level();",
            "expected": "wanted<i>",
        },
    ),
    _shape(
        "classes",
        "class Acme_Ledger { static function total() { return canary('method'); } } class Acme_Vault {}",
        {"type": "class_exists", "target": "Acme_Vault"},
        {
            "type": "returns_value",
            "target": "/* CANARY-target */ return Acme_Ledger::total();",
            "expected": canary("method"),
        },
    ),
]
SHAPES = {test.id.removeprefix("shape-"): test for test in _ALL}
FORGERS = [load_forger(path) for path in sorted(CATALOGUE.glob("*.php"))]

WITNESS = (CATALOGUE / "support" / "witness.php").read_text()
"""Prints one line for each thing that it sees of the world, so that a failure names what has changed."""

_WITNESS_TEST = ExecutionTest(
    "witness", "forgers", "forgers", "tests/test_forgers.py", 1, "0" * 64,
    assertions=({"type": "returns_value", "target": "return strlen($GLOBALS['witness']);", "expected": 64},),
)  # fmt: skip


class Bench:
    """One worker on which candidates follow each other, and what an undisturbed one says."""

    def __init__(self, thread: GradingThread) -> None:
        self.thread = thread
        self.tokens: list[str] = []
        self.undisturbed = {name: self.reference(name) for name in SHAPES}
        self.world = self.witness()

    def reference(self, shape: str) -> Record:
        test = SHAPES[shape]
        return self.thread.grade(
            test, Candidate("reference", test.reference_solution or ""), Limits(seconds=30)
        )

    def witness(self) -> list[str]:
        record = self.thread.grade(_WITNESS_TEST, Candidate("witness", WITNESS), Limits(seconds=30))
        assert record.verdict is Verdict.PASS, record
        return record.output.splitlines()


@pytest.fixture(scope="module")
def bench(site: Site, php: Php) -> Iterator[Bench]:
    patch = pytest.MonkeyPatch()
    # Of a worker that a candidate has stopped, the grace is all that costs time.
    patch.setattr(worker_module, "_GRACE_SECONDS", 2.0)
    tokens: list[str] = []

    def token(size: int) -> str:
        tokens.append(secrets.token_hex(size))
        return tokens[-1]

    patch.setattr(worker_module, "_token", token)
    thread = GradingThread(NativeRuntime(site, php, installed_grader()))
    try:
        bench = Bench(thread)
        bench.tokens = tokens
        yield bench
    finally:
        thread.close()
        patch.undo()


def without_time(record: Record) -> tuple[object, ...]:
    return (record.verdict, record.error_kind, record.phase, record.message, record.assertions, record.output)


@pytest.mark.parametrize("forger", FORGERS, ids=lambda forger: forger.name)
def test_a_forger_earns_nothing(bench: Bench, forger: Forger) -> None:
    for shape in forger.tests:
        bench.tokens.clear()
        record = bench.thread.grade(SHAPES[shape], Candidate(forger.name, forger.code), forger.limits)
        outcome = str(record.error_kind or record.verdict)
        assert outcome in forger.acceptable, f"{shape}: {record}"
        told = record.output + "".join(str(item.actual) for item in record.assertions)
        assert "CANARY" not in told and "SAW" not in told, f"{shape}: {record}"
        assert not any(token in told for token in bench.tokens), f"{shape}: {record}"
        assert without_time(bench.reference(shape)) == without_time(bench.undisturbed[shape])
    changed = sorted(set(bench.witness()) ^ set(bench.world))
    assert changed == []


def test_every_reference_of_the_shapes_passes(bench: Bench) -> None:
    assert {name: record.verdict for name, record in bench.undisturbed.items()} == dict.fromkeys(
        SHAPES, Verdict.PASS
    )


def test_the_catalogue_is_large_and_never_accepts_a_pass() -> None:
    assert len(FORGERS) >= 45
    known = {"fail", "tampered", "timeout", "crash", "out_of_memory"}
    for forger in FORGERS:
        assert set(forger.acceptable) <= known, forger.name
        assert len(forger.tests) >= 3, forger.name
        assert forger.tries.endswith("."), forger.name


def test_the_gateway_passes_as_soon_as_it_is_told_an_answer(bench: Bench) -> None:
    """Or no forger that learns something would be noticed."""
    for shape, texts in {"function": ["function:7", "function:8"], "rest": ["rest", "hook"]}.items():
        answers = ", ".join(f"'{canary(text)}'" for text in texts)
        forge = "function CANARY_saved() {} add_action('acme_saved', 'CANARY_saved');"
        forge += f"function forge($where) {{ static $told = array({answers}); return array_shift($told); }}"
        record = bench.thread.grade(SHAPES[shape], Candidate("told", GATEWAY + forge), Limits(seconds=30))
        assert record.verdict is Verdict.PASS, record
