"""How an outcome is judged, without running anything."""

from __future__ import annotations

import json
import signal
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from refcompare.errors import EnvironmentFailure
from refcompare.execution import worker as worker_module
from refcompare.execution.grading import GradingThread, invalid_record, record_of
from refcompare.execution.model import Candidate, ExecutionTest, InvalidTest, Limits
from refcompare.execution.worker import Ending, Outcome, _authentic, _proves, effective_assertions
from refcompare.results import ErrorKind, Phase, Record, Verdict
from refcompare.wordpress.graders import PROTOCOL
from refcompare.wordpress.runtime import end_process, signalled

TEST = ExecutionTest(
    "t-1",
    "suite",
    "hooks",
    "suites/hooks.json",
    3,
    "0" * 64,
    assertions=(
        {"type": "custom_assertion", "code": "return true;", "description": "It works", "weight": 3},
        {"type": "option_value", "target": "x", "expected": 1},
    ),
)
CANDIDATE = Candidate("reference")
KILLED = Ending(status=None, signal=signal.SIGKILL, timeout=False, stderr="")


def statement(*passed: bool, **changes: Any) -> dict[str, Any]:
    results = [{"passed": item, "message": None, "expected": "1", "actual": "2"} for item in passed]
    return {
        "phase": None,
        "message": None,
        "tampered": None,
        "assertions": results,
        "static": {"forbidden": [], "required": []},
        "output": "",
    } | changes


def judged(verdict: dict[str, Any] | None, test: ExecutionTest = TEST, **changes: Any) -> Record:
    outcome = Outcome(verdict, finished=True, forged=False, ending=KILLED, ms=1.23456)
    return record_of(test, CANDIDATE, replace(outcome, **changes), attempt=2)


def pattern(found: bool = True, **changes: Any) -> dict[str, Any]:
    item = {"pattern": "p", "description": "d", "severity": "error", "found": found, "error": None}
    return item | changes


def static(*forbidden: dict[str, Any], required: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"forbidden": list(forbidden), "required": list(required)}


def test_all_assertions_passed_is_a_pass() -> None:
    record = judged(statement(True, True))
    assert (record.verdict, record.score, record.error_kind) == (Verdict.PASS, 1.0, None)
    assert (record.test_id, record.candidate, record.attempt, record.ms) == ("t-1", "reference", 2, 1.235)


def test_one_failed_assertion_is_a_fail_with_its_weight_missing_from_the_score() -> None:
    record = judged(statement(True, False))
    assert (record.verdict, record.score) == (Verdict.FAIL, 0.75)
    assert record.first_failure is not None
    assert record.first_failure.type == "option_value"
    assert (
        record.assertions[0].description == "It works" and record.assertions[1].description == "option_value"
    )


def test_a_failure_too_light_to_matter_still_passes() -> None:
    heavy = {"type": "custom_assertion", "code": "", "weight": 5000}
    test = replace(TEST, assertions=(heavy, {"type": "option_value", "weight": 1}))
    assert judged(statement(True, False), test).verdict is Verdict.PASS


def test_weights_that_add_up_to_nothing_earn_nothing() -> None:
    test = replace(TEST, assertions=({"type": "custom_assertion", "weight": 0},))
    record = judged(statement(True), test)
    assert (record.verdict, record.score) == (Verdict.FAIL, 0.0)


def test_a_test_function_adds_an_unscored_check_in_front() -> None:
    test = replace(TEST, test_function="function acme_go( int $n ): int")
    entry, *authored = effective_assertions(test)
    assert (entry["type"], entry["target"], entry["weight"]) == ("function_exists", "acme_go", 0)
    assert tuple(authored) == TEST.assertions
    record = judged(statement(False, True, True), test)
    assert (record.verdict, record.score) == (Verdict.PASS, 1.0)
    assert record.first_failure is not None and record.first_failure.weight == 0


def test_a_statement_without_assertions_is_no_pass() -> None:
    record = judged(statement(), replace(TEST, assertions=()))
    assert (record.verdict, record.score) == (Verdict.FAIL, None)


