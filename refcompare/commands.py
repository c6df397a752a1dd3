"""What each command does: opens the two ends, calls the middle, prints. Gives the exit status."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from refcompare import check as checking
from refcompare import store
from refcompare.arms import Choice, Side, Workbench, open_workbench
from refcompare.cache import VerdictCache
from refcompare.changes import Comparison
from refcompare.compare import compare
from refcompare.config import Config
from refcompare.errors import UsageError
from refcompare.execution.bench import Memory
from refcompare.gate import GateResult, gate, parse_fail_on
from refcompare.metrics import TrialComparison
from refcompare.newest import newest_results, note_output
from refcompare.pipeline import Interrupted, Plan, begun, run_arms
from refcompare.progress import Reporter
from refcompare.report import arm as arm_report
from refcompare.report import json as json_report
from refcompare.report import markdown, terminal
from refcompare.report import trial as trial_report
from refcompare.report.interface import Options, Renderer
from refcompare.report.show import show, show_json
from refcompare.report.words import plural
from refcompare.results import REFERENCE, ErrorKind, Record, RunResult, Verdict
from refcompare.selection import Asked, Selection
from refcompare.suites import SuiteSet
from refcompare.wording import quoted

INTERRUPTED = 130

LONGEST_SECONDS = 3600
"""The most that one candidate may be given, as in ``refcompare.yml``."""

_RENDERERS: Mapping[str, Renderer] = {
    "table": terminal.render,
    "markdown": markdown.render,
    "json": json_report.render,
}


def compare_refs(start: Path, options: Mapping[str, Any], out: TextIO) -> int:
    """Compare two refs and print what changed."""
    asked = Asked.of(options)
    with open_workbench(start, _choice(options)) as workbench:
        sides = workbench.pair(options["base"], options["head"])
        plan = _plan(workbench.config, options, audit=True)
        if options["dry_run"]:
            if asked.agents:
                from refcompare import evaluation

                command = workbench.config.eval_command
                out.write(evaluation.dry_run(evaluation.prepare(sides, options, plan.jobs, command)))
            if asked.execution:
                _print_dry_run(sides, plan, out)
            return 0
        fail_on = (
            workbench.config.fail_on if options["fail_on"] is None else parse_fail_on(options["fail_on"])
        )
        runs: tuple[RunResult, ...] = ()
        trials, interrupted = TrialComparison(), False
        has_tests = any(side.suites.tests or side.suites.invalid for side in sides)
        if asked.execution and (has_tests or not asked.agents):
            runs, interrupted = _run(workbench, sides, plan, options)
        if asked.agents and not interrupted:
            runs, trials, interrupted = _run_agents(workbench, sides, plan, options, runs)
        comparison = replace(compare(*runs), trials=trials)
        result = gate(comparison, fail_on)
        write_comparison(options.get("output") or workbench.results_directory, comparison, result)
        print_comparison(options, comparison, result, out)
        return INTERRUPTED if interrupted else result.exit_code


def run_ref(start: Path, options: Mapping[str, Any], out: TextIO) -> int:
    """Grade the references of one ref; the status is 1 where one does not pass."""
    with open_workbench(start, _choice(options)) as workbench:
        side = workbench.single(options["ref"])
        plan = replace(_plan(workbench.config, options, audit=False), audit=False)
        [run], interrupted = _run(workbench, (side,), plan, options)
        if options["form"] == "json":
            out.write(json_report.render_run(run))
        elif options["form"] == "markdown":
            out.write(arm_report.render_run_markdown(run))
        else:
            out.write(arm_report.render_run(run, _render_options(out)))
        return INTERRUPTED if interrupted else _run_status(run)


def audit_ref(start: Path, options: Mapping[str, Any], out: TextIO) -> int:
    """Try to cheat every test of one ref; the status is 1 where a cheat passes."""
    with open_workbench(start, _choice(options)) as workbench:
        side = workbench.single(options["ref"])
        plan = replace(_plan(workbench.config, options, audit=True), audit=True)
        [run], interrupted = _run(workbench, (side,), plan, options)
        if options["form"] == "json":
            out.write(json_report.render_audit(run))
        else:
            out.write(arm_report.render_audit(run, _render_options(out)))
        if interrupted:
            return INTERRUPTED
        return 1 if any(audit.exploitable for audit in run.audits) else _environment_status(run)


def check_ref(
    start: Path, ref: str | None, suites: tuple[str, ...], config: Path | None, as_json: bool, out: TextIO
) -> int:
    """Validate the suites of a ref; the status is 1 where a finding is an error."""
    with open_workbench(start, Choice(config=config, suites=suites)) as workbench:
        tree = workbench.tree(ref)
        findings = checking.check_suites(tree, workbench.globs)
    if as_json:
        shown = [
            {
                "path": finding.path,
                "line": finding.line,
                "rule": finding.rule,
                "severity": finding.severity,
                "message": finding.message,
                "mend": finding.mend,
            }
            for finding in findings
        ]
        out.write(json.dumps({"findings": shown}, indent=2) + "\n")
    else:
        for finding in findings:
            where = f"{finding.path}:{finding.line}"
            out.write(f"{where}: {finding.severity}: {finding.message} [{finding.rule}]\n")
            if finding.mend:
                out.write(f"    {finding.mend}\n")
        errors = sum(finding.severity == "error" for finding in findings)
        warnings = len(findings) - errors
        counted = f"{plural(errors, 'error')}, {plural(warnings, 'warning')}"
        out.write(f"{counted}\n" if findings else "No findings.\n")
    return 1 if any(finding.severity == "error" for finding in findings) else 0


def show_test(
    start: Path, test_id: str, results: Path | None, as_json: bool, out: TextIO, trial: int | None = None
) -> int:
    """Show all that is known of one test, or of one eval and its trials."""
    with open_workbench(start, Choice()) as workbench:
        directory = results or newest_results(workbench.kept_results)
        names = [name for name in ("base", "head") if (directory / name / store.RUN).is_file()]
        if not names:
            raise UsageError(
                f"There are no results in {directory}: compare two refs first, "
                "or give --results a directory that --output wrote."
            )
        trials = trial_report.find(test_id, {name: store.read_trials(directory, name) for name in names})
        if trials:
            _show_trials(test_id, trial, trials, as_json, out)
            return 0
        if trial is not None:
            raise UsageError(f"--trial is about agents, and these results have no eval {quoted(test_id)}.")
        runs = [store.read_run(directory, name) for name in names]
        definitions = {
            run.arm.name: found
            for run in runs
            if (found := workbench.definition(run.arm, test_id)) is not None
        }
    if as_json:
        out.write(show_json(test_id, runs, definitions))
    else:
        out.write(show(test_id, runs, definitions, _render_options(out)))
    return 0


def _show_trials(
    name: str, number: int | None, trials: trial_report.Trials, as_json: bool, out: TextIO
) -> None:
    if as_json:
        out.write(trial_report.trials_json(name, number, trials))
    elif number is None:
        out.write(trial_report.show_eval(name, trials, _render_options(out)))
    else:
        out.write(trial_report.show_trial(name, number, trials, _render_options(out)))


def run_doctor(as_json: bool, out: TextIO) -> int:
    """Say what is installed; the status is 3 where grading can't work."""
    from refcompare import doctor

    results = doctor.diagnose()
    if as_json:
        out.write(json.dumps(doctor.render_json(results), indent=2) + "\n")
    else:
        out.write(doctor.render_text(results) + "\n")
    return 0 if doctor.ready(results) else 3


