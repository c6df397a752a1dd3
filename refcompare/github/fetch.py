"""Gets from the remote what a checkout lacks: one commit, or history in bounded steps.

``actions/checkout`` leaves one commit and nothing before it. A commit whose id is known is fetched
alone. Where only history can tell (a merge base, a week ago), it is fetched in growing steps. No
branch, tag or file of the checkout changes.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.github.event import (
    BaseRule,
    ByRef,
    DaysBefore,
    FirstParent,
    MergeBase,
    PullRequestBase,
    Request,
)
from refcompare.github.runner import full_sha
from refcompare.wording import printable, quoted

DEPTHS = (50, 250, 1_000, 5_000, 25_000)
"""How many commits are fetched at each try before the checkout's author is asked for more."""

FETCH_SECONDS = 600

_OPTIONS = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "protocol.ext.allow=never"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
)
_SECRETS = ("GITHUB_TOKEN", "GH_TOKEN")
_SECONDS_A_DAY = 24 * 60 * 60
_MERGE_RESULT = re.compile(r"refs/pull/\d+/merge")
_URL_USER = re.compile(r"(?<=://)[^/@\s]+@")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Resolved:
    """The two refs as they can be given to a comparison: full SHAs, or ``head`` as WORKTREE."""

    base: str
    head: str


class NotFound(UsageError):
    """Neither the checkout nor its remote has what was asked for; another rule may still give a base."""


def resolve(wanted: Request, checkout: Checkout, now: float) -> Resolved | None:
    """Turn a request into two commits, fetching what is missing; ``now`` is in seconds since the epoch.

    None where the head has nothing before it to be compared with. Raises UsageError where a ref
    does not exist or its history can't be had.
    """
    if wanted.head == "WORKTREE":
        head, tip = wanted.head, checkout.commit("HEAD")
    else:
        head = tip = _head(wanted, checkout)
    failures: list[str] = []
    for number, rule in enumerate(wanted.bases):
        last = number == len(wanted.bases) - 1
        try:
            base = _base(rule, tip, checkout, now)
        except NotFound as failure:
            failures.append(str(failure))
            continue
        if base is None or (base == tip and isinstance(rule, MergeBase) and not last):
            continue
        return Resolved(base, head)
    if failures:
        raise UsageError(" ".join(failures))
    return None


def _head(wanted: Request, checkout: Checkout) -> str:
    """Give the head: what is checked out where that is the pull request's own last commit."""
    for rule in wanted.bases:
        if isinstance(rule, PullRequestBase) and checkout.commit("HEAD") == rule.head:
            return rule.head
    return checkout.commit(wanted.head)


def _base(rule: BaseRule, head: str, checkout: Checkout, now: float) -> str | None:
    match rule:
        case ByRef(ref) if "..." in ref:
            left, _, right = ref.partition("...")
            return checkout.merge_base(checkout.commit(left or "HEAD"), checkout.commit(right or head))
        case ByRef(ref):
            return checkout.commit(ref)
        case MergeBase(other):
            return checkout.merge_base(checkout.commit(other), head)
        case FirstParent():
            parent = next(iter(checkout.parents(head)), None)
            return checkout.commit(parent) if parent else None
        case DaysBefore(days):
            return checkout.before(head, now - days * _SECONDS_A_DAY)
        case PullRequestBase(base, own):
            parents = checkout.parents(head)
            if head != own and own in parents[1:]:
                return checkout.commit(parents[0])
            return checkout.merge_base(checkout.commit(base), head)


