"""What a GitHub runner tells a step: its event, its places, its files. Read once, as a value."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refcompare.errors import UsageError
from refcompare.wording import printable

LARGEST_EVENT = 64 * 1024 * 1024
"""Bytes above which an event file is not read."""

NO_COMMIT = "0" * 40
"""What an event has in the place of a commit that does not exist."""

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REPOSITORY = re.compile(r"[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True, slots=True)
class Event:
    """Why a workflow runs: the event's ``name`` and what GitHub says of it in ``payload``.

    ``sha`` and ``ref`` are GITHUB_SHA and GITHUB_REF. Names and titles in the payload were chosen by
    whoever opened the pull request.
    """

    name: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    sha: str = ""
    ref: str = ""

    def text(self, *path: str) -> str:
        """Give the string at a path such as ``("pull_request", "head", "sha")``, or an empty one."""
        found = self._at(path)
        return found if isinstance(found, str) else ""

    def number(self, *path: str) -> int | None:
        """Give the positive whole number at a path."""
        found = self._at(path)
        return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None

    def flag(self, *path: str) -> bool:
        """Say whether there is a true at a path."""
        return self._at(path) is True

    def commit(self, *path: str) -> str | None:
        """Give the full SHA at a path; None where there is none, or only zeros."""
        return full_sha(self.text(*path))

    def _at(self, path: tuple[str, ...]) -> object:
        found: object = self.payload
        for key in path:
            if not isinstance(found, Mapping):
                return None
            found = found.get(key)
        return found


def full_sha(text: str) -> str | None:
    """Give ``text`` if it is the full id of a commit that exists."""
    return text if _SHA.fullmatch(text) and text.strip("0") else None


@dataclass(frozen=True, slots=True)
class Runner:
    """One job's surroundings. ``token`` may be empty; it is never shown.

    ``workspace`` is where the repository is checked out, ``temporary`` a directory that lives as
    long as the job. ``outputs`` and ``summary`` are the files that a step writes to, None where
    nobody reads them.
    """

    event: Event
    repository: str
    workspace: Path
    temporary: Path
    outputs: Path | None = None
    summary: Path | None = None
    api_url: str = "https://api.github.com"
    server_url: str = "https://github.com"
    run_id: str = ""
    run_attempt: str = "1"
    token: str = field(default="", repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Runner:
        """Read the variables that GitHub sets. Raises UsageError outside of a workflow."""
        repository = environment.get("GITHUB_REPOSITORY", "")
        if not _REPOSITORY.fullmatch(repository):
            raise UsageError(
                "This is a step of the GitHub Action, and GITHUB_REPOSITORY names no repository here: "
                "use `refcompare BASE HEAD` outside of a workflow."
            )
        default = cls(Event(""), "", Path(), Path())
        return cls(
            event=Event(
                environment.get("GITHUB_EVENT_NAME", ""),
                _payload(environment.get("GITHUB_EVENT_PATH", "")),
                environment.get("GITHUB_SHA", ""),
                environment.get("GITHUB_REF", ""),
            ),
            repository=repository,
            workspace=Path(environment.get("GITHUB_WORKSPACE") or "."),
            temporary=Path(environment.get("RUNNER_TEMP") or tempfile.gettempdir()),
            outputs=_file(environment, "GITHUB_OUTPUT"),
            summary=_file(environment, "GITHUB_STEP_SUMMARY"),
            api_url=_url(environment, "GITHUB_API_URL", default.api_url),
            server_url=_url(environment, "GITHUB_SERVER_URL", default.server_url),
            run_id=environment.get("GITHUB_RUN_ID", ""),
            run_attempt=environment.get("GITHUB_RUN_ATTEMPT", "1"),
            token=environment.get("GITHUB_TOKEN", ""),
        )

    @property
    def run_url(self) -> str:
        """The page of this workflow run."""
        return f"{self.server_url}/{self.repository}/actions/runs/{self.run_id}"

    @property
    def default_branch(self) -> str:
        """The repository's default branch, as the event says; empty where it does not."""
        return self.event.text("repository", "default_branch")


def _file(environment: Mapping[str, str], name: str) -> Path | None:
    return Path(environment[name]) if environment.get(name) else None


def _url(environment: Mapping[str, str], name: str, default: str) -> str:
    url = (environment.get(name) or default).rstrip("/")
    if not url.startswith(("https://", "http://")):
        raise UsageError(f"{name} is {printable(url)!r}; it has to be an http or https address.")
    return url


def _payload(path: str) -> Mapping[str, Any]:
    """Read the event; a runner of another make may give none."""
    if not path:
        return {}
    try:
        with Path(path).open("rb") as file:
            text = file.read(LARGEST_EVENT + 1)
        value = json.loads(text) if len(text) <= LARGEST_EVENT else None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"GITHUB_EVENT_PATH leads to {printable(path)}, which can't be read: {error}."
        ) from error
    if not isinstance(value, dict):
        raise UsageError(f"GITHUB_EVENT_PATH leads to {printable(path)}, which holds no event.")
    return value
