"""What is said while a run goes on, where there is no terminal to draw a bar on."""

from __future__ import annotations

import io

from refcompare.progress import Reporter


def test_a_phase_is_said_with_how_many_there_are_of_what() -> None:
    said = io.StringIO()
    with Reporter(said) as reporter:
        reporter.begin("grading", 1)
        reporter.begin("grading", 1_400)
        reporter.begin("confirming", 0)
        reporter.begin("confirming", 6)
        reporter.begin("agents", 2)
    assert said.getvalue().splitlines() == [
        "grading: 1 test",
        "grading: 1,400 tests",
        "confirming: 6 reruns",
        "agents: 2",
    ]


def test_quiet_is_quiet() -> None:
    said = io.StringIO()
    with Reporter(said, quiet=True) as reporter:
        reporter.say("something")
        reporter.begin("grading", 2)
        reporter.advance()
    assert said.getvalue() == ""
