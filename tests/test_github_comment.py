"""The sticky comment, posted to a stand-in for GitHub over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from refcompare.compare import compare
from refcompare.gate import gate
from refcompare.github.api import Client, Denied, GitHubFailure, Patience
from refcompare.github.comment import PERMISSION, Posted, Thread, is_wanted
from refcompare.report.escape import marker
from refcompare.report.interface import Options
from refcompare.report.markdown import render
from tests.github_server import (
    ALL,
    BOT,
    FORBIDDEN,
    PRIMARY,
    REPOSITORY,
    SECONDARY,
    TOKEN,
    Account,
    GitHubServer,
)
from tests.result_builders import FAIL, PASS, entry, many, record, run

COMMENTS = r"/issues/1/comments$"
EDITS = r"/issues/comments/\d+$"


class Clock:
    """Time that passes only by sleeping, so that no test waits."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0
        self.sleeps: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds

    def time(self) -> float:
        return self.now


@pytest.fixture
def github() -> Iterator[GitHubServer]:
    server = GitHubServer()
    server.add_pull(1)
    with server.running():
        yield server


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client(github: GitHubServer, clock: Clock) -> Client:
    return make_client(github, clock)


def make_client(github: GitHubServer, clock: Clock, token: str = TOKEN, **patience: Any) -> Client:
    return Client(
        token,
        github.url,
        patience=Patience(**patience),
        sleep=clock.sleep,
        now=clock.time,
        say=lambda _: None,
    )


def body(text: str = "first", key: str = "default") -> str:
    return f"{marker(key)}\n\n{text}\n"


def thread(client: Client, key: str = "default") -> Thread:
    return Thread(client, REPOSITORY, 1, marker(key))


def bodies(github: GitHubServer) -> list[str]:
    return [comment["body"] for comment in github.comments_of(1)]


class TestUpdate:
    def test_the_first_time_a_comment_is_created(self, github: GitHubServer, client: Client) -> None:
        posted = thread(client).post(body())
        assert (posted.how, bodies(github)) == ("created", [body()])
        assert posted.url == github.comments[0]["html_url"]

    def test_afterwards_it_is_updated_in_place(self, github: GitHubServer, client: Client) -> None:
        thread(client).post(body())
        posted = thread(client).post(body("second"))
        assert (posted.how, bodies(github)) == ("updated", [body("second")])

    def test_a_comment_that_says_so_already_is_left_alone(self, github: GitHubServer, client: Client) -> None:
        github.add_comment(1, body().replace("\n", "\r\n").rstrip())
        assert thread(client).post(body()).how == "unchanged"
        assert github.comments[0]["edits"] == 0

    def test_it_is_found_on_a_later_page_of_a_long_thread(self, github: GitHubServer, client: Client) -> None:
        for number in range(230):
            github.add_comment(1, f"talk {number}", "someone")
        mine = github.add_comment(1, body())
        for number in range(40):
            github.add_comment(1, f"more talk {number}", "someone")
        assert thread(client).post(body("second")).how == "updated"
        assert mine["body"] == body("second")

    def test_another_configuration_has_a_comment_of_its_own(
        self, github: GitHubServer, client: Client
    ) -> None:
        thread(client).post(body())
        assert thread(client, "php-8.4").post(body(key="php-8.4")).how == "created"
        assert len(bodies(github)) == 2

    def test_somebody_elses_comment_with_the_marker_is_never_edited(
        self, github: GitHubServer, client: Client
    ) -> None:
        for login in ("mallory", "github-actions", "other-app[bot]"):
            github.add_comment(1, body("not refcompare's"), login)
        assert thread(client).post(body()).how == "created"
        assert bodies(github) == [body("not refcompare's")] * 3 + [body()]

    def test_a_marker_further_down_is_no_marker(self, github: GitHubServer, client: Client) -> None:
        github.add_comment(1, f"quoted: {body()}")
        assert thread(client).post(body("second")).how == "created"

    def test_a_token_that_nobody_tells_who_it_is_learns_it_from_what_it_wrote(
        self, github: GitHubServer, client: Client
    ) -> None:
        github.add_comment(1, body("not refcompare's"), "mallory")
        mine = github.add_comment(1, body())
        github.fail("POST", "/graphql", status=404, message="Not Found", times=9)
        posted = thread(client).post(body("second"))
        assert (posted.how, posted.url) == ("updated", mine["html_url"])
        assert bodies(github) == [body("not refcompare's"), body("second")]

    def test_a_persons_token_is_known_by_its_user(self, github: GitHubServer, clock: Clock) -> None:
        github.accounts["ghp_person"] = Account("maintainer", bot=False)
        github.fail("POST", "/graphql", status=404, message="Not Found", times=9)
        github.add_comment(1, body(), "Maintainer")
        assert thread(make_client(github, clock, "ghp_person")).post(body("second")).how == "updated"

    def test_a_comment_of_a_deleted_account_is_passed_over(
        self, github: GitHubServer, client: Client
    ) -> None:
        github.add_comment(1, body())["user"] = None
        assert thread(client).post(body()).how == "created"

    def test_of_several_own_comments_the_newest_is_kept_true_and_the_others_folded(
        self, github: GitHubServer, client: Client
    ) -> None:
        github.add_comment(1, body("one run"))
        github.add_comment(1, body("another at the same time"))
        thread(client).post(body("second"))
        assert bodies(github) == [body("one run"), body("second")]
        assert [comment["minimized"] for comment in github.comments] == ["OUTDATED", None]