class Checkout:
    """A repository on a runner, and the remote that it came from.

    ``token`` opens the remote where the checkout kept no credentials, and only below
    ``server_url``. It is given to git in the environment and appears in no message.
    """

    def __init__(
        self,
        directory: Path,
        *,
        token: str = "",
        server_url: str = "https://github.com",
        say: Say = lambda _: None,
        depths: Iterable[int] = DEPTHS,
    ) -> None:
        """Open the repository around ``directory``. Raises UsageError where there is none."""
        self._directory = directory
        self._token = token
        self._server = server_url.rstrip("/")
        self._say = say
        self._depths = tuple(depths)
        if not directory.is_dir() or self._git("rev-parse", "--git-dir").returncode:
            raise UsageError(
                f"{printable(str(directory))} is not a git repository: put a step with actions/checkout "
                "before this one."
            )
        remotes = self._lines("remote")
        self._remote = "origin" if "origin" in remotes else next(iter(remotes), None)

    def commit(self, ref: str) -> str:
        """Give the full SHA of a ref's commit, fetching it if need be.

        Raises UsageError for what is no ref, NotFound where neither the checkout nor its remote has it.
        """
        if not ref or ref.startswith(("-", "^")) or "\0" in ref or ".." in ref:
            raise UsageError(f"{quoted(ref)} is no ref: give a branch, a tag, a SHA or A...B.")
        found = self._local(ref)
        if found:
            return found
        name, rest = _split(ref)
        for start in self._fetched(name):
            found = self._local(start + rest)
            for _ in self._deepening([start]) if rest and not found else ():
                found = self._local(start + rest)
                if found:
                    break
            if found:
                return found
        why = " GitHub makes none for a pull request with conflicts." if _MERGE_RESULT.fullmatch(ref) else ""
        raise NotFound(f"Neither the checkout nor its remote has a commit {quoted(ref)}.{why}")

    def parents(self, sha: str) -> tuple[str, ...]:
        """Give a commit's parents, also those that a shallow checkout hides."""
        text = self._git("cat-file", "commit", sha).stdout.decode("utf-8", "replace")
        header = text.partition("\n\n")[0]
        return tuple(
            line.removeprefix("parent ") for line in header.split("\n") if line.startswith("parent ")
        )

    def merge_base(self, one: str, other: str) -> str:
        """Give the commit at which two commits parted. Raises NotFound where they share none."""
        for _ in self._deepening([one, other], at_once=True):
            found = self._git("merge-base", one, other)
            if found.returncode == 0:
                return found.stdout.decode("ascii").strip()
        raise NotFound(f"{one[:12]} and {other[:12]} have no common history{self._too_shallow()}.")

    def before(self, head: str, moment: float) -> str | None:
        """Give the last commit on the head's own line that is not younger than ``moment``.

        That is its oldest commit where the whole line is younger, None for a line of one commit.
        """
        for _ in self._deepening([head], at_once=True):
            found = self._lines("rev-list", "-1", "--first-parent", f"--before={int(moment)}", head)
            if found:
                return found[0]
        if self._is_shallow():
            raise NotFound(f"The history before {head[:12]} is too long{self._too_shallow()}.")
        line = self._lines("rev-list", "--first-parent", head)
        return line[-1] if len(line) > 1 else None

    # ------------------------------------------------------------------------------ fetching

    def _fetched(self, name: str) -> Iterator[str]:
        """Fetch what a name may mean at the remote; give each local name that it has then."""
        if self._remote is None:
            return
        if full_sha(name):
            if self._fetch(1, [name]):
                yield name
            return
        short = re.sub(rf"^(?:refs/heads/|(?:refs/remotes/)?{re.escape(self._remote)}/)", "", name)
        places = {f"refs/heads/{short}": f"refs/remotes/{self._remote}/{short}"}
        if not name.startswith("refs/heads/"):
            places |= {tag: tag for tag in (f"refs/tags/{name.removeprefix('refs/tags/')}",)}
        if name.startswith("refs/") and name not in places:
            places = {name: f"refs/refcompare/{name.removeprefix('refs/')}"}
        for theirs, ours in places.items():
            if self._fetch(1, [f"+{theirs}:{ours}"]):
                yield ours

    def _deepening(self, tips: list[str], *, at_once: bool = False) -> Iterator[None]:
        """Give control back after each fetch of more history before ``tips``, until there is no more."""
        if at_once:
            yield
        for depth in self._depths:
            if not self._is_shallow():
                return
            self._say(f"Fetching {depth:,} commits of history")
            if not self._fetch(depth, [self._local(tip) or tip for tip in tips]):
                return
            yield

    def _fetch(self, depth: int, refspecs: list[str]) -> bool:
        """Fetch with this depth, in a full clone with its whole history; say whether that worked."""
        if self._remote is None:
            return False
        limit = [f"--depth={depth}"] if self._is_shallow() else []
        words = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", *limit]
        words += ["--", self._remote, *refspecs]
        done = self._git(*words)
        if done.returncode and self._may_use_token():
            done = self._git(*words, with_token=True)
        if done.returncode:
            # Which of several ways failed matters only where all do, and then the log tells.
            self._say(f"git fetch {' '.join(refspecs)}: {self._complaint(done)}")
        return done.returncode == 0

    def _may_use_token(self) -> bool:
        urls = self._lines("remote", "get-url", self._remote or "")
        return bool(self._token) and bool(urls) and urls[0].startswith(f"{self._server}/")

    def _is_shallow(self) -> bool:
        return self._lines("rev-parse", "--is-shallow-repository") == ["true"]

    def _too_shallow(self) -> str:
        return (
            ", as far as it was fetched: set `fetch-depth: 0` at actions/checkout"
            if self._is_shallow()
            else ""
        )

    # --------------------------------------------------------------------------------- git

    def _local(self, ref: str) -> str | None:
        found = self._lines("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        return found[0] if found else None

    def _lines(self, *words: str) -> list[str]:
        done = self._git(*words)
        return [] if done.returncode else done.stdout.decode("utf-8", "surrogateescape").split("\n")[:-1]

    def _git(self, *words: str, with_token: bool = False) -> subprocess.CompletedProcess[bytes]:
        environment = {
            **{name: value for name, value in os.environ.items() if name not in _SECRETS},
            "LC_ALL": "C",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_LAZY_FETCH": "1",
            **(self._credentials() if with_token else {}),
        }
        try:
            return subprocess.run(
                ["git", *_OPTIONS, *words],
                cwd=self._directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=FETCH_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise EnvironmentFailure(f"`git {words[0]}` took more than {FETCH_SECONDS} seconds.") from None
        except OSError as error:
            raise EnvironmentFailure(f"git could not be run: {error.strerror}.") from error

    def _credentials(self) -> dict[str, str]:
        """Give the variables that put the token, and no other credentials, into requests to the server."""
        count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
        basic = base64.b64encode(f"x-access-token:{self._token}".encode()).decode()
        # The empty value takes away what was set before: a server refuses two headers of the name.
        values = ("", f"AUTHORIZATION: basic {basic}")
        variables = {"GIT_CONFIG_COUNT": str(count + len(values))}
        for number, value in enumerate(values, count):
            variables[f"GIT_CONFIG_KEY_{number}"] = f"http.{self._server}/.extraheader"
            variables[f"GIT_CONFIG_VALUE_{number}"] = value
        return variables

    def _complaint(self, done: subprocess.CompletedProcess[bytes]) -> str:
        """Give git's reason in one line, without what an address may hold of a password."""
        lines = done.stderr.decode("utf-8", "replace").splitlines()
        told = [line for line in lines if line.startswith(("fatal: ", "error: "))] or lines or ["no reason"]
        said = _URL_USER.sub("", told[-1])
        return printable(said.replace(self._token, "***") if self._token else said)[:300]


def _split(ref: str) -> tuple[str, str]:
    """Split ``main~2`` into the name and what is to be found from there."""
    name = re.split(r"[~^]|@\{", ref, maxsplit=1)[0]
    return name, ref[len(name) :]
