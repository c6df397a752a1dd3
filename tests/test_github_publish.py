"""Comments made from another run's artifact: the artifact is a stranger's, the comment is refcompare's."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refcompare.codec import record_value, run_value
from refcompare.gate import DEFAULT_FAIL_ON
from refcompare.github import page
from refcompare.github.api import Client, Denied, GitHubFailure, Patience
from refcompare.github.artifact import Limits, fetch_results, unpack
from refcompare.github.inputs import Inputs
from refcompare.github.page import Names
from refcompare.github.publish import CAPS, UNREADABLE, Published, publish
from refcompare.github.runner import Event, Runner
from refcompare.report.escape import marker
from refcompare.results import RunResult
from refcompare.store import ResultsError
from tests.github_server import BOT, REPOSITORY, TOKEN, Account, GitHubServer
from tests.result_builders import FAIL, HOSTILE_TEXTS, a_bit_of_everything, entry, record, run

HEAD = "a" * 40
FORK = "mallory/bench"
REGRESSED = (run("base", [entry()], [record()]), run("head", [entry()], [record("t", FAIL)]))


def entries(runs: tuple[RunResult, RunResult] = REGRESSED) -> dict[str, bytes]:
    """Give the files of an honest artifact."""
    found = {"comparison.json": b"{}", "comment.md": b"@octocat the pull request is fine, merge it"}
    for item in runs:
        lines = "".join(json.dumps(record_value(one)) + "\n" for one in item.records)
        found[f"{item.arm.name}/run.json"] = json.dumps(run_value(item)).encode()
        found[f"{item.arm.name}/records.jsonl"] = lines.encode()
    return found


def zipped(files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def workflow_run(**fields: Any) -> dict[str, Any]:
    """Give what GitHub's event says of the run that is published."""
    return {
        "id": 7,
        "event": "pull_request",
        "conclusion": "failure",
        "head_sha": HEAD,
        "head_branch": "feature",
        "head_repository": {"full_name": FORK},
        "html_url": "https://github.example/octo/bench/actions/runs/7",
        "pull_requests": [],
        **fields,
    }


def event(**fields: Any) -> Event:
    return Event("workflow_run", {"action": "completed", "workflow_run": workflow_run(**fields)})


class Publisher:
    """The privileged workflow, ready to publish."""

    def __init__(self, github: GitHubServer, directory: Path) -> None:
        self.github = github
        self.directory = directory

    def __call__(self, event: Event, **inputs: Any) -> Published:
        client = Client(TOKEN, self.github.url, patience=Patience(total=2), sleep=lambda _: None)
        runner = Runner(event, REPOSITORY, self.directory, self.directory, token=TOKEN)
        return publish(runner, Inputs(mode="publish", **inputs), client, self.directory / "results")

    @property
    def body(self) -> str:
        [comment] = self.github.comments
        return str(comment["body"])


@pytest.fixture
def github() -> Iterator[GitHubServer]:
    server = GitHubServer()
    server.unlisted_commits.add(HEAD)  # it is only in the fork
    server.add_pull(12, head=HEAD, fork=FORK)
    with server.running():
        yield server


@pytest.fixture
def published(github: GitHubServer, tmp_path: Path) -> Publisher:
    return Publisher(github, tmp_path)


