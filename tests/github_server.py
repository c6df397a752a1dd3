"""A stand-in for GitHub's API: real HTTP on loopback, with state, permissions, limits and bad days.

It knows what refcompare asks of GitHub and answers anything else with 501, so that a test fails where
the product begins to ask for more. Shapes and messages are those of the real service.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

BOT = "github-actions[bot]"
TOKEN = "ghs_abcdefghijklmnopqrstuvwxyz0123456789"
REPOSITORY = "octo/bench"
LONGEST_BODY = 65_536
ALL = frozenset({"actions", "checks", "contents", "issues", "pull-requests"})


@dataclass
class Account:
    """Who a token acts as. ``bot`` tokens cannot ask for ``/user``, as a workflow's own cannot."""

    login: str = BOT
    write: frozenset[str] = ALL
    read: frozenset[str] = ALL
    bot: bool = True


@dataclass
class Fault:
    """A bad answer for the next ``times`` requests that match.

    ``after`` lets the request take effect before its answer is lost; ``drop`` closes the connection,
    ``seconds`` is how long the answer takes. ``answer`` stands in the place of a message; a ``status``
    of 0 leaves the answer as it is.
    """

    method: str
    path: str
    status: int = 500
    message: str = "Server Error"
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1
    after: bool = False
    drop: bool = False
    seconds: float = 0.0
    answer: Any = None


SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
PRIMARY = "API rate limit exceeded for installation ID 1."
FORBIDDEN = "Resource not accessible by integration"


