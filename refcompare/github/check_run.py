"""A check run of its own on the head commit, with an annotation for each change.

The job's own log can annotate ten lines of each level; a check run can annotate all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from github import CheckRun

from refcompare.github.annotations import Annotation, Level
from refcompare.github.api import Client
from refcompare.report.escape import clip

PERMISSION = "checks: write"

PER_REQUEST = 50
"""How many annotations GitHub takes at once."""

MOST_ANNOTATIONS = 500
_SUMMARY_CHARACTERS = 65_535
_MESSAGE_BYTES = 64 * 1024
_TITLE_CHARACTERS = 255

_CONCLUSIONS = {"success": "success", "failure": "failure", "error": "failure", "skipped": "skipped"}
_LEVELS = {Level.ERROR: "failure", Level.WARNING: "warning", Level.NOTICE: "notice"}


def post_check_run(
    client: Client,
    repository: str,
    sha: str,
    *,
    name: str,
    conclusion: str,
    title: str,
    summary: str,
    annotations: Sequence[Annotation] = (),
) -> str:
    """Make a completed check run for a commit and give its page; the newest of a name is what counts.

    ``summary`` is Markdown. Raises Denied or GitHubFailure.
    """
    placed = [_annotation(item) for item in annotations if item.path][:MOST_ANNOTATIONS]
    batches = [placed[start : start + PER_REQUEST] for start in range(0, len(placed), PER_REQUEST)] or [[]]
    output = {"title": clip(title, 200), "summary": summary[:_SUMMARY_CHARACTERS]}
    what = "report a check run"

    def create() -> CheckRun.CheckRun:
        return client.repository(repository).create_check_run(
            name,
            sha,
            status="completed",
            conclusion=_CONCLUSIONS[conclusion],
            output={**output, "annotations": batches[0]},
        )

    run = client.call(what, create, PERMISSION)
    for batch in batches[1:]:
        more: dict[str, Any] = {**output, "annotations": batch}
        client.call(what, lambda more=more: run.edit(output=more), PERMISSION)  # type: ignore[misc]
    return run.html_url


def _annotation(item: Annotation) -> dict[str, str | int]:
    return {
        "path": item.path,
        "start_line": max(1, item.line),
        "end_line": max(1, item.line),
        "annotation_level": _LEVELS[item.level],
        "message": item.message.encode()[:_MESSAGE_BYTES].decode(errors="ignore") or "-",
        "title": item.title[:_TITLE_CHARACTERS],
    }
