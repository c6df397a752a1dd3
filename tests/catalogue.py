"""The catalogue of forgers as test data: what each tries, the tests it is put before, and the bench."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.results import Record, Verdict

CATALOGUE = Path(__file__).parent / "forgers"
GATEWAY = (CATALOGUE / "support" / "gateway.php").read_text().removeprefix("<?php")


@dataclass(frozen=True)
class Forger:
    """One file of the catalogue: what it tries, how it may end, and the code.

    ``timed`` says that which of those ends it comes to depends on how fast the machine is.
    """

    name: str
    tries: str
    acceptable: tuple[str, ...]
    code: str
    limits: Limits
    tests: tuple[str, ...]
    timed: bool


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
    return Forger(
        path.stem,
        header["tries"],
        tuple(header["acceptable"]),
        code,
        limits,
        tests,
        header.get("timed", False),
    )


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
        "comparisons",
        "function acme_answer() { return 'It is ' . canary('text') . '.'; }"
        "add_filter('acme_answer', fn() => [canary('first'), canary('second')]);",
        {"type": "custom_assertion", "code": f"return str_contains(acme_answer(), '{canary('text')}');"},
        {
            "type": "custom_assertion",
            "code": f"return [] === array_diff(['{canary('first')}'],"
            " (array) apply_filters('acme_answer', []));",
        },
        {
            "type": "custom_assertion",
            "code": f"return in_array('{canary('second')}', (array) apply_filters('acme_answer', []));",
        },
    ),
    _shape(
        "negatives",
        "function acme_answer() { return canary('only'); }",
        {
            "type": "custom_assertion",
            "code": "$text = acme_answer(); return is_string( $text )"
            f" && ! preg_match('~^(?!{canary('only')}$)~', $text);",
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

    def forger(self, forger: Forger, shape: str) -> Record:
        return self.thread.grade(SHAPES[shape], Candidate(forger.name, forger.code), forger.limits)


def without_time(record: Record) -> tuple[object, ...]:
    return (record.verdict, record.error_kind, record.phase, record.message, record.assertions, record.output)