def probe_sandbox(as_json: bool, out: TextIO) -> int:
    """Try the boundary around agents; the status is 3 where a layer of it does not hold."""
    from refcompare.agents.boundary import find_boundary
    from refcompare.agents.probes import holds, probes, probes_value, render_probes

    results = probes(find_boundary())
    out.write(json.dumps(probes_value(results), indent=2) if as_json else render_probes(results))
    out.write("\n")
    return 0 if holds(results) else 3


def run_demo(options: Mapping[str, Any], out: TextIO) -> int:
    """Build the demo's repository and compare its two commits; with ``agent``, the one about guidance."""
    from refcompare.demo import build_repository
    from refcompare.demo.guidance import build_guidance_repository

    keep: Path | None = options["keep"]
    scratch = Path(tempfile.mkdtemp(prefix="refcompare-demo-"))
    try:
        place = keep or scratch / "repository"
        base, head = build_guidance_repository(place) if options["agent"] else build_repository(place)
        who = {"only": "agent", "agent": ("scripted",)} if options["agent"] else {"agent": ()}
        chosen = {**_NO_CHOICE, **options, **who, "base": base, "head": head}
        status = compare_refs(place, chosen, out)
        return 0 if status == 1 else status
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


_NO_CHOICE: Mapping[str, Any] = {
    "config": None, "suites": (), "suite": (), "category": (), "test_id": (), "limit": None,
    "changed": False, "wordpress": None, "runtime": None, "grader": "installed", "audit": None,
    "exhaustive": None, "mutants": None, "seed": None, "confirm": None, "fail_on": None,
    "dry_run": False, "form": "table",
}  # fmt: skip