@pytest.mark.parametrize(
    "wrong",
    [
        statement(True),
        statement(True, True, True),
        statement(True, True, phase="none"),
        statement(True, True, static=None),
        statement(True, True, assertions=None),
        statement(True, True, assertions=[True, True]),
        {},
    ],
)
def test_a_statement_that_is_not_of_the_graders_form_is_tampering(wrong: dict[str, Any]) -> None:
    record = judged(wrong)
    assert (record.verdict, record.error_kind) == (Verdict.ERROR, ErrorKind.TAMPERED)


@pytest.mark.parametrize("phase", ["plugin", "setup", "candidate"])
def test_a_run_that_ended_before_the_assertions_is_a_fail_that_says_where(phase: str) -> None:
    record = judged(statement(phase=phase, message="Undefined variable $x"))
    assert (record.verdict, record.error_kind, record.phase) == (Verdict.FAIL, None, Phase(phase))
    assert record.message == "Undefined variable $x"


def test_a_forbidden_pattern_of_severity_error_turns_a_pass_into_a_fail() -> None:
    record = judged(statement(True, True, static=static(pattern())))
    assert (record.verdict, record.score, record.forbidden) == (Verdict.FAIL, 1.0, ("d",))


def test_a_forbidden_pattern_that_cannot_be_matched_counts_as_found() -> None:
    record = judged(statement(True, True, static=static(pattern(False, error="bad pattern"))))
    assert record.verdict is Verdict.FAIL


@pytest.mark.parametrize("item", [pattern(severity="warning"), pattern(found=False)])
def test_other_forbidden_patterns_change_nothing(item: dict[str, Any]) -> None:
    record = judged(statement(True, True, static=static(item)))
    assert (record.verdict, record.forbidden) == (Verdict.PASS, ())


def test_required_patterns_are_told_and_not_judged() -> None:
    record = judged(statement(True, True, static=static(required=(pattern(False), pattern(True)))))
    assert (record.verdict, record.missing) == (Verdict.PASS, ("d",))


def test_a_replaced_machinery_is_tampering_whatever_passed() -> None:
    record = judged(statement(True, True, tampered="the candidate replaced $wpdb"))
    assert (record.verdict, record.error_kind) == (Verdict.ERROR, ErrorKind.TAMPERED)
    assert record.message == "the candidate replaced $wpdb"


def test_output_is_what_was_printed_or_else_what_went_to_the_standard_streams() -> None:
    said = replace(KILLED, stderr="to a stream")
    assert judged(statement(True, True, output="printed"), ending=said).output == "printed"
    assert judged(statement(True, True), ending=said).output == "to a stream"


ENDINGS = [
    # what was seen; the kind; words of the message
    ({"forged": True}, ErrorKind.TAMPERED, "something else than the grader"),
    ({"ending": replace(KILLED, timeout=True)}, ErrorKind.TIMEOUT, "did not finish in time"),
    ({"ending": replace(KILLED, signal=signal.SIGTERM)}, ErrorKind.TAMPERED, "ended itself"),
    ({"ending": replace(KILLED, signal=signal.SIGABRT)}, ErrorKind.CRASH, "fatal error"),
    ({"ending": replace(KILLED, signal=signal.SIGSEGV)}, ErrorKind.CRASH, "signal 11"),
    ({"ending": KILLED}, ErrorKind.CRASH, "signal 9"),
    ({"ending": Ending(255, None, False, "")}, ErrorKind.CRASH, "fatal error"),
    ({"ending": Ending(1, None, False, "")}, ErrorKind.OUT_OF_MEMORY, "memory"),
    (
        {"ending": Ending(None, signal.SIGABRT, False, "\nFatal error: Cannot redeclare f() in x:1\n")},
        ErrorKind.CRASH,
        "Cannot redeclare f() in x:1",
    ),
    (
        {
            "ending": Ending(
                None, signal.SIGABRT, False, "Fatal error: Allowed memory size of 1 bytes exhausted"
            )
        },
        ErrorKind.OUT_OF_MEMORY,
        "Allowed memory size of 1 bytes exhausted",
    ),
]