@dataclass
class Request:
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    token: str | None


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class GitHubServer:
    """One repository's worth of GitHub. Everything may be looked at and changed by a test."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {TOKEN: Account()}
        self.pulls: dict[int, dict[str, Any]] = {}
        self.issues: dict[int, dict[str, Any]] = {}
        self.comments: list[dict[str, Any]] = []
        self.check_runs: list[dict[str, Any]] = []
        self.runs: dict[int, dict[str, Any]] = {}
        self.artifacts: list[dict[str, Any]] = []
        self.blobs: dict[str, bytes] = {}
        self.files: dict[tuple[str, str], bytes] = {}
        """What ``/contents`` has: by the commit and the path."""
        self.unlisted_commits: set[str] = set()
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        self.lock = threading.RLock()
        self._ids = iter(range(1000, 10**6))
        server = self

        class Handler(_Handler):
            github = server

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator[GitHubServer]:
        thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join()

    # ------------------------------------------------------------------ what a test sets up

    def add_pull(self, number: int = 1, *, head: str = "h" * 40, base: str = "b" * 40, **fields: Any) -> None:
        """Open a pull request; ``fork`` names the repository of its head."""
        fork = fields.get("fork", REPOSITORY)
        self.pulls[number] = {
            "number": number,
            "state": fields.get("state", "open"),
            "url": f"{self.url}/repos/{REPOSITORY}/pulls/{number}",
            "html_url": f"https://github.example/{REPOSITORY}/pull/{number}",
            "head": {
                "sha": head,
                "ref": fields.get("branch", "feature"),
                "label": f"{fork.partition('/')[0]}:{fields.get('branch', 'feature')}",
                "repo": {"full_name": fork},
            },
            "base": {"sha": base, "ref": fields.get("into", "main"), "repo": {"full_name": REPOSITORY}},
        }
        self.issues[number] = self._issue(number, f"Pull request {number}", "", "someone")
        self.issues[number]["pull_request"] = {"url": self.pulls[number]["url"]}

    def add_comment(self, number: int, body: str, login: str = BOT) -> dict[str, Any]:
        identifier = next(self._ids)
        comment = {
            "id": identifier,
            "node_id": f"IC_{identifier}",
            "body": body,
            "user": {"login": login, "type": "Bot" if login.endswith("[bot]") else "User"},
            "url": f"{self.url}/repos/{REPOSITORY}/issues/comments/{identifier}",
            "html_url": f"https://github.example/{REPOSITORY}/pull/{number}#issuecomment-{identifier}",
            "issue": number,
            "minimized": None,
            "edits": 0,
        }
        self.comments.append(comment)
        return comment

    def add_artifact(self, run: int, name: str, data: bytes, **fields: Any) -> None:
        """Keep an archive as a run's artifact; what GitHub says of its size can be made wrong."""
        identifier = next(self._ids)
        self.runs.setdefault(
            run,
            {
                "id": run,
                "url": f"{self.url}/repos/{REPOSITORY}/actions/runs/{run}",
                "artifacts_url": f"{self.url}/repos/{REPOSITORY}/actions/runs/{run}/artifacts",
            },
        )
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.artifacts.append(
            {
                "id": identifier,
                "run": run,
                "name": name,
                "size_in_bytes": fields.get("size", len(data)),
                "expired": fields.get("expired", False),
                "digest": fields.get("digest", digest),
            }
        )
        self.blobs[str(identifier)] = data

    def fail(self, method: str, path: str, **fields: Any) -> None:
        self.faults.append(Fault(method, path, **fields))

    # --------------------------------------------------------------------------- what it does

    def comments_of(self, number: int) -> list[dict[str, Any]]:
        return [comment for comment in self.comments if comment["issue"] == number]

    def count(self, method: str, path: str) -> int:
        return sum(item.method == method and bool(re.search(path, item.path)) for item in self.requests)

    def fault_for(self, request: Request) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.times and fault.method == request.method and re.search(fault.path, request.path):
                    fault.times -= 1
                    return fault
        return None

    def answer(self, request: Request) -> tuple[int, Any, dict[str, str]]:
        with self.lock:
            for method, pattern, permission, action in self._routes():
                match = re.fullmatch(pattern, request.path)
                if match and method == request.method:
                    self._check(request, method, permission)
                    found = action(request, *match.groups())
                    return (
                        found if isinstance(found, tuple) else (201 if method == "POST" else 200, found, {})
                    )
        raise Refused(501, f"the test's GitHub knows no {request.method} {request.path}")

    def _check(self, request: Request, method: str, permission: str) -> None:
        account = self.accounts.get(request.token or "")
        if account is None:
            raise Refused(401, "Bad credentials")
        if not permission:
            return
        kinds = permission.split("|")
        if not any(kind in (account.read if method == "GET" else account.write) for kind in kinds):
            raise Refused(403, FORBIDDEN)

    def _routes(self) -> list[tuple[str, str, str, Callable[..., Any]]]:
        repo = f"/repos/{re.escape(REPOSITORY)}"
        talk = "issues|pull-requests"
        return [
            ("GET", "/user", "", self._user),
            ("POST", "/graphql", "", self._graphql),
            ("GET", rf"{repo}/issues/(\d+)", talk, lambda _, n: self._found(self.issues, n)),
            ("GET", rf"{repo}/issues/(\d+)/comments", talk, self._list_comments),
            ("POST", rf"{repo}/issues/(\d+)/comments", talk, self._create_comment),
            ("PATCH", rf"{repo}/issues/comments/(\d+)", talk, self._edit_comment),
            ("DELETE", rf"{repo}/issues/comments/(\d+)", talk, self._delete_comment),
            ("GET", f"{repo}/issues", "issues", self._list_issues),
            ("POST", f"{repo}/issues", "issues", self._create_issue),
            ("PATCH", rf"{repo}/issues/(\d+)", "issues", self._edit_issue),
            ("GET", f"{repo}/pulls", "pull-requests", self._list_pulls),
            ("GET", rf"{repo}/pulls/(\d+)", "pull-requests", lambda _, n: self._found(self.pulls, n)),
            ("GET", f"{repo}/commits/([0-9a-z]+)", "contents", self._commit),
            ("GET", f"{repo}/commits/([0-9a-z]+)/pulls", "pull-requests", self._pulls_of_commit),
            ("GET", f"{repo}/contents/(.+)", "contents", self._contents),
            ("POST", f"{repo}/check-runs", "checks", self._create_check_run),
            ("PATCH", rf"{repo}/check-runs/(\d+)", "checks", self._edit_check_run),
            ("GET", rf"{repo}/actions/runs/(\d+)", "actions", lambda _, n: self._found(self.runs, n)),
            ("GET", rf"{repo}/actions/runs/(\d+)/artifacts", "actions", self._list_artifacts),
            ("GET", rf"{repo}/actions/artifacts/(\d+)/zip", "actions", self._redirect),
        ]

    def _found(self, table: dict[int, dict[str, Any]], number: str) -> dict[str, Any]:
        if int(number) not in table:
            raise Refused(404, "Not Found")
        return table[int(number)]

    def _user(self, request: Request) -> dict[str, Any]:
        account = self.accounts[request.token or ""]
        if account.bot:
            raise Refused(403, FORBIDDEN)
        return {"login": account.login}

    # comments

    def _list_comments(self, request: Request, number: str) -> tuple[int, Any, dict[str, str]]:
        self._found(self.issues, number)
        return self._page(request, self.comments_of(int(number)))

    def _create_comment(self, request: Request, number: str) -> dict[str, Any]:
        self._found(self.issues, number)
        return self.add_comment(int(number), self._body(request), self.accounts[request.token or ""].login)

    def _edit_comment(self, request: Request, identifier: str) -> dict[str, Any]:
        for comment in self.comments:
            if comment["id"] == int(identifier):
                comment["body"] = self._body(request)
                comment["edits"] += 1
                return comment
        raise Refused(404, "Not Found")

    def _delete_comment(self, request: Request, identifier: str) -> tuple[int, Any, dict[str, str]]:
        for comment in self.comments:
            if comment["id"] == int(identifier):
                self.comments.remove(comment)
                return 204, None, {}
        raise Refused(404, "Not Found")

    def _body(self, request: Request) -> str:
        body = request.body.get("body") or ""
        if len(body.encode("utf-16-le")) // 2 > LONGEST_BODY:
            raise Refused(422, "Validation Failed: body is too long (maximum is 65536 characters)")
        return str(body)

    # issues

    def _issue(self, number: int, title: str, body: str, login: str) -> dict[str, Any]:
        return {
            "number": number,
            "title": title,
            "body": body,
            "state": "open",
            "state_reason": None,
            "user": {"login": login},
            "url": f"{self.url}/repos/{REPOSITORY}/issues/{number}",
            "html_url": f"https://github.example/{REPOSITORY}/issues/{number}",
        }

    def _list_issues(self, request: Request) -> tuple[int, Any, dict[str, str]]:
        state, creator = request.query.get("state", "open"), request.query.get("creator")
        found = [
            issue
            for issue in self.issues.values()
            if issue["state"] == state and creator in (None, issue["user"]["login"])
        ]
        return self._page(request, found)

    def _create_issue(self, request: Request) -> dict[str, Any]:
        number = max(self.issues, default=0) + 1
        login = self.accounts[request.token or ""].login
        self.issues[number] = self._issue(number, request.body["title"], self._body(request), login)
        return self.issues[number]

    def _edit_issue(self, request: Request, number: str) -> dict[str, Any]:
        issue = self._found(self.issues, number)
        issue.update(
            {key: request.body[key] for key in ("body", "state", "state_reason") if key in request.body}
        )
        return issue

    # pull requests, commits, checks

    def _list_pulls(self, request: Request) -> tuple[int, Any, dict[str, str]]:
        state, head = request.query.get("state", "open"), request.query.get("head")
        found = [
            pull
            for pull in self.pulls.values()
            if state in (pull["state"], "all") and head in (None, pull["head"]["label"])
        ]
        return self._page(request, found)

    def _commit(self, request: Request, sha: str) -> dict[str, Any]:
        if sha in self.unlisted_commits:
            raise Refused(422, f"No commit found for SHA: {sha}")
        return {"sha": sha, "url": f"{self.url}/repos/{REPOSITORY}/commits/{sha}"}

    def _pulls_of_commit(self, request: Request, sha: str) -> tuple[int, Any, dict[str, str]]:
        if sha in self.unlisted_commits:
            raise Refused(422, f"No commit found for SHA: {sha}")
        return self._page(request, [pull for pull in self.pulls.values() if pull["head"]["sha"] == sha])

    def _contents(self, request: Request, path: str) -> dict[str, Any]:
        data = self.files.get((request.query["ref"], path))
        if data is None:
            raise Refused(404, "Not Found")
        content = base64.b64encode(data).decode()
        return {"type": "file", "path": path, "encoding": "base64", "size": len(data), "content": content}

    def _create_check_run(self, request: Request) -> dict[str, Any]:
        identifier = next(self._ids)
        run = {
            **request.body,
            "id": identifier,
            "url": f"{self.url}/repos/{REPOSITORY}/check-runs/{identifier}",
            "html_url": f"https://github.example/{REPOSITORY}/runs/{identifier}",
            "all_annotations": self._annotations(request),
        }
        self.check_runs.append(run)
        return run

    def _edit_check_run(self, request: Request, identifier: str) -> dict[str, Any]:
        for run in self.check_runs:
            if run["id"] == int(identifier):
                run["all_annotations"] += self._annotations(request)
                return run
        raise Refused(404, "Not Found")

    def _annotations(self, request: Request) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = request.body.get("output", {}).get("annotations", [])
        if len(found) > 50:
            raise Refused(422, "Validation Failed: no more than 50 annotations")
        return found

    # artifacts

    def _list_artifacts(self, request: Request, run: str) -> tuple[int, Any, dict[str, str]]:
        found = [item for item in self.artifacts if item["run"] == int(run)]
        status, page, headers = self._page(request, found)
        return status, {"total_count": len(found), "artifacts": page}, headers

    def _redirect(self, request: Request, identifier: str) -> tuple[int, Any, dict[str, str]]:
        if identifier not in self.blobs:
            raise Refused(404, "Not Found")
        return 302, None, {"Location": f"{self.url}/blob/{identifier}?sig=SIGNATURE"}

    # GraphQL

    def _graphql(self, request: Request) -> tuple[int, Any, dict[str, str]]:
        query, variables = request.body["query"], request.body.get("variables") or {}
        account = self.accounts[request.token or ""]
        if "viewer" in query:
            return 200, {"data": {"viewer": {"login": account.login}}}, {}
        by_node = {comment["node_id"]: comment for comment in self.comments}
        if "minimizeComment" in query:
            if not account.write & {"issues", "pull-requests"}:
                errors = [{"type": "FORBIDDEN", "message": FORBIDDEN}]
                return 200, {"data": {"minimizeComment": None}, "errors": errors}, {}
            assert "classifier: OUTDATED" in query
            by_node[variables["id"]]["minimized"] = "OUTDATED"
            return 200, {"data": {"minimizeComment": {"minimizedComment": {"isMinimized": True}}}}, {}
        nodes = [
            {"id": identifier, "isMinimized": by_node[identifier]["minimized"] is not None}
            for identifier in variables["ids"]
        ]
        return 200, {"data": {"nodes": nodes}}, {}

    def _page(self, request: Request, items: list[Any]) -> tuple[int, Any, dict[str, str]]:
        size, number = int(request.query.get("per_page", "30")), int(request.query.get("page", "1"))
        assert size <= 100
        pages = max(1, -(-len(items) // size))
        links = []
        for name, target in (("next", number + 1), ("last", pages)):
            if number < pages:
                query = urlencode({**request.query, "page": target})
                links.append(f'<{self.url}{request.path}?{query}>; rel="{name}"')
        return 200, items[(number - 1) * size : number * size], {"Link": ", ".join(links)} if links else {}


class _Handler(BaseHTTPRequestHandler):
    github: GitHubServer
    protocol_version = "HTTP/1.1"
    timeout = 30
    wbufsize = 64 * 1024
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_PATCH(self) -> None:
        self._serve("PATCH")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _serve(self, method: str) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        credentials = self.headers.get("Authorization", "")
        request = Request(
            method,
            parts.path,
            {name: values[-1] for name, values in parse_qs(parts.query).items()},
            json.loads(raw) if raw else {},
            credentials.partition(" ")[2] or None,
        )
        self.github.requests.append(request)
        if parts.path.startswith("/blob/"):
            assert request.token is None, "the token was sent to where artifacts lie"
            self._send(200, self.github.blobs[parts.path.rpartition("/")[2]], {})
            return
        fault = self.github.fault_for(request)
        status: int = 200
        answer: Any = None
        headers: dict[str, str] = {}
        if fault is None or fault.after:
            try:
                status, answer, headers = self.github.answer(request)
            except Refused as refused:
                status, answer = refused.status, {"message": str(refused)}
        if fault is not None:
            time.sleep(fault.seconds)
            if fault.drop:
                self.close_connection = True
                return
            if fault.status:
                status, headers = fault.status, fault.headers
                answer = {"message": fault.message} if fault.answer is None else fault.answer
        self._send(status, b"" if answer is None else json.dumps(answer).encode(), headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        try:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