class TestTwoRunsAtOnce:
    """Both read the thread before either of them posts."""

    def post(self, github: GitHubServer, mode: Any) -> list[Posted]:
        github.fail("GET", COMMENTS, status=0, after=True, seconds=0.4, times=2)
        runs = [thread(make_client(github, Clock())) for _ in range(2)]
        with ThreadPoolExecutor(2) as pool:
            done = [pool.submit(run.post, body(f"run {number}"), mode) for number, run in enumerate(runs)]
        return [item.result() for item in done]

    def test_they_leave_one_comment(self, github: GitHubServer) -> None:
        posted = self.post(github, "update")
        assert github.count("POST", COMMENTS) == 2
        [comment] = github.comments_of(1)
        assert comment["body"] in (body("run 0"), body("run 1"))
        assert {item.url for item in posted} == {comment["html_url"]}
        assert sorted(item.how for item in posted) == ["created", "updated"]
        assert not any(item.problem for item in posted)

    def test_recreated_they_leave_one_that_is_not_folded(self, github: GitHubServer) -> None:
        github.add_comment(1, body("before"))
        self.post(github, "recreate")
        assert len(bodies(github)) == 3
        assert [comment["minimized"] for comment in github.comments] == ["OUTDATED", "OUTDATED", None]

    @pytest.mark.parametrize("fault", [{"status": 502}, {"drop": True}])
    def test_one_that_was_withdrawn_unheard_is_gone_all_the_same(
        self, github: GitHubServer, fault: dict[str, Any]
    ) -> None:
        github.fail("DELETE", EDITS, after=True, **fault)
        posted = self.post(github, "update")
        assert len(bodies(github)) == 1 and not any(item.problem for item in posted)

    def test_one_that_cannot_be_withdrawn_is_a_problem_and_no_failure(self, github: GitHubServer) -> None:
        github.fail("DELETE", EDITS, status=403, message=FORBIDDEN, times=9)
        posted = self.post(github, "update")
        assert [item.problem for item in posted if item.problem] == [
            f"GitHub did not let this token merge two comments into one (403: {FORBIDDEN}); "
            "give the job `permissions: pull-requests: write`."
        ]


