"""No candidate gets a pass that it did not earn, learns its assertions, or changes another's verdict."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from refcompare.execution import worker as worker_module
from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, Limits
from refcompare.results import Record, Verdict
from refcompare.wordpress.runtime import Runtime
from tests.catalogue import FORGERS, GATEWAY, SHAPES, Bench, Forger, canary, without_time

pytestmark = pytest.mark.wordpress

OUTCOMES: dict[tuple[str, str], object] = {}
"""What each forger came to before each test in the first runtime that graded it."""


@pytest.fixture(scope="module", params=["native", pytest.param("docker", marks=pytest.mark.docker)])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    """Each of the two runtimes; Docker skips where there is no engine, unless it is required."""
    runtime: Runtime = request.getfixturevalue(f"{request.param}_runtime")
    return runtime


@pytest.fixture(scope="module")
def bench(runtime: Runtime) -> Iterator[Bench]:
    tokens: list[str] = []

    def token(size: int) -> str:
        tokens.append(secrets.token_hex(size))
        return tokens[-1]

    patch = pytest.MonkeyPatch()
    patch.setattr(worker_module, "_token", token)
    thread = GradingThread(runtime)
    try:
        bench = Bench(thread)
        bench.tokens = tokens
        yield bench
    finally:
        thread.close()
        patch.undo()


def outcome_of(record: Record) -> tuple[object, ...]:
    """All but the time, and what a process had printed when it was killed for its answer."""
    return without_time(record)[: -1 if record.verdict is Verdict.ERROR else None]


@pytest.mark.parametrize("forger", FORGERS, ids=lambda forger: forger.name)
def test_a_forger_earns_nothing(bench: Bench, forger: Forger) -> None:
    for shape in forger.tests:
        bench.tokens.clear()
        record = bench.forger(forger, shape)
        outcome = str(record.error_kind or record.verdict)
        assert outcome in forger.acceptable, f"{shape}: {record}"
        told = record.output + "".join(str(item.actual) for item in record.assertions)
        assert "CANARY" not in told and "SAW" not in told, f"{shape}: {record}"
        assert not any(token in told for token in bench.tokens), f"{shape}: {record}"
        assert without_time(bench.reference(shape)) == without_time(bench.undisturbed[shape])
        seen = outcome_of(record)
        first = OUTCOMES.setdefault((forger.name, shape), seen)
        assert seen == first or forger.timed, f"{shape}: not as in the other runtime"
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