def fetch_wordpress(release: str | None, quiet: bool, out: TextIO) -> int:
    """Fetch a release and install it once."""
    from refcompare.wordpress.php import find_php
    from refcompare.wordpress.releases import ensure_release
    from refcompare.wordpress.site import ensure_site

    with Reporter(quiet=quiet) as reporter:
        fetched = ensure_release(release, progress=reporter.say)
        site = ensure_site(fetched, find_php(), progress=reporter.say)
    out.write(f"{site.root}\n" if quiet else f"WordPress {fetched.version} is installed in {site.root}\n")
    return 0


def list_wordpress(as_json: bool, out: TextIO) -> int:
    """List what has been fetched."""
    from refcompare.wordpress.releases import list_releases

    releases = list_releases()
    if as_json:
        shown = [
            {
                "version": release.version,
                "source": release.source,
                "path": str(release.core),
                "digest": release.digest,
            }
            for release in releases
        ]
        out.write(json.dumps({"releases": shown}, indent=2) + "\n")
    elif not releases:
        out.write("No release has been fetched: run `refcompare wordpress fetch`.\n")
    for release in () if as_json else releases:
        out.write(f"{release.version}  {release.source}  {release.core}\n")
    return 0


def wordpress_directory(release: str | None, out: TextIO) -> int:
    """Print where a release lies."""
    from refcompare.wordpress.releases import ensure_release

    with Reporter() as reporter:
        out.write(f"{ensure_release(release, progress=reporter.say).core}\n")
    return 0


def build_image(
    release: str | None, base: str | None, php: str | None, fresh: bool, quiet: bool, out: TextIO
) -> int:
    """Build a worker image, unless the engine has it."""
    from refcompare.wordpress.graders import installed_grader
    from refcompare.wordpress.image import DEFAULT_BASE, ensure_image
    from refcompare.wordpress.php import find_php
    from refcompare.wordpress.releases import ensure_release
    from refcompare.wordpress.site import ensure_site

    with Reporter(quiet=quiet) as reporter:
        site = ensure_site(ensure_release(release, progress=reporter.say), find_php(), progress=reporter.say)
        image = ensure_image(
            site,
            installed_grader(),
            base=base or DEFAULT_BASE,
            php=php,
            progress=reporter.say,
            fresh=fresh,
        )
    found = image.environment
    described = f"  WordPress {found.wordpress}, PHP {found.php}, SQLite {found.sqlite}"
    out.write(f"{image.reference}{'' if quiet else described}\n")
    return 0


def list_worker_images(out: TextIO) -> int:
    """List the worker images that the engine has."""
    from refcompare.wordpress.image import list_images

    images = list_images()
    for image in images:
        found = image.environment
        out.write(f"{image.reference}  WordPress {found.wordpress}, PHP {found.php}, SQLite {found.sqlite}\n")
    if not images:
        out.write("There is no worker image: run `refcompare wordpress image build`.\n")
    return 0