class TestRecreate:
    def test_a_new_comment_is_posted_and_the_old_one_folded(
        self, github: GitHubServer, client: Client
    ) -> None:
        thread(client).post(body())
        posted = thread(client).post(body("second"), "recreate")
        assert (posted.how, bodies(github)) == ("recreated", [body(), body("second")])
        assert [comment["minimized"] for comment in github.comments] == ["OUTDATED", None]
        assert posted.url == github.comments[1]["html_url"]

    def test_also_when_it_says_the_same_again(self, github: GitHubServer, client: Client) -> None:
        thread(client).post(body(), "recreate")
        thread(client).post(body(), "recreate")
        assert len(bodies(github)) == 2

    def test_what_is_folded_already_is_not_folded_again(self, github: GitHubServer, client: Client) -> None:
        for text in ("first", "second", "third", "fourth"):
            thread(client).post(body(text), "recreate")
        mutations = [item for item in github.requests if "minimizeComment" in str(item.body)]
        assert len(mutations) == 3
        assert [comment["minimized"] for comment in github.comments] == ["OUTDATED"] * 3 + [None]

    def test_a_comment_that_cannot_be_folded_is_a_problem_and_no_failure(
        self, github: GitHubServer, client: Client
    ) -> None:
        client.identity()
        thread(client).post(body())
        github.fail("POST", "/graphql", status=403, message=FORBIDDEN, times=9)
        posted = thread(client).post(body("second"), "recreate")
        assert posted.how == "recreated" and "fold outdated comments" in posted.problem

    def test_a_refusal_that_graphql_puts_into_a_good_answer_is_heard(
        self, github: GitHubServer, client: Client
    ) -> None:
        thread(client).post(body())
        github.accounts["ghs_reader"] = Account(BOT, write=frozenset({"actions"}))
        reader = make_client(github, Clock(), "ghs_reader")
        with pytest.raises(Denied, match=re.escape(f"fold it (400: {FORBIDDEN}); give the job")):
            reader.call("fold it", lambda: thread(reader)._fold(_comments(reader)), PERMISSION)

    def test_a_limit_that_graphql_puts_into_a_good_answer_is_waited_for(
        self, github: GitHubServer, client: Client, clock: Clock
    ) -> None:
        thread(client).post(body())
        limited = {"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]}
        github.fail("POST", "/graphql", status=200, answer=limited)
        assert thread(client).post(body("second"), "recreate").problem == ""
        assert clock.sleeps == [60]


def _comments(client: Client) -> list[Any]:
    return list(client.repository(REPOSITORY).get_issue(1).get_comments())


class TestBadDays:
    @pytest.mark.parametrize(
        ("fault", "wait"),
        [
            ({"status": 502, "message": ""}, 1),
            ({"status": 503, "headers": {"Retry-After": "7"}}, 7),
            ({"status": 403, "message": SECONDARY, "headers": {"Retry-After": "11"}}, 11),
            ({"status": 429, "message": SECONDARY, "headers": {"Retry-After": "12"}}, 12),
            ({"status": 403, "message": SECONDARY}, 60),
            ({"status": 429, "message": "Too Many Requests"}, 60),
            (
                {
                    "status": 403,
                    "message": PRIMARY,
                    "headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1700000042"},
                },
                42,
            ),
            ({"drop": True}, 1),
        ],
    )
    @pytest.mark.parametrize("path", ["GET", "POST"])
    def test_what_passes_is_waited_for_as_long_as_asked(
        self,
        github: GitHubServer,
        client: Client,
        clock: Clock,
        fault: dict[str, Any],
        wait: float,
        path: str,
    ) -> None:
        github.fail(path, COMMENTS, **fault)
        assert thread(client).post(body()).how == "created"
        assert clock.sleeps == [wait]
        assert bodies(github) == [body()]

    def test_waits_grow_and_end(self, github: GitHubServer, clock: Clock) -> None:
        client = make_client(github, clock, total=20.0)
        github.fail("POST", COMMENTS, status=500, times=99)
        with pytest.raises(GitHubFailure, match="also after trying again") as caught:
            thread(client).post(body())
        assert not isinstance(caught.value, Denied)
        assert clock.sleeps == [1, 2, 4, 8]

    def test_a_limit_that_ends_too_late_is_not_waited_for(
        self, github: GitHubServer, client: Client, clock: Clock
    ) -> None:
        github.fail("POST", COMMENTS, status=403, message=SECONDARY, headers={"Retry-After": "3600"}, times=9)
        with pytest.raises(GitHubFailure, match="secondary rate limit"):
            thread(client).post(body())
        assert clock.sleeps == []

    @pytest.mark.parametrize("fault", [{"status": 500}, {"drop": True}])
    @pytest.mark.parametrize("mode", ["update", "recreate"])
    def test_a_comment_whose_answer_was_lost_is_not_posted_twice(
        self, github: GitHubServer, client: Client, fault: dict[str, Any], mode: Any
    ) -> None:
        github.add_comment(1, body("old"), BOT if mode == "recreate" else "someone")
        github.fail("POST", COMMENTS, after=True, **fault)
        thread(client).post(body(), mode)
        assert bodies(github) == [body("old"), body()]

    def test_a_server_that_does_not_answer_is_given_up(self, github: GitHubServer, clock: Clock) -> None:
        client = make_client(github, clock, request=1, total=0.5)
        github.fail("GET", COMMENTS, seconds=1.6)
        with pytest.raises(GitHubFailure, match="could not be reached"):
            thread(client).post(body())

    def test_one_that_does_not_answer_once_is_asked_again(self, github: GitHubServer, clock: Clock) -> None:
        github.fail("POST", COMMENTS, seconds=1.6, after=True, status=0)
        assert thread(make_client(github, clock, request=1)).post(body()).how == "created"
        assert (clock.sleeps, bodies(github)) == ([1], [body()])

    def test_nobody_listening_is_a_sentence(self, clock: Clock) -> None:
        client = Client(TOKEN, "http://127.0.0.1:9", patience=Patience(total=3), sleep=clock.sleep)
        with pytest.raises(GitHubFailure, match="could not be reached") as caught:
            thread(client).post(body())
        assert TOKEN not in str(caught.value)

    def test_a_read_only_token_is_told_apart_and_not_tried_again(
        self, github: GitHubServer, clock: Clock
    ) -> None:
        github.accounts[TOKEN] = Account(write=frozenset())
        with pytest.raises(Denied, match=r"permissions: pull-requests: write") as caught:
            thread(make_client(github, clock)).post(body())
        assert FORBIDDEN in str(caught.value) and clock.sleeps == []
        assert github.count("POST", COMMENTS) == 1

    def test_a_token_that_is_none_is_denied(self, github: GitHubServer, clock: Clock) -> None:
        with pytest.raises(Denied, match="Bad credentials"):
            thread(make_client(github, clock, "ghs_expired")).post(body())

    def test_the_token_is_in_no_message(self, github: GitHubServer, client: Client, clock: Clock) -> None:
        github.fail("POST", COMMENTS, status=422, message=f"echo {'x' * 9999}")
        with pytest.raises(GitHubFailure, match="refused") as caught:
            thread(client).post(body())
        assert TOKEN not in str(caught.value) and len(str(caught.value)) < 400
        assert TOKEN not in repr(client)