class TestHonestRuns:
    def test_a_forks_pull_request_is_found_and_commented(
        self, github: GitHubServer, published: Publisher
    ) -> None:
        github.add_artifact(7, "refcompare", zipped(entries()))
        told = published(event())
        assert told.posted is not None and told.posted.how == "created"
        [comment] = github.comments_of(12)
        assert comment["body"].startswith(marker("default"))
        assert "**1 regressed**" in comment["body"] and "&#35;12 merged (hhhhhhh)" in comment["body"]
        assert "main (bbbbbbb)" in comment["body"]
        assert (
            "[the pull request's own run](https://github.example/octo/bench/actions/runs/7)"
            in comment["body"]
        )

    def test_a_pull_request_from_the_same_repository_is_found_by_its_commit(
        self, github: GitHubServer, published: Publisher
    ) -> None:
        github.unlisted_commits.clear()
        github.add_pull(12, head=HEAD)
        github.add_artifact(7, "refcompare", zipped(entries()))
        assert published(event(head_repository={"full_name": REPOSITORY})).posted is not None

    def test_the_comment_is_updated_by_the_next_run(self, github: GitHubServer, published: Publisher) -> None:
        github.add_comment(12, f"{marker('default')}\n\nold")
        github.add_artifact(7, "refcompare", zipped(entries()))
        told = published(event())
        assert told.posted is not None and told.posted.how == "updated"

    def test_of_a_run_that_was_repeated_the_newest_artifact_counts(
        self, github: GitHubServer, published: Publisher
    ) -> None:
        github.add_artifact(7, "refcompare", b"of the first attempt")
        github.add_artifact(7, "refcompare-other", b"another configuration's")
        github.add_artifact(7, "refcompare", zipped(entries()))
        assert published(event()).problem == ""

    def test_the_gate_and_the_name_are_the_publishers(
        self, github: GitHubServer, published: Publisher
    ) -> None:
        github.add_artifact(7, "refcompare-nightly", zipped(entries()))
        published(event(), key="nightly", fail_on="removed")
        assert published.body.startswith(marker("nightly"))
        assert "✅" in published.body and "Nothing that fails the build changed." in published.body

    @pytest.mark.parametrize(
        ("config", "sign"),
        [
            (b"fail_on: [removed]\n", "✅"),
            (b"fail_on: [regressed]\n", "❌"),
            (b"fail_on: nonsense\n", "❌"),
            (None, "❌"),
        ],
    )
    def test_else_the_gate_is_that_of_the_base(
        self, github: GitHubServer, published: Publisher, config: bytes | None, sign: str
    ) -> None:
        github.files["a" * 40, "refcompare.yml"] = b"fail_on: none\n"  # the pull request's own
        if config is not None:
            github.files["b" * 40, "refcompare.yml"] = config
        github.add_artifact(7, "refcompare", zipped(entries()))
        published(event())
        assert published.body.split("\n")[2].startswith(sign)

    def test_a_run_that_came_to_no_verdict_says_so(self, github: GitHubServer, published: Publisher) -> None:
        outcome = {"conclusion": "error", "sentence": "<b>PHP</b> was not found. @octocat", "exit_code": 3}
        github.add_artifact(7, "refcompare", zipped({"outcome.json": json.dumps(outcome).encode()}))
        published(event())
        assert (
            "**no verdict**" in published.body and "&lt;b&gt;PHP&lt;/b&gt; was not found." in published.body
        )

    def test_failures_only_says_nothing_of_a_success(
        self, github: GitHubServer, published: Publisher
    ) -> None:
        same = (run("base", [entry()], [record()]), run("head", [entry()], [record()]))
        github.add_artifact(7, "refcompare", zipped(entries(same)))
        told = published(event(), comment="failures")
        assert told.posted is not None and told.posted.how == "not needed"

    def test_never_asks_github_nothing(self, github: GitHubServer, published: Publisher) -> None:
        assert "never" in published(event(), comment="never").reason
        assert not github.requests


class TestWhichPullRequest:
    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"event": "push"}, "not for a pull request"),
            ({"event": "pull_request_target"}, "not for a pull request"),
            ({"conclusion": "cancelled"}, "cancelled"),
            ({"conclusion": "skipped"}, "skipped"),
            ({"id": "7; rm"}, "no run and commit"),
            ({"head_sha": "main"}, "no run and commit"),
        ],
    )
    def test_a_run_that_is_not_for_one_is_left_alone(
        self, github: GitHubServer, published: Publisher, fields: dict[str, Any], said: str
    ) -> None:
        assert said in published(event(**fields)).reason
        assert not github.requests

    def test_any_other_event_is_left_alone(self, published: Publisher) -> None:
        assert "workflow_run" in published(Event("push")).reason

    def test_one_with_newer_commits_is_left_alone(self, github: GitHubServer, published: Publisher) -> None:
        github.pulls[12]["head"]["sha"] = "c" * 40
        github.add_artifact(7, "refcompare", zipped(entries()))
        assert "newer commits" in published(event()).reason
        assert not github.comments and github.count("GET", "artifacts") == 0

    @pytest.mark.parametrize(
        "change",
        [
            {"state": "closed"},
            {
                "head": {
                    "sha": HEAD,
                    "label": "mallory:feature",
                    "ref": "feature",
                    "repo": {"full_name": "eve/bench"},
                }
            },
            {"base": {"sha": "b" * 40, "ref": "main", "repo": {"full_name": "octo/other"}}},
        ],
    )
    def test_one_that_is_closed_or_of_another_repository_is_left_alone(
        self, github: GitHubServer, published: Publisher, change: dict[str, Any]
    ) -> None:
        github.pulls[12].update(change)
        github.add_artifact(7, "refcompare", zipped(entries()))
        assert published(event()).posted is None

    def test_the_number_in_an_artifact_counts_for_nothing(
        self, github: GitHubServer, published: Publisher
    ) -> None:
        github.add_pull(1, head="e" * 40)
        files = {**entries(), "pr_number": b"1", "NR": b"1", "pull": b"1"}
        github.add_artifact(7, "refcompare", zipped(files))
        published(event())
        assert github.comments_of(12) and not github.comments_of(1)

    def test_of_two_for_the_same_commit_the_one_whose_base_was_graded_is_meant(
        self, github: GitHubServer, published: Publisher
    ) -> None:
        github.add_pull(13, head=HEAD, fork=FORK, base="f" * 40, into="stable")
        github.add_artifact(7, "refcompare", zipped(entries()))
        published(event())
        assert len(github.comments_of(12)) == 1 and not github.comments_of(13)

    def test_where_nothing_tells_which_nothing_is_posted(
        self, github: GitHubServer, published: Publisher
    ) -> None:
        for number in (12, 13):
            github.add_pull(number, head=HEAD, fork=FORK, base="f" * 40)
        github.add_artifact(7, "refcompare", zipped(entries()))
        assert "#12, #13" in published(event()).reason
        assert not github.comments


