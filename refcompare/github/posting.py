"""The steps that show results on GitHub. What GitHub refuses is said, and seldom fails the job."""

from __future__ import annotations

from collections.abc import Sequence

from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.github import annotations as beside
from refcompare.github import drift as drifting
from refcompare.github import page
from refcompare.github import publish as publishing
from refcompare.github.annotations import Annotation
from refcompare.github.api import GitHubFailure
from refcompare.github.check_run import post_check_run
from refcompare.github.comment import Posted, Thread, is_wanted
from refcompare.github.inputs import Inputs
from refcompare.github.job import Job, Outcome, new_directory
from refcompare.github.outputs import add_summary, set_outputs
from refcompare.github.step import (
    INTERRUPTED,
    Step,
    choice_of,
    current_job,
    ended,
    has_comparison,
    read_answer,
    run_comparison,
)
from refcompare.report.escape import marker
from refcompare.report.words import headline


def comment(report_url: str = "") -> int:
    """Post or update the comment on the pull request. A comment that can't be posted fails nothing."""
    step = Step.begin()
    job = current_job()
    outcome = ended(job)
    url = ""
    if job.pull is None:
        step.log.say("This event belongs to no pull request, so there is nothing to comment on.")
    elif job.inputs.comment != "never":
        url = _comment(step, job, job.pull, outcome, report_url or step.runner.run_url)
    set_outputs(step.runner.outputs, {"comment-url": url})
    return 0


def _comment(step: Step, job: Job, pull: int, outcome: Outcome, report_url: str) -> str:
    inputs, needed = job.inputs, True
    if has_comparison(job):
        answer = read_answer(job)
        body = page.comment(answer, inputs.key, report_url)
        needed = is_wanted(inputs.comment, answer.comparison, answer.gate)
    else:
        body = page.without_verdict(outcome.sentence, inputs.key, job.names, report_url)
    try:
        if not step.runner.token:
            raise GitHubFailure("there is no token to comment with; set the input github-token.")
        thread = Thread(step.client(), step.runner.repository, pull, marker(inputs.key))
        if job.reported is not None and thread.head() != job.reported:
            step.note(f"#{pull} has newer commits than {job.reported[:12]} by now, whose own run comments.")
            return ""
        posted = thread.post(body, inputs.comment_mode, needed=needed)
    except GitHubFailure as failure:
        step.warn(f"The comment could not be posted, and the job's summary has it instead: {failure}")
        return ""
    return _told(step, posted)


def _told(step: Step, posted: Posted) -> str:
    if posted.problem:
        step.warn(posted.problem)
    step.log.say(f"Comment {posted.how}: {posted.url}" if posted.url else f"Comment {posted.how}")
    return posted.url


def check_run(report_url: str = "") -> int:
    """Report a check run of its own. One that can't be reported fails nothing."""
    step = Step.begin()
    job = current_job()
    outcome = ended(job)
    if job.reported is None:
        step.log.say("There is no commit to report a check run for.")
        return 0
    title = outcome.sentence
    text = page.without_verdict(outcome.sentence, job.inputs.key, job.names, report_url)
    items: Sequence[Annotation] = ()
    if has_comparison(job):
        answer = read_answer(job)
        title, text = headline(answer.comparison), page.comment(answer, job.inputs.key, report_url)
        items = beside.annotate(answer.comparison, answer.gate)
    try:
        url = post_check_run(
            step.client(),
            step.runner.repository,
            job.reported,
            name="refcompare" if job.inputs.key == "default" else f"refcompare ({job.inputs.key})",
            conclusion=outcome.conclusion,
            title=title,
            summary=page.without_marker(text),
            annotations=items,
        )
    except GitHubFailure as failure:
        step.warn(f"The check run could not be reported: {failure}")
        return 0
    step.log.say(f"Check run: {url}")
    return 0


def publish() -> int:
    """Comment with what another workflow's run found.

    Results that can't be read fail the job, and so does a comment that can't be posted: there is nothing else
    that this job is for.
    """
    step = Step.begin()
    inputs = Inputs.from_environment()
    directory = new_directory(step.runner.temporary) / "results"
    try:
        told = publishing.publish(step.runner, inputs, step.client(), directory)
    except GitHubFailure as failure:
        step.fail(f"Nothing could be published: {failure}")
        return failure.exit_code
    if told.posted is None:
        step.note(told.reason)
    url = _told(step, told.posted) if told.posted else ""
    set_outputs(step.runner.outputs, {"comment-url": url})
    if told.problem:
        step.fail(told.problem)
        return UsageError.exit_code
    return 0


def drift() -> int:
    """Compare the branch with itself a week ago, and with the next WordPress; keep the one issue true.

    Drift does not fail the job: the issue says it. A comparison without a verdict does.
    """
    step = Step.begin()
    job = current_job()
    client = step.client()  # made while there is a token; what grades gets none
    with step.log.quoting():
        parts = _drift_parts(step, job)
    body = drifting.issue_body(parts, job.inputs.key, step.runner.run_url)
    drifted = any(part.drifted for part in parts)
    add_summary(step.runner.summary, page.without_marker(body))
    new = any(part.answer.new_verdicts for part in parts if part.answer)
    told = {"conclusion": "failure" if drifted else "success", "new-verdicts": "true" if new else "false"}
    set_outputs(step.runner.outputs, told)
    try:
        settled = drifting.settle_issue(client, step.runner.repository, job.inputs.key, body, drifted=drifted)
    except GitHubFailure as failure:
        step.fail(f"The issue on drift could not be kept, and the job's summary has it instead: {failure}")
        return 3
    step.log.say(f"Issue {settled.how}: {settled.url}" if settled.url else f"Issue {settled.how}")
    return 0


def _drift_parts(step: Step, job: Job) -> list[drifting.Part]:
    directory, choice = step.repository(job.inputs), choice_of(job.inputs)
    status, sentence = run_comparison(job, directory)
    if not has_comparison(job) or status == INTERRUPTED:
        failure = UsageError if status == 2 else EnvironmentFailure
        raise failure(sentence or "The comparison was stopped before its end.")
    week = read_answer(job)
    parts = [drifting.Part(f"{job.names.base} → {job.names.head}", week)]
    newest, pinned = drifting.newest_release(), drifting.pinned_release(directory, choice)
    if newest == pinned:
        note = f"Tests are graded on WordPress {newest}, which is the newest release."
        return [*parts, drifting.Part("The next WordPress", note=note)]
    runs = drifting.compare_releases(directory, job.head, choice, newest, fresh=job.inputs.fresh)
    answer = drifting.release_answer(runs, week.gate.fail_on, job.names.head)
    return [*parts, drifting.Part(f"WordPress {pinned} → {newest}", answer)]