def _choice(options: Mapping[str, Any]) -> Choice:
    selection = Selection(
        suites=tuple(options["suite"]),
        categories=tuple(options["category"]),
        test_ids=tuple(options["test_id"]),
        limit=options["limit"],
        changed=options.get("changed", False),
    )
    return Choice(
        config=options["config"],
        suites=tuple(options["suites"]),
        # Where no test is run, a suite may have agent evals alone.
        selection=Selection() if options.get("only") == "agent" else selection,
        wordpress=options["wordpress"],
        runtime=options["runtime"],
        grader=options["grader"],
    )


def processors() -> int:
    """Give the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _plan(config: Config, options: Mapping[str, Any], *, audit: bool) -> Plan:
    """Join the command line with the configuration: what is typed wins."""

    def typed(name: str, otherwise: Any) -> Any:
        value = options.get(name)
        return otherwise if value is None else value

    timeout = options["timeout"]
    if timeout is not None and not 0 < timeout <= LONGEST_SECONDS:
        raise UsageError(
            f"--timeout is {timeout:g}; give a number of seconds above 0, at most {LONGEST_SECONDS:,}."
        )
    return Plan(
        limits=config.limits if timeout is None else replace(config.limits, seconds=timeout),
        jobs=typed("jobs", config.jobs or processors()),
        confirm=typed("confirm", config.confirm),
        audit=audit and typed("audit", config.audit.enabled),
        exhaustive=typed("exhaustive", config.audit.exhaustive),
        mutants=typed("mutants", config.audit.mutants),
        seed=typed("seed", config.audit.seed),
        fresh=options["fresh"],
    )


def _run_agents(
    workbench: Workbench,
    sides: tuple[Side, Side],
    plan: Plan,
    options: Mapping[str, Any],
    runs: tuple[RunResult, ...],
) -> tuple[tuple[RunResult, ...], TrialComparison, bool]:
    """Run the agent evals of both arms, and give the arms' runs, made anew where no test was graded."""
    from refcompare import evaluation

    prepared = evaluation.prepare(sides, options, plan.jobs, workbench.config.eval_command)
    directory = options.get("output") or workbench.results_directory
    started = time.monotonic()
    with Reporter(quiet=options["quiet"]) as reporter:
        if not runs:
            store.clear(directory)
            note_output(workbench.kept_results, options.get("output"))
            runs = tuple(RunResult(side.arm, (), (), notes=workbench.notes) for side in sides)
        trials, interrupted = evaluation.run_evals(
            prepared,
            directory=directory,
            runtime=lambda: workbench.runtime(reporter.say),
            reporter=reporter,
        )
    seconds = time.monotonic() - started
    runs = tuple(
        replace(run, seconds=round(run.seconds + seconds, 3), partial=run.partial or interrupted)
        for run in runs
    )
    for run in runs:
        store.write_run(directory, run)
    return runs, trials, interrupted


def _run(
    workbench: Workbench, sides: tuple[Side, ...], plan: Plan, options: Mapping[str, Any]
) -> tuple[tuple[RunResult, ...], bool]:
    """Run the arms, writing every record as it comes; say whether the run was interrupted."""
    directory = options.get("output") or workbench.results_directory
    if not any(side.suites.tests or side.suites.invalid for side in sides):
        if not (options.get("changed") and any(side.found for side in sides)):
            raise UsageError(_nothing_found(workbench.globs, sides))
        return _nothing_changed(sides, directory, workbench, options), False
    with Reporter(quiet=options["quiet"]) as reporter, VerdictCache() as cache:
        for note in workbench.notes:
            reporter.say(note)
        arms = workbench.inputs(sides, reporter.say)
        store.clear(directory)
        note_output(workbench.kept_results, options.get("output"))
        writers = {arm.arm.name: store.RecordWriter(directory, begun(arm, plan)) for arm in arms}
        listener = _Recording(reporter, writers)
        try:
            runs, interrupted = run_arms(arms, plan, Memory(cache, fresh=plan.fresh), listener), False
        except Interrupted as stopped:
            runs, interrupted = stopped.results, True
            reporter.say("stopped: what there is so far is kept, marked partial")
        finally:
            for writer in writers.values():
                writer.close()
        for run in runs:
            writers[run.arm.name].finish(run)
        cache.prune()
        if problem := cache.stats().problem:
            reporter.say(f"verdicts are not kept for the next run: {problem}")
    return runs, interrupted