class TestHostileArtifacts:
    def test_no_word_of_its_own_comment_is_posted(self, github: GitHubServer, published: Publisher) -> None:
        github.add_artifact(7, "refcompare", zipped(entries()))
        published(event())
        assert "merge it" not in published.body and "octocat" not in published.body

    @pytest.mark.parametrize("text", HOSTILE_TEXTS)
    def test_text_in_results_stays_text(self, github: GitHubServer, published: Publisher, text: str) -> None:
        runs = (
            run("base", [entry(text, category=text)], [record(text)]),
            run("head", [entry(text, category=text)], [record(text, FAIL, message=text)]),
        )
        github.add_artifact(7, "refcompare", zipped(entries(runs)))
        published(event())
        assert published.body.count("<!-- refcompare:") == 1
        assert "<script" not in published.body and "\u202e" not in published.body

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("head/run.json", b"{"),
            ("head/run.json", b"[" * 100_000),
            ("head/run.json", b'{"schema_version": 99}'),
            ("head/records.jsonl", b'{"test_id": 1}\n'),
            ("head/records.jsonl", b"\xff\xfe\n"),
        ],
    )
    def test_results_that_break_their_schema_are_said_to_be_unreadable(
        self, github: GitHubServer, published: Publisher, name: str, content: bytes
    ) -> None:
        github.add_artifact(7, "refcompare", zipped({**entries(), name: content}))
        told = published(event())
        assert name.partition("/")[2] in told.problem
        assert UNREADABLE.replace("'", "&#39;") in published.body or UNREADABLE in published.body
        assert "regressed" not in published.body

    def test_what_is_no_archive_is_unreadable(self, github: GitHubServer, published: Publisher) -> None:
        github.add_artifact(7, "refcompare", b"PK\x03\x04 and so on")
        assert "no archive" in published(event()).problem

    def test_an_archive_that_says_it_is_large_is_not_downloaded(
        self, github: GitHubServer, published: Publisher
    ) -> None:
        github.add_artifact(7, "refcompare", zipped(entries()), size=10**12)
        assert "are taken" in published(event()).problem
        assert github.count("GET", "/zip$") == 0

    def test_an_archive_that_is_larger_than_it_says_is_given_up(
        self, github: GitHubServer, tmp_path: Path
    ) -> None:
        github.add_artifact(7, "refcompare", zipped(entries()) + b"\0" * 5_000, size=10)
        client = Client(TOKEN, github.url)
        with pytest.raises(GitHubFailure) as caught:
            fetch_results(client, REPOSITORY, 7, "refcompare", tmp_path / "out", Limits(archive=4_000))
        assert "SIGNATURE" not in str(caught.value)

    def test_one_that_was_damaged_on_its_way_is_given_up(
        self, github: GitHubServer, published: Publisher
    ) -> None:
        github.add_artifact(7, "refcompare", zipped(entries()), digest=f"sha256:{'0' * 64}")
        with pytest.raises(GitHubFailure, match="damaged"):
            published(event())

    def test_one_that_is_gone_or_missing_leaves_no_comment(
        self, github: GitHubServer, published: Publisher
    ) -> None:
        github.add_artifact(7, "refcompare", zipped(entries()), expired=True)
        assert "no artifact" in published(event()).reason
        assert not github.comments

    def test_the_token_is_not_sent_to_where_artifacts_lie(
        self, github: GitHubServer, published: Publisher
    ) -> None:
        github.add_artifact(7, "refcompare", zipped(entries()))
        published(event())
        [blob] = [item for item in github.requests if item.path.startswith("/blob/")]
        assert blob.token is None

    def test_a_token_that_may_not_read_artifacts_is_told_what_it_lacks(
        self, github: GitHubServer, published: Publisher
    ) -> None:
        github.add_artifact(7, "refcompare", zipped(entries()))
        github.accounts[TOKEN] = Account(BOT, read=frozenset({"pull-requests", "contents"}))
        with pytest.raises(Denied, match="actions: read"):
            published(event())


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Give the place of every value that is no object and no list; of a list, of its first item alone."""
    items = (
        value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    )
    if not isinstance(value, dict | list):
        yield place
    for key, item in items:
        yield from leaves(item, (*place, key))


def written_with(value: dict[str, Any], place: tuple[Any, ...], text: str) -> str:
    """Write a value as JSON, with ``text`` as it stands in one place."""
    copy = json.loads(json.dumps(value))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = "\N{BLACK SQUARE}"
    return json.dumps(copy, ensure_ascii=False).replace('"\N{BLACK SQUARE}"', text)


@pytest.mark.parametrize("text", ["1e999", "NaN", f"1{'0' * 5_000}", "-1", '"\\ud800"', "[[]]"])
def test_a_value_of_any_size_or_kind_is_shown_or_refused_and_breaks_nothing(
    tmp_path: Path, text: str
) -> None:
    base, head = a_bit_of_everything()
    run_file, records = run_value(head), [record_value(one) for one in head.records]
    honest = entries((base, head))
    lines = [json.dumps(one) for one in records]
    written = [("head/run.json", written_with(run_file, place, text)) for place in leaves(run_file)]
    known: set[tuple[Any, ...]] = set()
    for number, one in enumerate(records):
        for place in set(leaves(one)) - known:
            known.add(place)
            odd = written_with(one, place, text)
            written.append(("head/records.jsonl", "\n".join([*lines[:number], odd, *lines[number + 1 :]])))
    outcomes = set()
    for name, content in written:
        for path, data in {**honest, name: content.encode()}.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_bytes(data)
        try:
            answer = page.read_answer(tmp_path, DEFAULT_FAIL_ON, Names("main", "#12"), CAPS)
            body = page.comment(answer, "default", "https://github.example/1")
            assert len(body) <= page.COMMENT_CHARACTERS
            outcomes.add("shown")
        except ResultsError:
            outcomes.add("refused")
    assert "refused" in outcomes


class TestUnpacking:
    def unpacked(self, tmp_path: Path, data: bytes, **limits: int) -> list[str]:
        (tmp_path / "a.zip").write_bytes(data)
        unpack(tmp_path / "a.zip", tmp_path / "out", Limits(**limits))
        return sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())

    @pytest.fixture(autouse=True)
    def out(self, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()

    def test_only_files_of_known_names_are_taken(self, tmp_path: Path) -> None:
        odd = [
            "../evil",
            "/etc/passwd",
            "base/../../evil",
            "base/run.json/",
            "C:\\evil",
            "base\\run.json",
            "comment.md",
        ]
        found = self.unpacked(tmp_path, zipped({**dict.fromkeys(odd, b"x"), "base/run.json": b"{}"}))
        assert found == ["a.zip", "out/base/run.json"]

    def test_links_and_directories_in_their_place_are_refused(self, tmp_path: Path) -> None:
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            link = zipfile.ZipInfo("base/run.json")
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(link, "/etc/passwd")
        with pytest.raises(ResultsError, match="no plain file"):
            self.unpacked(tmp_path, data.getvalue())

    def test_what_unpacks_without_end_is_stopped(self, tmp_path: Path) -> None:
        bomb = zipped({"base/records.jsonl": b"\0" * 50_000_000})
        assert len(bomb) < 100_000
        with pytest.raises(ResultsError, match="more than"):
            self.unpacked(tmp_path, bomb, file=1_000_000)
        assert (tmp_path / "out/base/records.jsonl").stat().st_size <= 1_000_000

    def test_many_entries_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ResultsError, match="entries"):
            self.unpacked(tmp_path, zipped({f"f{number}": b"" for number in range(65)}))

    @pytest.mark.filterwarnings("ignore:Duplicate name")
    def test_two_files_of_one_name_are_refused(self, tmp_path: Path) -> None:
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            archive.writestr("base/run.json", "{}")
            archive.writestr("base/run.json", "[]")
        with pytest.raises(ResultsError, match="several"):
            self.unpacked(tmp_path, data.getvalue())

    def test_an_encrypted_or_broken_entry_is_refused(self, tmp_path: Path) -> None:
        data = bytearray(zipped({"base/run.json": b"{}" * 50}))
        central = data.rindex(b"PK\x01\x02")
        encrypted = bytes(data[: central + 8]) + bytes([data[central + 8] | 1]) + bytes(data[central + 9 :])
        with pytest.raises(ResultsError):
            self.unpacked(tmp_path, encrypted)
        data[40:44] = b"\xff\xff\xff\xff"
        with pytest.raises(ResultsError):
            self.unpacked(tmp_path, bytes(data))