@pytest.mark.parametrize(("seen", "kind", "words"), ENDINGS)
@pytest.mark.parametrize("finished", [False, True])
def test_an_end_without_a_signed_statement_is_an_error_with_a_name(
    seen: dict[str, Any], kind: ErrorKind, words: str, finished: bool
) -> None:
    record = judged(None, finished=finished, **seen)
    assert (record.verdict, record.error_kind, record.score) == (Verdict.ERROR, kind, None)
    assert record.phase is (Phase.ASSERTIONS if finished else Phase.CANDIDATE)
    assert record.message is not None and words in record.message


def test_an_invalid_test_gives_a_record_that_says_where_and_why() -> None:
    test = InvalidTest("t-9", "s", "c", "suites/c.json", 12, "0" * 64, "an assertion checks nothing")
    record = invalid_record(test, "reference")
    assert (record.verdict, record.error_kind) == (Verdict.ERROR, ErrorKind.INVALID)
    assert record.message == "suites/c.json:12: an assertion checks nothing"


@pytest.mark.parametrize(
    "told",
    [
        None, "", "[]", "{}", '"x"', '{"nonce": null}', '{"nonce": 1}', '{"nonce": ""}', '{"nonce": ["n"]}',
        '{"nonce": "\\ud800"}', '{"nonce": "é"}', "{" * 100000, "[" * 100000, "1" * 10000, 7,
    ],
)  # fmt: skip
def test_nothing_but_the_nonce_proves_that_a_turn_is_over(told: object) -> None:
    assert not _proves(told, "n" * 64)
    assert _proves(json.dumps({"nonce": "n" * 64, "more": 1}), "n" * 64)


@pytest.mark.parametrize(
    "told",
    [
        None, "{}", '{"verdict": {}, "mac": ""}', '{"verdict": "{}", "mac": null}',
        '{"verdict": "\\ud800", "mac": "\\udfff"}', '{"verdict": "{}", "mac": "00"}', "nonsense",
    ],
)  # fmt: skip
def test_nothing_but_the_secret_makes_a_statement_authentic(told: object) -> None:
    assert _authentic(told, "secret") is None


class Missing:
    """A runtime that cannot start anything."""

    def start(self) -> Any:
        raise EnvironmentFailure("there is no PHP here")


class Scripted:
    """A runtime whose workers say that they are ready, take a candidate, and do what a shell script says."""

    def __init__(self, script: str) -> None:
        self._ready = json.dumps({"event": "ready", "protocol": PROTOCOL}, separators=(",", ":"))
        self._script = script
        self.started = 0

    def start(self) -> subprocess.Popen[bytes]:
        self.started += 1
        command = ["/bin/sh", "-c", f"echo '{self._ready}'; read line; {self._script}"]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        end_process(process)

    def ended_from_outside(self, process: subprocess.Popen[bytes]) -> str | None:
        return signalled(process)


@pytest.mark.parametrize(
    ("script", "kind", "message"),
    [
        ("exit 1", ErrorKind.TAMPERED, "the worker died under this candidate 2 times: the worker ended"),
        ("echo 1 2", ErrorKind.TAMPERED, "the worker died under this candidate 2 times: the worker answered"),
        ("kill -9 $$", ErrorKind.INFRASTRUCTURE, "the worker died under this candidate 2 times, and not by"),
        ("exec sleep 60", ErrorKind.TIMEOUT, "the worker itself did not answer within 0.2 s, 2 times"),
    ],
)  # fmt: skip
def test_a_candidate_is_blamed_for_a_worker_only_where_nothing_else_can_have_ended_it(
    script: str, kind: ErrorKind, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_GRACE_SECONDS", 0.2)
    runtime = Scripted(script)
    thread = GradingThread(runtime)  # type: ignore[arg-type]
    record = thread.grade(TEST, CANDIDATE, Limits(seconds=0.2))
    thread.close()
    assert (record.verdict, record.error_kind, runtime.started) == (Verdict.ERROR, kind, 2)
    assert str(record.message).startswith(message)


def test_a_worker_that_cannot_start_is_a_failure_of_the_infrastructure() -> None:
    thread = GradingThread(Missing())  # type: ignore[arg-type]
    record = thread.grade(TEST, CANDIDATE, Limits(seconds=1))
    assert (record.verdict, record.error_kind) == (Verdict.ERROR, ErrorKind.INFRASTRUCTURE)
    assert record.message == "there is no PHP here"
