"""``refcompare action …``: one command for each step of the GitHub Action, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from refcompare.errors import RefcompareError


@click.group()
def action() -> None:
    """Run the steps of the GitHub Action; each reads what a runner's environment says.

    \b
    refcompare action prepare
    """


@action.command()
def prepare() -> None:
    """Find the two refs that the event is about, and fetch what a shallow checkout lacks of them.

    \b
    refcompare action prepare
    """
    from refcompare.github import steps

    _end(steps.prepare)


@action.command()
def setup() -> None:
    """Make this machine able to grade: a worker image, or PHP and a sandbox.

    \b
    REFCOMPARE_STATE=DIR refcompare action setup
    """
    from refcompare.github import steps

    _end(steps.setup)


@action.command()
def compare() -> None:
    """Compare, annotate the tests that changed, write the job's summary and the outputs.

    \b
    REFCOMPARE_STATE=DIR refcompare action compare
    """
    from refcompare.github import steps

    _end(steps.compare)


@action.command()
@click.option("--report-url", default="", envvar="REPORT_URL", help="Where the full report is.")
def comment(report_url: str) -> None:
    """Post the comment on the pull request, or bring it up to date.

    \b
    REFCOMPARE_STATE=DIR refcompare action comment
    """
    from refcompare.github import posting

    _end(posting.comment, report_url)


@action.command("check-run")
@click.option("--report-url", default="", envvar="REPORT_URL", help="Where the full report is.")
def check_run(report_url: str) -> None:
    """Report a check run of its own, with an annotation for every change.

    \b
    REFCOMPARE_STATE=DIR refcompare action check-run
    """
    from refcompare.github import posting

    _end(posting.check_run, report_url)


@action.command()
def conclude() -> None:
    """Give the comparison's exit status.

    \b
    REFCOMPARE_STATE=DIR refcompare action conclude
    """
    from refcompare.github import steps

    _end(steps.conclude)


@action.command()
def publish() -> None:
    """Comment on a pull request with what its own, unprivileged run found (on workflow_run).

    \b
    refcompare action publish
    """
    from refcompare.github import posting

    _end(posting.publish)


@action.command()
def drift() -> None:
    """Compare with a week ago and with the next WordPress, and keep one issue that says so.

    \b
    REFCOMPARE_STATE=DIR refcompare action drift
    """
    from refcompare.github import posting

    _end(posting.drift)


@action.command("publish-image")
def publish_image() -> None:
    """Build the worker image and publish it, for the action to pull instead of building it.

    \b
    IMAGE_REPOSITORY=HOST/OWNER/refcompare-worker refcompare action publish-image
    """
    from refcompare.github import steps

    _end(steps.publish_image)


def _end(step: Callable[..., int], *arguments: Any) -> None:
    """Run a step; a failure is shown where GitHub shows errors, whatever its sentence holds."""
    from refcompare.github.outputs import Log

    try:
        status = step(*arguments)
    except RefcompareError as error:
        Log().tell("error", str(error), title="refcompare")
        status = error.exit_code
    sys.stdout.flush()
    raise SystemExit(status)
