"""The program as a user runs it: real processes, a real repository, a real WordPress."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from refcompare.demo import build_repository
from refcompare.schemas import violation
from refcompare.wordpress.site import Site

pytestmark = pytest.mark.wordpress


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Path:
    place = tmp_path_factory.mktemp("demo") / "repository"
    build_repository(place)
    return place


def refcompare(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "refcompare", *arguments],
        cwd=directory,
        env={**os.environ, "NO_COLOR": "1", **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )


def kinds(document: dict[str, Any]) -> dict[str, str]:
    return {change["test_id"]: change["kind"] for change in document["changes"]}


def commit(repository: Path, message: str) -> None:
    for arguments in (("add", "-A"), ("commit", "-q", "-m", message)):
        subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments],
            cwd=repository,
            check=True,
            capture_output=True,
        )


def suite(*tests: dict[str, Any]) -> str:
    return json.dumps({"id": "s", "version": "1", "tests": list(tests)}, indent=1)


def simple(test_id: str, code: str = "return 3;", **extra: object) -> dict[str, Any]:
    return {
        "id": test_id,
        "category": "simple",
        "prompt": "Give the sum.",
        "expected_behavior": "It adds.",
        "test_function": "rct_sum( int $a, int $b ): int",
        "reference_solution": "<?php function rct_sum( $a, $b ) { return $a + $b; }",
        "runtime_checks": {
            "assertions": [
                {"type": "returns_value", "target": "return rct_sum( 2, 5 );", "expected": 7},
                {"type": "returns_value", "target": "return rct_sum( 1, 1 );", "expected": 2},
            ]
        },
        **extra,
    }


@pytest.fixture
def repository(tmp_path: Path, site: Site) -> Path:
    place = tmp_path / "repository"
    (place / "datasets/suites/s/execution").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "-b", "main", str(place)], check=True)
    write(place, suite(simple("s-001"), simple("s-002")))
    commit(place, "base")
    return place


def write(repository: Path, text: str) -> None:
    (repository / "datasets/suites/s/execution/simple.json").write_text(text)


def test_the_demo_shows_one_of_every_change_worth_seeing(site: Site) -> None:
    done = refcompare(Path("/"), "demo", "--format", "json", "--quiet")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert violation("comparison", document) is None
    found = kinds(document)
    assert found["demo-hooks-001"] == "regressed"
    assert found["demo-options-002"] == "newly exploitable"
    assert found["demo-options-003"] == "exploitable when added"
    assert found["demo-rest-api-002"] == "fixed"
    assert found["demo-shortcodes-002"] == "edited"
    assert "added" in found.values()
    assert "unchanged" in found.values()


def test_two_refs_as_the_only_words_are_a_comparison(demo: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = refcompare(demo, "base", "head", "--no-audit", "--confirm", "1", "--output", str(out))
    assert done.returncode == 1, done.stderr
    assert "1 regressed" in done.stdout
    assert "ArgumentCountError" in done.stdout, "the row shows what was thrown"
    for arm in ("base", "head"):
        records = [json.loads(line) for line in (out / arm / "records.jsonl").read_text().splitlines()]
        for record in records:
            assert {"test_id", "candidate", "verdict", "assertions", "ms"} <= record.keys()
            assert violation("record", record) is None
        assert violation("run", json.loads((out / arm / "run.json").read_text())) is None
    assert violation("comparison", json.loads((out / "comparison.json").read_text())) is None
    assert "demo-hooks-001" in (out / "comment.md").read_text()


def test_a_regression_was_run_again_on_both_sides_before_it_was_reported(demo: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    refcompare(demo, "base", "head", "--no-audit", "--confirm", "2", "--output", str(out))
    for arm, verdict in (("base", "pass"), ("head", "fail")):
        records = [json.loads(line) for line in (out / arm / "records.jsonl").read_text().splitlines()]
        attempts = [record["verdict"] for record in records if record["test_id"] == "demo-hooks-001"]
        assert attempts == [verdict] * 3


def test_show_tells_all_about_one_test(demo: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    refcompare(demo, "base", "head", "--no-audit", "--output", str(out))
    done = refcompare(demo, "show", "demo-hooks-001", "--results", str(out))
    assert done.returncode == 0, done.stderr
    assert "regressed" in done.stdout
    assert "rcdemo_mark_sponsored" in done.stdout, "the definitions are compared"
    newest = refcompare(demo, "show", "demo-hooks-001")
    assert newest.stdout == done.stdout, "the newest results, wherever they were written to"
    missing = refcompare(demo, "show", "demo-hook-001", "--results", str(out))
    assert missing.returncode == 2
    assert "demo-hooks-001" in missing.stderr, "a near miss is named"


def test_a_single_range_compares_its_merge_base_with_its_end(demo: Path) -> None:
    done = refcompare(demo, "base...head", "--no-audit", "--confirm", "0", "--format", "json", "--quiet")
    document = json.loads(done.stdout)
    assert document["head"]["commit"] == document["head"]["commit"].lower()
    assert kinds(document)["demo-hooks-001"] == "regressed"


def test_the_working_tree_is_the_default_head(repository: Path) -> None:
    broken = simple("s-002", reference_solution="<?php function rct_sum( $a, $b ) { return $a - $b; }")
    write(repository, suite(simple("s-001"), broken))
    done = refcompare(repository, "main", "--no-audit", "--confirm", "1", "--format", "json", "--quiet")
    assert done.returncode == 1, done.stderr
    assert kinds(json.loads(done.stdout)) == {"s-002": "regressed", "s-001": "unchanged"}


def test_a_test_that_cannot_be_graded_is_invalid_and_the_rest_runs(repository: Path) -> None:
    unknown = simple("s-003")
    unknown["runtime_checks"]["assertions"][0]["type"] = "http_body_contains"
    without = {key: value for key, value in simple("s-004").items() if key != "reference_solution"}
    write(repository, suite(simple("s-001"), simple("s-002"), unknown, without))
    done = refcompare(repository, "main", "--no-audit", "--format", "json", "--quiet")
    document = json.loads(done.stdout)
    assert kinds(document) == {
        "s-001": "unchanged",
        "s-002": "unchanged",
        "s-003": "broken when added",
        "s-004": "broken when added",
    }
    assert done.returncode == 1
    table = refcompare(repository, "main", "--no-audit")
    assert "http_body_contains" in table.stdout
    assert "simple.json:" in table.stdout


def test_selection_narrows_both_arms_and_an_unknown_name_is_a_usage_error(repository: Path) -> None:
    done = refcompare(repository, "main", "--test-id", "s-002", "--no-audit", "--format", "json", "--quiet")
    assert kinds(json.loads(done.stdout)) == {"s-002": "unchanged"}
    missed = refcompare(repository, "main", "--test-id", "s-02")
    assert missed.returncode == 2
    assert "s-002" in missed.stderr
    write(repository, suite(simple("s-001"), simple("s-002", prompt="Give the sum of both.")))
    changed = refcompare(repository, "main", "--changed", "--no-audit", "--format", "json", "--quiet")
    assert kinds(json.loads(changed.stdout)) == {"s-002": "edited"}


def test_a_dry_run_names_what_would_run_and_runs_nothing(repository: Path, tmp_path: Path) -> None:
    done = refcompare(repository, "main", "--dry-run", "--output", str(tmp_path / "out"))
    assert done.returncode == 0
    assert "s-001" in done.stdout
    assert not (tmp_path / "out").exists()


def test_a_dry_run_is_json_where_that_is_asked_for(repository: Path) -> None:
    document = json.loads(refcompare(repository, "main", "--dry-run", "--json", "--no-audit").stdout)
    assert document["dry_run"] is True
    assert document["audit"] is False
    for arm in ("base", "head"):
        assert [test["test_id"] for test in document["execution"][arm]["tests"]] == ["s-001", "s-002"]
    assert "agent" not in document


def test_an_unknown_ref_is_a_usage_error_that_names_near_misses(repository: Path) -> None:
    done = refcompare(repository, "mian", "HEAD")
    assert done.returncode == 2
    assert "main" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_repository_without_suites_is_told_so(tmp_path: Path, site: Site) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path)], check=True)
    (tmp_path / "readme.txt").write_text("nothing to grade")
    commit(tmp_path, "empty")
    done = refcompare(tmp_path, "main", "HEAD")
    assert done.returncode == 2
    assert "datasets/suites" in done.stderr


def test_the_gate_can_be_opened_and_shut(repository: Path) -> None:
    write(repository, suite(simple("s-001")))
    assert refcompare(repository, "main", "--no-audit", "--quiet").returncode == 0
    assert refcompare(repository, "main", "--no-audit", "--fail-on", "removed", "--quiet").returncode == 1
    wrong = refcompare(repository, "main", "--no-audit", "--fail-on", "regresed")
    assert wrong.returncode == 2
    assert "regressed" in wrong.stderr


def test_each_arm_can_be_graded_by_its_own_grader(repository: Path) -> None:
    import shutil

    from refcompare.resources import grader_source

    shutil.copytree(grader_source(), repository / "php")
    commit(repository, "carry a grader")
    worker = repository / "php/src/class-assertions.php"
    text = worker.read_text()
    marker = "return $expected === $actual ? null : 'the value differs';"
    assert marker in text
    worker.write_text(text.replace(marker, "return 'this grader fails everything';"))
    done = refcompare(
        repository, "main", "--grader", "ref", "--no-audit", "--confirm", "1", "--format", "json", "--quiet"
    )
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert set(kinds(document).values()) == {"regressed"}
    assert any("grader" in str(change["reasons"]) for change in document["changes"])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_an_interrupt_leaves_a_readable_partial_result(
    repository: Path, tmp_path: Path, how: signal.Signals
) -> None:
    slow = [
        simple(f"s-{number:03}", runtime_checks={**simple("x")["runtime_checks"], "setup": "sleep( 1 );"})
        for number in range(1, 40)
    ]
    write(repository, suite(*slow))
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-m", "refcompare", "run", "--fresh", "--jobs", "2", "--output", str(out)],
        cwd=repository,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A job in the background is started with interrupts ignored, and hands that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 60
    records = out / "head/records.jsonl"
    while not (records.exists() and records.read_text().count("\n") >= 2):
        assert time.monotonic() < deadline, process.stderr.read() if process.stderr else ""
        time.sleep(0.1)
    process.send_signal(how)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    run = json.loads((out / "head/run.json").read_text())
    assert run["partial"] is True
    kept = [json.loads(line) for line in records.read_text().splitlines()]
    assert 2 <= sum(record["verdict"] == "pass" for record in kept) < 39
    assert "stopped before its end" in stdout


def test_two_jobs_and_a_fresh_run_give_the_same_verdicts(demo: Path) -> None:
    seen = []
    for arguments in (("--jobs", "1", "--fresh"), ("--jobs", "2", "--fresh"), ("--jobs", "2")):
        done = refcompare(
            demo, "base", "head", "--no-audit", "--confirm", "0", "--format", "json", "--quiet", *arguments
        )
        seen.append(kinds(json.loads(done.stdout)))
    assert seen[0] == seen[1] == seen[2]


def test_an_audit_in_which_not_even_a_reference_passes_is_no_good_news(repository: Path) -> None:
    done = refcompare(repository, "audit", "HEAD", "--timeout", "0.001", "--fresh")
    assert done.returncode == 3
    assert "0 of 2 tests exploitable, 2 whose reference does not pass" in done.stdout


def test_check_finds_what_cannot_be_graded(repository: Path) -> None:
    assert refcompare(repository, "check").returncode == 0
    write(repository, '{"tests": [ {"id": "s-001", ]}')
    done = refcompare(repository, "check")
    assert done.returncode == 1
    assert "simple.json:1" in done.stdout


def test_every_command_has_help_with_an_example() -> None:
    listed = refcompare(Path("/"), "--help")
    assert listed.returncode == 0
    for command in ("compare", "run", "audit", "check", "show", "doctor", "demo", "wordpress"):
        assert command in listed.stdout
        told = refcompare(Path("/"), command, "--help")
        assert told.returncode == 0
    assert "refcompare compare v1.2 HEAD" in refcompare(Path("/"), "compare", "--help").stdout


def test_a_change_is_judged_by_the_configuration_of_its_base(repository: Path) -> None:
    (repository / "refcompare.yml").write_text("fail_on: [removed]\nconfirm: 0\naudit: {enabled: false}\n")
    commit(repository, "say what fails")
    (repository / "refcompare.yml").write_text("fail_on: none\n")
    write(repository, suite(simple("s-001")))
    done = refcompare(repository, "HEAD")
    assert done.returncode == 1, "the change can't open the gate that it has to pass"
    assert "refcompare.yml differs" in done.stderr
    given = refcompare(repository, "HEAD", "--config", "refcompare.yml", "--no-audit", "--quiet")
    assert given.returncode == 0
    (repository / "refcompare.yml").write_text("fail_on: [removed\n")
    broken = refcompare(repository, "HEAD")
    assert broken.returncode == 2
    assert "refcompare.yml:2: not YAML" in broken.stderr


def test_the_doctor_tries_the_sandbox_of_agents(site: Site) -> None:
    done = refcompare(Path("/"), "doctor", "--sandbox")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok    an agent cannot be root on the host" in done.stdout
    listed = json.loads(refcompare(Path("/"), "doctor", "--sandbox", "--json").stdout)
    assert listed
