"""The steps that compare. Each reads what the one before it left, and gives an exit status."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

from refcompare.arms import open_workbench
from refcompare.changes import ChangeKind
from refcompare.github import annotations as beside
from refcompare.github import page
from refcompare.github.event import Nothing, request
from refcompare.github.fetch import Checkout, resolve
from refcompare.github.inputs import Inputs
from refcompare.github.job import Job, Outcome, new_directory, save_outcome
from refcompare.github.outputs import add_summary, room_for_summary, set_outputs
from refcompare.github.page import Answer, Names
from refcompare.github.setup import cache_keys, prepare_machine
from refcompare.github.setup import publish_image as push_image
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
from refcompare.paths import cache_directory
from refcompare.report.escape import code


def prepare() -> int:
    """Find out what the event asks for, fetch it, and tell the steps that follow."""
    step = Step.begin()
    inputs, runner = Inputs.from_environment(), step.runner
    now = time.time()
    directory = new_directory(runner.temporary)
    told = {
        "ready": "false",
        "conclusion": "skipped",
        "state": str(directory),
        "cache": str(cache_directory()),
        "artifact": inputs.artifact_name,
        **cache_keys(
            inputs.runtime,
            inputs.wordpress,
            run=f"{runner.run_id}-{runner.run_attempt}",
            day=datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d"),
        ),
    }
    wanted = request(runner, inputs.base, inputs.head, weekly=inputs.mode == "drift")
    if isinstance(wanted, Nothing):
        step.note(wanted.reason)
        set_outputs(runner.outputs, told)
        return 0
    place = step.repository(inputs)
    checkout = Checkout(place, token=runner.token, server_url=runner.server_url, say=step.log.say)
    found = resolve(wanted, checkout, now)
    if found is None:
        step.note("This commit has nothing before it to be compared with.")
        set_outputs(runner.outputs, told)
        return 0
    names = Names(wanted.base_name, wanted.head_name)
    job = Job(directory, inputs, found.base, found.head, names, wanted.pull, wanted.reported)
    job.save()
    step.log.say(f"Comparing {found.base[:12]} ({names.base}) with {found.head[:12]} ({names.head})")
    set_outputs(runner.outputs, told | {"ready": "true", "conclusion": "", "results": str(job.results)})
    return 0


def setup() -> int:
    """Make this machine able to grade."""
    step = Step.begin()
    job = current_job()
    inputs, choice = job.inputs, choice_of(job.inputs)
    with step.log.quoting():
        with open_workbench(step.repository(inputs), choice) as workbench:
            workbench.judge_by(workbench.tree(job.base), workbench.tree(job.head))
            wordpress = choice.wordpress or workbench.config.wordpress
        prepare_machine(inputs.runtime, wordpress, inputs.image_repository, step.log.say)
    return 0


def compare() -> int:
    """Compare, annotate, and write the summary and the outputs.

    The status is 0 whatever was found, so that the steps that show it run; ``conclude`` gives the gate's.
    """
    step = Step.begin()
    job = current_job()
    with step.log.quoting():
        status, sentence = run_comparison(job, step.repository(job.inputs))
    answer = read_answer(job) if not sentence and has_comparison(job) else None
    if answer is None:
        outcome = Outcome("error", sentence or "The comparison was stopped before its end.", status or 3)
        text = page.without_verdict(outcome.sentence, job.inputs.key, job.names)
        add_summary(step.runner.summary, page.without_marker(text))
    else:
        outcome = Outcome(answer.gate.conclusion, answer.gate.sentence, status)
        _show(step, answer)
    save_outcome(job.results, outcome)
    set_outputs(step.runner.outputs, _outputs(job, outcome, answer))
    return INTERRUPTED if status == INTERRUPTED else 0


def _show(step: Step, answer: Answer) -> None:
    """Annotate as much as GitHub shows, and put everything into the summary."""
    items = beside.annotate(answer.comparison, answer.gate)
    kept = beside.shown(items)
    for item in kept:
        step.log.tell(item.level, item.message, **item.properties)
    rest = beside.left_out(items, kept)
    if rest:
        step.log.say(rest)
    text = page.summary(answer, room_for_summary(step.runner.summary) - len(rest) - 2)
    add_summary(step.runner.summary, f"{text}\n{rest}" if rest else text)


def _outputs(job: Job, outcome: Outcome, answer: Answer | None) -> dict[str, str]:
    def count(kind: ChangeKind) -> str:
        return str(answer.count(kind)) if answer else "0"

    return {
        "conclusion": outcome.conclusion,
        "regressed": count(ChangeKind.REGRESSED),
        "fixed": count(ChangeKind.FIXED),
        "newly-exploitable": count(ChangeKind.NEWLY_EXPLOITABLE),
        "report": str(job.results),
        "new-verdicts": "true" if answer and answer.new_verdicts else "false",
    }


def publish_image() -> int:
    """Build the worker image and publish it where IMAGE_REPOSITORY says, with the step's token."""
    step = Step.begin()
    user = os.environ.get("GITHUB_ACTOR", "")
    repository = os.environ.get("IMAGE_REPOSITORY", "")
    published = push_image(repository, user, step.runner.token, step.log.say)
    add_summary(step.runner.summary, f"Published {code(published)}")
    return 0


def conclude() -> int:
    """Give the comparison's exit status, after everything else was done."""
    step = Step.begin()
    outcome = ended(current_job())
    level = "error" if outcome.exit_code else "notice"
    step.log.tell(level, outcome.sentence, title="refcompare")
    return outcome.exit_code