class TestPolicy:
    nothing = compare(run("base", [entry()], [record()]), run("head", [entry()], [record()]))
    fixed = compare(run("base", [entry()], [record("t", FAIL)]), run("head", [entry()], [record("t", PASS)]))
    regressed = compare(run("base", [entry()], [record()]), run("head", [entry()], [record("t", FAIL)]))

    @pytest.mark.parametrize(
        ("policy", "wanted"),
        [
            ("always", [True, True, True]),
            ("changes", [False, True, True]),
            ("failures", [False, False, True]),
            ("never", [False, False, False]),
        ],
    )
    def test_a_new_comment_is_posted_as_asked(self, policy: Any, wanted: list[bool]) -> None:
        comparisons = (self.nothing, self.fixed, self.regressed)
        assert [is_wanted(policy, one, gate(one)) for one in comparisons] == wanted

    @pytest.mark.parametrize("mode", ["update", "recreate"])
    def test_where_none_is_due_an_old_one_is_still_kept_true(
        self, github: GitHubServer, client: Client, mode: Any
    ) -> None:
        assert thread(client).post(body(), mode, needed=False).how == "not needed"
        assert bodies(github) == []
        thread(client).post(body())
        assert thread(client).post(body("all is well"), mode, needed=False).how == "updated"
        assert bodies(github) == [body("all is well")]


def test_ten_thousand_changed_rows_are_taken_by_github(github: GitHubServer, client: Client) -> None:
    comparison = compare(*many(10_000, every_head_fails=True))
    text = render(comparison, gate(comparison), Options())
    thread(client).post(text)
    assert bodies(github) == [text]


def test_the_accounts_of_this_file_may_do_everything() -> None:
    assert Account().write == ALL
