"""What the steps of the action say and post for results that are there already."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options as CmarkOptions

from refcompare.compare import compare
from refcompare.errors import UsageError
from refcompare.gate import DEFAULT_FAIL_ON, gate
from refcompare.github import posting, steps
from refcompare.github.annotations import Level, annotate, left_out, shown
from refcompare.github.inputs import Inputs
from refcompare.github.job import Job, Outcome, load_job, new_directory, read_outcome, save_outcome
from refcompare.github.outputs import SUMMARY_BYTES, Log, add_summary, command, set_outputs
from refcompare.github.page import Names, make_answer, summary, without_verdict
from refcompare.report import json as json_report
from refcompare.report.escape import marker
from refcompare.results import RunResult
from refcompare.store import COMPARISON, write_run, write_text
from tests.action_runner import Result, obeyed, parse_outputs
from tests.github_server import FORBIDDEN, REPOSITORY, SECONDARY, TOKEN, Account, GitHubServer
from tests.result_builders import (
    FAIL,
    HOSTILE_TEXTS,
    PASS,
    a_bit_of_everything,
    entry,
    many,
    record,
    run,
)

UNCHANGED = (run("base", [entry()], [record()]), run("head", [entry()], [record()]))
FIXED = (run("base", [entry()], [record("t", FAIL)]), run("head", [entry()], [record("t", PASS)]))
REGRESSED = (run("base", [entry()], [record()]), run("head", [entry()], [record("t", FAIL)]))

Runs = tuple[RunResult, RunResult]


@pytest.fixture
def github() -> Iterator[GitHubServer]:
    server = GitHubServer()
    server.add_pull(1)
    with server.running():
        yield server


@dataclass
class Bench:
    """A job whose comparison is done, and the steps that follow it."""

    directory: Path
    github: GitHubServer
    capture: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def job(self, runs: Runs | None, conclusion: str = "", *, pull: int | None = 1, **inputs: Any) -> None:
        """Leave what ``prepare`` and ``compare`` leave; without runs, what a failed comparison does."""
        place = new_directory(self.directory / "temp")
        job = Job(place, Inputs(**inputs), "b" * 40, "h" * 40, Names("main", "#1 merged"), pull, "h" * 40)
        job.save()
        outcome = Outcome("error", "PHP was not found.", 3)
        if runs:
            comparison = compare(*runs)
            result = gate(comparison)
            for item in runs:
                write_run(job.results, item)
            write_text(job.results, COMPARISON, json_report.render(comparison, result))
            outcome = Outcome(result.conclusion, result.sentence, result.exit_code)
        save_outcome(job.results, outcome)
        self.monkeypatch.setenv("REFCOMPARE_STATE", str(place))

    def step(self, step: Callable[..., int], *arguments: str) -> Result:
        """Run a step in this process as the runner would run its command."""
        for name in ("output", "summary"):
            (self.directory / name).write_text("")
        status = step(*arguments)
        log = self.capture.readouterr().out
        assert TOKEN not in log
        return Result(
            status,
            parse_outputs((self.directory / "output").read_text()),
            log=log,
            summary=(self.directory / "summary").read_text(),
            commands=obeyed(log),
        )


@pytest.fixture
def bench(
    tmp_path: Path, github: GitHubServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Bench:
    for name, value in {
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_API_URL": github.url,
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_RUN_ID": "77",
        "GITHUB_EVENT_PATH": "",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "REFCOMPARE_GITHUB_SECONDS": "4",
        "REFCOMPARE_CACHE_DIR": str(tmp_path / "cache"),
        "GIT_CONFIG_COUNT": "0",
    }.items():
        monkeypatch.setenv(name, value)
    return Bench(tmp_path, github, capsys, monkeypatch)


class TestComment:
    def test_it_links_to_the_report_and_is_an_output(self, bench: Bench, github: GitHubServer) -> None:
        bench.job(REGRESSED)
        result = bench.step(posting.comment, "https://github.example/artifact/1")
        [comment] = github.comments
        assert result.outputs == {"comment-url": comment["html_url"]}
        assert "(https://github.example/artifact/1)" in comment["body"]
        assert "main (bbbbbbb)" in comment["body"] and "1 regressed" in comment["body"]

    def test_without_an_artifact_it_links_to_the_run(self, bench: Bench, github: GitHubServer) -> None:
        bench.job(REGRESSED)
        bench.step(posting.comment)
        assert "(https://github.com/octo/bench/actions/runs/77)" in github.comments[0]["body"]

    @pytest.mark.parametrize(
        ("policy", "posted"), [("always", 3), ("changes", 2), ("failures", 1), ("never", 0)]
    )
    def test_when_there_is_one_is_for_the_workflow_to_say(
        self, bench: Bench, github: GitHubServer, policy: Any, posted: int
    ) -> None:
        for number, runs in enumerate((UNCHANGED, FIXED, REGRESSED)):
            bench.job(runs, comment=policy, key=f"k{number}")
            bench.step(posting.comment)
        assert len(github.comments) == posted

    def test_where_all_is_well_again_a_comment_that_says_otherwise_is_mended(
        self, bench: Bench, github: GitHubServer
    ) -> None:
        bench.job(REGRESSED, comment="failures")
        bench.step(posting.comment)
        bench.job(UNCHANGED, comment="failures")
        bench.step(posting.comment)
        assert len(github.comments) == 1 and "nothing changed" in github.comments[0]["body"]

    def test_recreate_folds_the_old_one(self, bench: Bench, github: GitHubServer) -> None:
        for runs in (REGRESSED, UNCHANGED):
            bench.job(runs, comment_mode="recreate")
            bench.step(posting.comment)
        assert [item["minimized"] for item in github.comments] == ["OUTDATED", None]

    def test_no_verdict_takes_the_place_of_what_was_true_before(
        self, bench: Bench, github: GitHubServer
    ) -> None:
        bench.job(UNCHANGED)
        bench.step(posting.comment)
        bench.job(None)
        bench.step(posting.comment)
        assert "**no verdict**" in github.comments[0]["body"]
        assert "PHP was not found." in github.comments[0]["body"]

    def test_an_event_without_a_pull_request_has_no_comment(self, bench: Bench, github: GitHubServer) -> None:
        bench.job(REGRESSED, pull=None)
        assert bench.step(posting.comment).outputs == {"comment-url": ""}
        assert not github.requests

    def test_a_read_only_token_gives_one_warning_and_a_line_in_the_summary(
        self, bench: Bench, github: GitHubServer
    ) -> None:
        github.accounts[TOKEN] = Account(write=frozenset())
        bench.job(REGRESSED)
        result = bench.step(posting.comment)
        [warning] = result.commands
        assert (result.status, warning.name) == (0, "warning")
        assert FORBIDDEN in warning.message and "pull-requests: write" in warning.message
        assert "could not be posted" in result.summary

    def test_a_pull_request_with_newer_commits_is_left_to_their_run(
        self, bench: Bench, github: GitHubServer
    ) -> None:
        """A run that was overtaken, or cancelled by the next one, says nothing over what that one says."""
        github.pulls[1]["head"]["sha"] = "c" * 40
        bench.job(REGRESSED)
        result = bench.step(posting.comment)
        assert (result.status, result.outputs) == (0, {"comment-url": ""})
        assert not github.comments
        assert "newer commits than hhhhhhhhhhhh" in result.summary

    def test_no_token_at_all_is_said(self, bench: Bench, github: GitHubServer) -> None:
        bench.monkeypatch.setenv("GITHUB_TOKEN", "")
        bench.job(REGRESSED)
        result = bench.step(posting.comment)
        assert result.status == 0 and "no token" in result.commands[0].message
        assert not github.requests

    def test_a_day_on_which_github_fails_is_said_and_fails_nothing(
        self, bench: Bench, github: GitHubServer
    ) -> None:
        github.fail("POST", "/comments$", status=502, message="", times=99)
        bench.job(REGRESSED)
        result = bench.step(posting.comment)
        assert result.status == 0
        assert "also after trying again" in result.commands[0].message
        assert "could not be posted" in result.summary

    def test_a_rate_limit_is_waited_for(self, bench: Bench, github: GitHubServer) -> None:
        github.fail("POST", "/comments$", status=403, message=SECONDARY, headers={"Retry-After": "1"})
        bench.job(REGRESSED)
        result = bench.step(posting.comment)
        assert len(github.comments) == 1 and "trying again in 1 s" in result.log

    def test_ten_thousand_changed_rows_pass_through_files_alone(
        self, bench: Bench, github: GitHubServer
    ) -> None:
        bench.job(many(10_000, every_head_fails=True))
        result = bench.step(posting.comment)
        assert len(github.comments[0]["body"]) <= 65_536
        assert "more rows are left out here: " in github.comments[0]["body"]
        assert sum(map(len, result.outputs.values())) < 1_000

    def test_the_steps_say_what_has_to_come_before_them(self, bench: Bench) -> None:
        with pytest.raises(UsageError, match="action prepare"):
            bench.step(posting.comment)
        bench.job(REGRESSED)
        (load_job(os.environ["REFCOMPARE_STATE"]).results / "outcome.json").unlink()
        with pytest.raises(UsageError, match="action compare"):
            bench.step(steps.conclude)


class TestCheckRun:
    def test_it_is_for_the_pull_requests_own_commit(self, bench: Bench, github: GitHubServer) -> None:
        bench.job(REGRESSED, key="nightly")
        result = bench.step(posting.check_run)
        [check] = github.check_runs
        assert (check["name"], check["head_sha"]) == ("refcompare (nightly)", "h" * 40)
        assert (check["status"], check["conclusion"]) == ("completed", "failure")
        assert check["output"]["title"] == "1 regressed"
        assert "<!-- refcompare" not in check["output"]["summary"]
        assert result.status == 0 and not result.commands

    def test_annotations_come_in_pieces_that_github_takes(self, bench: Bench, github: GitHubServer) -> None:
        bench.job(many(130, every_head_fails=True))
        bench.step(posting.check_run)
        assert len(github.check_runs[0]["all_annotations"]) == 130
        assert github.count("PATCH", "/check-runs/") == 2

    def test_a_token_that_may_not_report_one_is_a_warning(self, bench: Bench, github: GitHubServer) -> None:
        github.accounts[TOKEN] = Account(write=frozenset({"pull-requests"}))
        bench.job(REGRESSED)
        result = bench.step(posting.check_run)
        assert result.status == 0 and "checks: write" in result.commands[0].message

    def test_no_verdict_is_a_failed_check(self, bench: Bench, github: GitHubServer) -> None:
        bench.job(None)
        bench.step(posting.check_run)
        assert github.check_runs[0]["conclusion"] == "failure"
        assert "PHP was not found." in github.check_runs[0]["output"]["summary"]


class TestConclude:
    @pytest.mark.parametrize(
        ("runs", "status", "level"), [(FIXED, 0, "notice"), (REGRESSED, 1, "error"), (None, 3, "error")]
    )
    def test_the_status_is_the_gates(self, bench: Bench, runs: Runs | None, status: int, level: str) -> None:
        bench.job(runs)
        result = bench.step(steps.conclude)
        assert (result.status, result.commands[0].name) == (status, level)


class TestAnnotations:
    def test_each_change_that_matters_has_one_at_the_line_of_its_test(self) -> None:
        comparison = compare(*a_bit_of_everything())
        items = annotate(comparison, gate(comparison))
        levels = {item.title.rpartition(" ")[2]: item.level for item in items}
        assert levels == {
            "a-regressed": Level.ERROR,
            "b-newly-exploitable": Level.ERROR,
            "c-broken-when-added": Level.ERROR,
            "g-not-graded": Level.ERROR,
            "d-exploitable-when-added": Level.WARNING,
            "e-removed": Level.WARNING,
            "f-unstable": Level.WARNING,
            "h-exposure-changed": Level.WARNING,
            "i-weakened": Level.WARNING,
            "j-fixed": Level.NOTICE,
            "k-hardened": Level.NOTICE,
        }
        assert [item.level for item in items] == sorted((item.level for item in items), key=list(Level).index)
        regressed = next(item for item in items if item.title == "regressed: a-regressed")
        assert regressed.properties["line"] == 3
        assert str(regressed.properties["file"]).endswith(".json")
        assert regressed.message.startswith(
            "pass -> fail\nfirst failing: custom_assertion: filters the title"
        )

    def test_a_removed_test_has_no_line_to_stand_at(self) -> None:
        comparison = compare(run("base", [entry()], [record()]), run("head", [], []))
        [item] = annotate(comparison, gate(comparison))
        assert "file" not in item.properties

    def test_ten_of_each_level_are_shown_and_the_rest_is_counted(self) -> None:
        comparison = compare(*many(40, every_head_fails=True))
        items = annotate(comparison, gate(comparison))
        kept = shown(items)
        assert len(kept) == 10
        assert left_out(items, kept) == (
            "30 more changes are not shown beside the diff; the summary has them all."
        )
        assert left_out(kept, kept) == ""

    @pytest.mark.parametrize("text", HOSTILE_TEXTS)
    def test_hostile_text_stays_inside_of_its_annotation(self, text: str) -> None:
        test = replace(entry(), test_id=text, path=f"a,b:{text}.json")
        message = record(text, FAIL, message=f"{text}\n::error::forged\n##[add-mask]x")
        comparison = compare(run("base", [test], [record(text)]), run("head", [test], [message]))
        [item] = annotate(comparison, gate(comparison))
        line = command(item.level, item.message, **item.properties)
        assert "\n" not in line and line.isprintable()
        [found] = obeyed(line)
        assert found.name == "error" and found.properties["line"] == "3"
        assert set(found.properties) == {"file", "line", "title"}


class TestLog:
    def test_what_others_print_is_obeyed_by_nobody(self, capsys: pytest.CaptureFixture[str]) -> None:
        log = Log()
        with log.quoting():
            print("::error::forged")
            print("##[error]forged", file=sys.stderr)
        log.say("::error::forged")
        log.say("x ##[error]forged \x1b[31m \u202e")
        log.tell("notice", "100 % sure\nof it", title="a:b,c")
        found = obeyed(capsys.readouterr().out)
        assert [(item.name, item.message) for item in found] == [("notice", "100 % sure\nof it")]
        assert found[0].properties == {"title": "a:b,c"}

    def test_commands_are_obeyed_again_after_a_failure(self, capsys: pytest.CaptureFixture[str]) -> None:
        log = Log()
        with pytest.raises(ZeroDivisionError), log.quoting():
            print(1 / 0)
        log.tell("error", "mine")
        assert [item.message for item in obeyed(capsys.readouterr().out)] == ["mine"]


class TestFiles:
    def test_an_output_may_hold_anything(self, tmp_path: Path) -> None:
        values = {"a": "x\ny=z\nb<<EOF\nEOF", "b": "", "c": "=<<"}
        set_outputs(tmp_path / "out", values)
        assert parse_outputs((tmp_path / "out").read_text()) == values

    def test_a_summary_that_github_would_refuse_is_not_written(self, tmp_path: Path) -> None:
        path = tmp_path / "summary"
        assert add_summary(path, "é" * (SUMMARY_BYTES // 2 - 1))
        assert not add_summary(path, "more")
        assert path.stat().st_size <= SUMMARY_BYTES
        assert not add_summary(None, "nobody reads")

    def test_a_summary_is_cut_by_whole_rows_to_the_bytes_that_are_left(self) -> None:
        base, head = many(10_000, every_head_fails=True)
        tests = tuple(replace(item, category="漢字" * 20) for item in head.tests)
        answer = make_answer(
            replace(base, tests=tests), replace(head, tests=tests), DEFAULT_FAIL_ON, Names("a", "b")
        )
        text = summary(answer, 200_000)
        assert 100_000 < len(text.encode()) <= 200_000
        assert "more rows are left out here" in text
        assert summary(answer, 10) == ""

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[]",
            "{" * 100_000,
            '{"conclusion": "great", "sentence": "x", "exit_code": 0}',
            '{"conclusion": "error", "sentence": 3, "exit_code": 0}',
            '{"conclusion": "error", "sentence": "x", "exit_code": true}',
            '{"conclusion": "error", "sentence": "x", "exit_code": 1e9}',
            "\xff",
        ],
    )
    def test_an_outcome_that_says_nothing_sensible_is_none(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "outcome.json").write_text(text, encoding="latin-1")
        assert read_outcome(tmp_path) is None

    def test_a_sentence_of_an_outcome_is_cut(self, tmp_path: Path) -> None:
        (tmp_path / "outcome.json").write_text(
            json.dumps({"conclusion": "error", "sentence": "x" * 50_000, "exit_code": 3})
        )
        found = read_outcome(tmp_path)
        assert found is not None and len(found.sentence) == 4_000


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_a_failure_told_in_hostile_words_acts_on_nothing(text: str) -> None:
    body = without_verdict(text, "default", Names(text, text), "https://github.example/1")
    html = cmarkgfm.github_flavored_markdown_to_html(body, CmarkOptions.CMARK_OPT_UNSAFE)
    assert body.startswith(marker("default")) and body.count("<!-- refcompare") == 1
    for forbidden in ("<script", "<img", 'href="https://evil', "\u202e", "<h1"):
        assert forbidden not in html
    assert html.count("<a ") == 1
    # GitHub links mentions, issues and commits everywhere but in code.
    outside = re.sub(r"(?s)<(pre|code)>.*?</\1>", "", html)
    assert not any(word in outside for word in ("octocat", "#12", "deadbeef"))
