"""The check that grades execution tests which an agent wrote, in the grader that grades all others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from refcompare.agents.checks import make_check
from refcompare.agents.checks.interface import CheckResult, CommandResult, Evidence
from refcompare.agents.programs.trajectory import Trajectory
from refcompare.agents.workspace.capture import Listing, capture, listing
from refcompare.errors import EnvironmentFailure
from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.results import ErrorKind, Record, Verdict
from refcompare.wordpress.graders import installed_grader
from refcompare.wordpress.native import NativeRuntime
from refcompare.wordpress.php import Php
from refcompare.wordpress.site import Site

SUITE = "datasets/suites/acme/execution/text.json"


def a_test(test_id: str = "text-001", *pairs: tuple[str, str], **changed: Any) -> dict[str, Any]:
    """A test that asks for a reversed text. Each pair is an assertion, and two stop every constant."""
    assertions = [
        {"type": "returns_value", "target": f"return acme_turn( '{given}' );", "expected": wanted}
        for given, wanted in pairs or (("abc", "cba"), ("xy", "yx"))
    ]
    return {
        "id": test_id,
        "prompt": "Write a PHP function acme_turn( string $text ): string that turns a text around.",
        "test_function": "acme_turn( string $text ): string",
        "reference_solution": "function acme_turn( string $text ): string { return strrev( $text ); }",
        "runtime_checks": {"assertions": assertions},
        **changed,
    }


WEAK = a_test("text-001", ("abc", "cba"))
SOUND = a_test("text-002")


def suite(*tests: Mapping[str, Any]) -> str:
    return json.dumps({"tests": list(tests)}, indent=2)


@dataclass
class Arm:
    files: dict[str, str]

    def read(self, path: str) -> bytes | None:
        found = self.files.get(path)
        return None if found is None else found.encode()

    def canonical(self, path: str) -> str:
        return path


@dataclass
class Tools:
    """Grades for real where there is a grader, and counts what it was asked."""

    grader: GradingThread | None
    asked: list[str] = field(default_factory=list)

    def command(self, command: str, seconds: float) -> CommandResult:
        raise AssertionError("this check runs no command")

    def wordpress(self, test: ExecutionTest, candidate: Candidate, limits: Limits) -> Record:
        self.asked.append(f"{test.id} {candidate.name}")
        if self.grader is None:
            return Record(
                test.id, candidate.name, Verdict.ERROR, 0.0, error_kind=ErrorKind.INFRASTRUCTURE, message="no"
            )
        return self.grader.grade(test, candidate, limits)


@dataclass
class Place:
    """A workspace with one suite file; ``leave`` is what the agent leaves there."""

    root: Path
    original: Path
    before: Listing
    arm: Arm
    tools: Tools

    def leave(self, text: str | None, path: str = SUITE) -> None:
        target = self.root / path
        if text is None:
            target.unlink()
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def grade(self, **more: Any) -> CheckResult:
        change = capture(self.root, self.before, self.original)
        evidence = Evidence(Trajectory("test"), change, self.root, self.arm, self.tools)
        value = {"path": "datasets/suites/*/execution/*.json", **more}
        return make_check("execution-tests", value).grade(evidence)


@pytest.fixture(scope="module")
def grader(site: Site, php: Php) -> Iterator[GradingThread]:
    thread = GradingThread(NativeRuntime(site, php, installed_grader()))
    yield thread
    thread.close()


def place_in(tmp_path: Path, grader: GradingThread | None) -> Place:
    given = {SUITE: suite(WEAK)}
    for folder in ("workspace", "original"):
        target = tmp_path / folder / SUITE
        target.parent.mkdir(parents=True)
        target.write_text(given[SUITE])
    root = tmp_path / "workspace"
    return Place(root, tmp_path / "original", listing(root), Arm(given), Tools(grader))


@pytest.fixture
def place(tmp_path: Path, grader: GradingThread) -> Place:
    return place_in(tmp_path, grader)


@pytest.fixture
def bare(tmp_path: Path) -> Place:
    """A place without WordPress, for what is said before anything is graded."""
    return place_in(tmp_path, None)


def test_its_label_and_its_short_form_name_the_files():
    assert make_check("execution-tests", SUITE).label == f"execution-tests {SUITE}"


@pytest.mark.wordpress
def test_a_test_that_no_cheat_passes_holds_and_the_others_of_its_file_are_left_alone(place: Place):
    place.leave(suite(WEAK, SOUND))
    assert place.grade() == CheckResult(True, 1.0)
    assert not [name for name in place.tools.asked if name.startswith("text-001")]
    assert len(place.tools.asked) > 8, "the reference and the whole battery"


@pytest.mark.wordpress
def test_a_test_that_a_constant_passes_fails_and_the_cheat_is_named(place: Place):
    place.leave(suite(WEAK, a_test("text-002", ("abc", "cba"))))
    result = place.grade()
    assert result.passed is False
    assert result.message.startswith("'text-002': a cheat passes (")


@pytest.mark.wordpress
def test_a_reference_that_does_not_pass_fails_with_the_assertion(place: Place):
    place.leave(suite(WEAK, a_test("text-002", ("abc", "cba"), ("xy", "xy"))))
    assert place.grade().message.startswith("'text-002': its reference does not pass (returns_value: ")


@pytest.mark.wordpress
def test_an_edit_that_sharpens_a_test_holds_where_that_test_is_asked_for(place: Place):
    place.leave(suite(a_test("text-001")))
    assert place.grade(ids="text-001").passed
    assert place.grade(ids=["text-001", "text-009"]).message == "'text-009' was neither added nor edited"


@pytest.mark.wordpress
def test_right_and_wrong_answers_are_held_against_the_test_as_well(place: Place):
    right = "function acme_turn( $text ) { return implode( array_reverse( str_split( $text ) ) ); }"
    wrong = "function acme_turn( string $text ): string { return 2 < strlen( $text ) ? 'cba' : 'yx'; }"
    place.leave(suite(WEAK, SOUND))
    assert place.grade(accepts=right).passed
    assert place.grade(rejects=[wrong]).message == "'text-002': wrong answer 1 passes"
    prescriptive = {"forbidden_patterns": [{"pattern": "array_reverse", "description": "a slow way"}]}
    place.leave(suite(WEAK, {**SOUND, "static_checks": prescriptive}))
    assert place.grade(accepts=right).message == (
        "'text-002': right answer 1 does not pass (it holds what is forbidden: a slow way)"
    )


@pytest.mark.wordpress
def test_the_score_is_the_share_of_the_tests_that_hold(place: Place):
    place.leave(suite(WEAK, SOUND, a_test("text-003", ("abc", "cba"))))
    assert place.grade().score == 0.5


def test_a_test_that_is_gone_fails(bare: Place):
    bare.leave(None)
    assert bare.grade().message == "'text-001' is gone"
    bare.leave(suite())
    assert bare.grade().message == "'text-001' is gone"


@pytest.mark.wordpress
def test_another_id_is_another_test(place: Place):
    place.leave(suite({**SOUND, "id": "text-009"}))
    found = place.grade()
    assert (found.message, found.score) == ("'text-001' is gone", 0.5)


def test_what_cannot_be_graded_fails_with_its_line(bare: Place):
    bare.leave(suite(WEAK, {"id": "text-002", "prompt": "Turn."}))
    found = bare.grade()
    assert (found.passed, found.score) == (False, 0.0)
    assert found.message.startswith(f"{SUITE}:")
    bare.leave("{")
    assert "not JSON" in bare.grade().message


def test_a_second_test_of_the_same_id_fails(bare: Place):
    bare.leave(suite(WEAK, {**SOUND, "id": "text-001"}))
    assert "already used at" in bare.grade().message


def test_an_agent_that_wrote_no_test_has_not_done_it(bare: Place):
    assert bare.grade().message == "no test was added or edited"
    bare.leave(suite(WEAK) + "\n")
    assert bare.grade().message == "no test was added or edited", "layout is no edit"
    bare.leave(suite(SOUND), "elsewhere/text.json")
    assert bare.grade().message == "no test was added or edited"


def test_more_tests_than_are_graded_fail(bare: Place):
    bare.leave(suite(WEAK, *(a_test(f"text-{number:03}") for number in range(2, 40))))
    assert bare.grade().message == "38 tests were written, 20 are graded"


def test_a_grader_that_fails_says_nothing_about_the_test(bare: Place):
    bare.leave(suite(WEAK, SOUND))
    with pytest.raises(EnvironmentFailure, match="no"):
        bare.grade()
