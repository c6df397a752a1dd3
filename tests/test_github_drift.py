"""The weekly look: two comparisons, and one issue that is kept true."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from refcompare.arms import Choice
from refcompare.changes import ChangeKind, Difference
from refcompare.demo import build_repository
from refcompare.errors import EnvironmentFailure
from refcompare.gate import DEFAULT_FAIL_ON
from refcompare.github import drift
from refcompare.github.api import Client, Denied, Patience
from refcompare.github.drift import Part, issue_body, newest_release, release_answer, settle_issue
from refcompare.github.page import Answer, Names, make_answer
from refcompare.paths import CACHE_VARIABLE
from refcompare.report.escape import marker
from refcompare.wordpress.releases import Release
from refcompare.wordpress.site import Site
from tests.github_server import BOT, REPOSITORY, TOKEN, Account, GitHubServer
from tests.http_answers import serving
from tests.result_builders import FAIL, entry, many, record, run
from tests.support_git import isolate

MARK = marker("drift-default")
NAMES = Names("main a week ago", "main")


@pytest.fixture
def github() -> Iterator[GitHubServer]:
    with GitHubServer().running() as server:
        yield server


@pytest.fixture
def client(github: GitHubServer) -> Client:
    return Client(TOKEN, github.url, patience=Patience(total=3), sleep=lambda _: None)


def answer(*, regressed: bool) -> Answer:
    head = run("head", [entry()], [record("t", FAIL) if regressed else record()])
    return make_answer(run("base", [entry()], [record()]), head, DEFAULT_FAIL_ON, NAMES)


def settle(client: Client, *, drifted: bool, body: str = "text") -> drift.Settled:
    return settle_issue(client, REPOSITORY, "default", f"{MARK}\n\n{body}", drifted=drifted)


class TestIssue:
    def test_it_is_opened_updated_and_closed(self, github: GitHubServer, client: Client) -> None:
        assert settle(client, drifted=False).how == "not needed"
        opened = settle(client, drifted=True)
        assert (opened.how, opened.url) == ("opened", github.issues[1]["html_url"])
        assert settle(client, drifted=True, body="more").how == "updated"
        assert github.issues[1]["body"].endswith("more") and len(github.issues) == 1
        assert settle(client, drifted=False, body="all is well").how == "closed"
        issue = github.issues[1]
        assert (issue["state"], issue["state_reason"]) == ("closed", "completed")
        assert issue["body"].endswith("all is well")
        assert settle(client, drifted=False).how == "not needed"
        assert settle(client, drifted=True).how == "opened"
        assert [item["state"] for item in github.issues.values()] == ["closed", "open"]

    def test_somebody_elses_issue_is_left_alone(self, github: GitHubServer, client: Client) -> None:
        github.issues[1] = github._issue(1, drift.TITLE, f"{MARK}\n\nmine", "mallory")
        github.issues[2] = github._issue(2, "another of refcompare's", marker("drift-other"), BOT)
        github.add_pull(3)
        github.issues[3].update(user={"login": BOT}, body=MARK)
        assert settle(client, drifted=True).how == "opened"
        settle(client, drifted=False)
        assert [github.issues[number]["state"] for number in (1, 2, 3)] == ["open"] * 3

    def test_two_that_were_opened_at_once_become_one(self, github: GitHubServer, client: Client) -> None:
        for number in (1, 2):
            github.issues[number] = github._issue(number, drift.TITLE, MARK, BOT)
        assert settle(client, drifted=True).url == github.issues[1]["html_url"]
        assert [item["state"] for item in github.issues.values()] == ["open", "closed"]

    def test_one_whose_answer_was_lost_is_not_opened_twice(
        self, github: GitHubServer, client: Client
    ) -> None:
        github.fail("POST", "/issues$", status=502, after=True)
        settle(client, drifted=True)
        assert len(github.issues) == 1

    def test_a_token_that_may_not_is_told_what_it_lacks(self, github: GitHubServer, client: Client) -> None:
        github.accounts[TOKEN] = Account(write=frozenset())
        with pytest.raises(Denied, match="issues: write"):
            settle(client, drifted=True)


class TestText:
    def test_each_comparison_stands_under_its_title(self) -> None:
        parts = [Part("main a week ago → main", answer(regressed=True)), Part("Next", note="Nothing newer.")]
        body = issue_body(parts, "default", "https://github.example/run/1")
        assert body.startswith(MARK) and body.count("<!-- refcompare") == 1
        assert "## main a week ago → main\n\n❌ **1 regressed**" in body
        assert "## Next\n\nNothing newer." in body
        assert "(https://github.example/run/1)" in body

    def test_it_stays_under_what_github_takes(self, github: GitHubServer, client: Client) -> None:
        large = make_answer(*many(5_000, every_head_fails=True), DEFAULT_FAIL_ON, NAMES)
        body = issue_body([Part("one", large), Part("two", large)], "default", "https://github.example/1")
        assert len(body) > 40_000 and body.count("more rows are left out here") == 2
        settle_issue(client, REPOSITORY, "default", body, drifted=True)
        assert github.issues[1]["body"] == body

    def test_what_fails_the_gate_is_drift_and_nothing_else(self) -> None:
        assert Part("x", answer(regressed=True)).drifted
        assert not Part("x", answer(regressed=False)).drifted
        assert not Part("x", note="nothing to compare").drifted


class TestNewestRelease:
    def test_it_is_what_the_project_offers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        offers = {"offers": [{"response": "upgrade", "version": "7.2.1"}, {"version": "7.1.9"}]}
        with serving(json.dumps(offers).encode()) as url:
            assert newest_release(url) == "7.2.1"
            monkeypatch.setenv(drift.RELEASES_VARIABLE, url)
            assert newest_release() == "7.2.1"

    @pytest.mark.parametrize(
        "answer",
        [
            b"",
            b"[]",
            b"{}",
            b'{"offers": []}',
            b'{"offers": [{"version": "../../etc"}]}',
            b'{"offers": [{"version": 7}]}',
        ],
    )
    def test_anything_else_is_a_clear_error(self, answer: bytes) -> None:
        with serving(answer) as url, pytest.raises(EnvironmentFailure, match="names no release"):
            newest_release(url)

    def test_no_answer_is_a_clear_error(self) -> None:
        with serving(b"", 404) as url, pytest.raises(EnvironmentFailure, match="could not be asked"):
            newest_release(url)


@pytest.mark.wordpress
def test_the_same_tree_is_compared_on_two_releases(
    release: Release, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release that breaks every shortcode stands for the next WordPress."""
    with tempfile.TemporaryDirectory(prefix="refcompare-drift-") as name:
        place = Path(name)
        place.chmod(0o755)  # graders run as another user where the tests run as root
        isolate(monkeypatch, place / "home")
        for kind in ("releases", "sites"):
            (place / "cache" / kind).mkdir(parents=True)
        (place / "cache" / "releases" / release.version).symlink_to(release.core.parent)
        (place / "cache" / "sites" / site.root.parent.name).symlink_to(site.root.parent)
        monkeypatch.setenv(CACHE_VARIABLE, str(place / "cache"))
        core = place / "next"
        shutil.copytree(release.core, core)
        version = core / "wp-includes" / "version.php"
        version.write_text(version.read_text().replace(f"'{release.version}'", "'9.9'"))
        shortcodes = core / "wp-includes" / "shortcodes.php"
        shortcodes.write_text(
            shortcodes.read_text().replace(
                "\tglobal $shortcode_tags;", "\treturn '';\n\tglobal $shortcode_tags;"
            )
        )
        _, head = build_repository(place / "bench")
        (place / "bench" / "refcompare.yml").write_text(
            "confirm: 1\naudit: {enabled: false}\nruntime: native\n"
            "suites: [datasets/suites/*/execution/shortcodes.json]\n"
        )
        runs = drift.compare_releases(place / "bench", head, Choice(), str(core))
    found = release_answer(runs, DEFAULT_FAIL_ON, "main")
    assert found.comparison.base.ref.startswith("main on WordPress 7.1.1")
    assert found.comparison.head.ref.startswith("main on WordPress 9.9")
    regressed = [change for change in found.comparison.changes if change.kind is ChangeKind.REGRESSED]
    assert len(regressed) == len(found.comparison.changes) == 3
    assert all(reason.what is Difference.WORDPRESS for change in regressed for reason in change.reasons)
    assert Part("next", found).drifted