def _nothing_changed(
    sides: tuple[Side, ...], directory: Path, workbench: Workbench, options: Mapping[str, Any]
) -> tuple[RunResult, ...]:
    """Write and give what ``--changed`` finds where no test differs: nothing, and no need of WordPress."""
    store.clear(directory)
    note_output(workbench.kept_results, options.get("output"))
    notes = (*workbench.notes, "no test has a definition that differs between the refs (--changed)")
    runs = tuple(RunResult(side.arm, (), (), notes=notes) for side in sides)
    for run in runs:
        store.write_run(directory, run)
    return runs


class _Recording:
    """Tells the reporter what happens, and puts every record down at once."""

    def __init__(self, reporter: Reporter, writers: Mapping[str, store.RecordWriter]) -> None:
        self._writers = writers
        self.begin = reporter.begin
        self.advance = reporter.advance
        self._count = reporter.recorded

    def recorded(self, arm: str, record: Record) -> None:
        self._writers[arm].append(record)
        self._count(arm, record)


def _run_status(run: RunResult) -> int:
    """Give 1 where a reference does not pass, 3 where nothing could be graded."""
    failed = any(
        record.candidate == REFERENCE and record.verdict is not Verdict.PASS for record in run.records
    )
    return _environment_status(run) or int(failed)


def _environment_status(run: RunResult) -> int:
    ungraded = [record for record in run.records if record.error_kind is ErrorKind.INFRASTRUCTURE]
    return 3 if ungraded and len(ungraded) == len(run.records) else 0


def _nothing_found(globs: Sequence[str], sides: tuple[Side, ...]) -> str:
    if any(side.suites.notes for side in sides):
        notes = dict.fromkeys(note for side in sides for note in side.suites.notes)
        return f"No test is left to run: {' '.join(notes)}"
    labels = dict.fromkeys(side.tree.ref.label for side in sides)
    return (
        f"No test was found at {', '.join(globs)} in {' or '.join(labels)}: "
        "give --suites GLOB, or `suites:` in refcompare.yml."
    )


def write_comparison(directory: Path, comparison: Comparison, result: GateResult) -> None:
    """Write a comparison beside the results of its arms, for scripts and as a comment."""
    store.write_text(directory, store.COMPARISON, json_report.render(comparison, result))
    store.write_text(directory, store.COMMENT, markdown.render(comparison, result))


def print_comparison(
    options: Mapping[str, Any], comparison: Comparison, result: GateResult, out: TextIO
) -> None:
    """Print a comparison in the format that was asked for."""
    out.write(_RENDERERS[options["form"]](comparison, result, _render_options(out)))


def _render_options(out: TextIO) -> Options:
    terminal_like = out.isatty()
    width = shutil.get_terminal_size((100, 40)).columns if terminal_like else 100
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return Options(width=width, colour=terminal_like and not plain)


def _print_dry_run(sides: tuple[Side, Side], plan: Plan, out: TextIO) -> None:
    """Say what would run on each arm."""
    for side in sides:
        suites: SuiteSet = side.suites
        out.write(f"{side.name}: {side.tree.ref.label}: {len(suites.tests)} tests")
        out.write(f", {len(suites.invalid)} invalid\n" if suites.invalid else "\n")
        for test in suites.tests:
            out.write(f"  {test.id}  {test.path}:{test.line}\n")
        for invalid in suites.invalid:
            out.write(f"  {invalid.id}  {invalid.path}:{invalid.line}  invalid: {invalid.reason}\n")
    out.write("audit: yes\n" if plan.audit else "audit: no\n")
    out.write(f"limit: {plan.limits.seconds:g} s a candidate, jobs: {plan.jobs}\n")
