"""``refcompare check``: holds suites to their rules, and mends what can be mended without thinking."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from refcompare.agents.evals import EVAL_GLOBS
from refcompare.arms import Choice, ResolvedTree, Workbench, open_workbench
from refcompare.commands.running import processors
from refcompare.errors import EnvironmentFailure, UnknownRef, UsageError
from refcompare.git import WORKTREE
from refcompare.github import findings as github_report
from refcompare.progress import Reporter
from refcompare.report import findings as report
from refcompare.results import Record
from refcompare.rules import BY_NAME, Checked, Chosen, Finding, Suites, check, choose
from refcompare.rules.fixing import MOST_ROUNDS, mend
from refcompare.rules.state import leftovers
from refcompare.wording import printable, quoted
from refcompare.wordpress.releases import ensure_release, find_release
from refcompare.wordpress.symbols import Symbols, symbols_of

_RENDERERS: Mapping[str, Callable[[Checked, int], str]] = {
    "text": report.render,
    "json": report.render_json,
    "github": github_report.render,
}


def check_ref(start: Path, options: Mapping[str, Any], out: TextIO) -> int:
    """Check the suites of a ref; the status is 1 where a finding is an error, or, if strict, anything."""
    choice = Choice(
        config=options["config"],
        suites=tuple(options["suites"]),
        wordpress=options["wordpress"],
        runtime=options["runtime"],
    )
    with open_workbench(start, choice) as workbench, Reporter(quiet=options["quiet"]) as reporter:
        chosen = choose(options["rule"], {*options["ignore"], *workbench.config.check.ignore})
        words = _words(workbench, start, options["words"], options["ref"])
        if options["fix"] and words.ref not in (None, WORKTREE):
            raise UsageError(
                f"--fix edits the files as they lie, not {quoted(words.ref or '')}: leave the ref out."
            )
        task = _Task(workbench, words, chosen, options, reporter)
        checked, mended, refused = task.run()
    for sentence in refused:
        reporter.say(sentence)
    out.write(_RENDERERS[options["form"]](checked, mended))
    return int(checked.errors > 0 or (options["strict"] and bool(checked.findings)))


@dataclass(frozen=True, slots=True)
class _Words:
    """What is checked: a ref, None for the files as they lie, and paths in it, none for all."""

    ref: str | None
    paths: tuple[str, ...]


def _words(workbench: Workbench, start: Path, words: Sequence[str], ref: str | None) -> _Words:
    """Tell paths from a ref: beside ``--ref`` every word is a path, else one that is there on the disk."""
    paths: list[str] = []
    named = ref
    for word in words:
        if not word:
            raise UsageError("PATH is empty; name a ref or a path, or leave the word out.")
        if ref is not None or _exists(start / word):
            paths.append(_relative(workbench, start, word))
        elif named is None:
            named = word
        else:
            raise UsageError(
                f"There is no file or folder {quoted(word)}, and {quoted(named)} is taken for the ref to "
                "check: one ref can be checked at a time."
            )
    return _Words(named, tuple(dict.fromkeys(paths)))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _relative(workbench: Workbench, start: Path, word: str) -> str:
    """Give a path relative to the tree's root. Raises UsageError for one outside of it."""
    root = workbench.repository.root
    place = (start / word).absolute()
    inside = place.parent.resolve() / place.name if place.name != ".." else place.resolve()
    if root is None or inside == root.resolve():
        return word.strip("/") if root is None else ""
    try:
        return inside.relative_to(root.resolve()).as_posix()
    except ValueError:
        raise UsageError(
            f"{printable(word)} is outside of the repository at {printable(str(root))}."
        ) from None


class _Task:
    """One check from its words to its findings."""

    def __init__(
        self,
        workbench: Workbench,
        words: _Words,
        chosen: Chosen,
        options: Mapping[str, Any],
        reporter: Reporter,
    ) -> None:
        self._workbench = workbench
        self._words = words
        self._chosen = chosen
        self._options = options
        self._reporter = reporter
        self._symbols = self._release_symbols()

    def run(self) -> tuple[Checked, int, tuple[str, ...]]:
        """Give what was found, how many findings were mended, and which files were left as they are."""
        mended = 0
        refused: tuple[str, ...] = ()
        suites = self._suites()
        if self._options["fix"]:
            mended, refused = self._mend(suites)
            suites = self._suites()
        measured = self._measure(suites) if self._options["run"] else None
        return self._selected(suites, check(suites, self._chosen, measured)), mended, refused

    def _suites(self) -> Suites:
        try:
            tree = self._workbench.tree(self._words.ref)
        except UnknownRef as error:
            if self._options["ref"] is not None:
                raise
            raise UsageError(f"{error} No file or folder has that name either.") from None
        globs, eval_globs = self._globs(tree)
        return Suites(tree, globs, self._symbols, eval_globs)

    def _globs(self, tree: ResolvedTree) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Give where suites and evals lie: where the settings say, and what was named itself.

        Files that were not named are read too, since a prompt may be that of a test in another file.
        """
        named = set(self._words.paths).intersection(file.path for file in tree.files())
        evals = tuple(sorted(path for path in named if path.endswith((".yaml", ".yml"))))
        return (
            (*self._workbench.globs, *sorted(named.difference(evals))),
            (*EVAL_GLOBS, *evals),
        )

    def _selected(self, suites: Suites, checked: Checked) -> Checked:
        """Leave out what is about other paths than those that were named."""
        if not self._words.paths:
            return checked
        return replace(
            checked,
            findings=tuple(item for item in checked.findings if self._is_named(item.path)),
            tests=sum(len(file.tests) for file in suites.files if self._is_named(file.path)),
            evals=sum(self._is_named(item.path) for item in suites.evals.evals),
        )

    def _is_named(self, path: str) -> bool:
        paths = self._words.paths
        return not paths or any(_covers(outer, path) for outer in paths)

    def _mend(self, suites: Suites) -> tuple[int, tuple[str, ...]]:
        """Edit and check again until nothing is left to edit."""
        root = self._workbench.repository.root
        if root is None:
            raise UsageError("--fix needs a working tree, and this repository has none.")
        count = 0
        refused: tuple[str, ...] = ()
        for _ in range(MOST_ROUNDS):
            found = self._selected(suites, check(suites, self._chosen))
            done = mend(root, suites, found.findings)
            count, refused = count + len(done.findings), done.refused
            if not done.findings:
                break
            suites = self._suites()
        return count, refused

    def _release_symbols(self) -> Symbols | None:
        """Give what the release defines, if it is here: a check fetches nothing but to run tests.

        Where nothing asks for it, a cache that cannot be had is no reason not to check the rest.
        """
        needed = {BY_NAME[name].needs: name for name in self._chosen.only}
        if self._options["run"]:
            return symbols_of(ensure_release(self._asked, progress=self._reporter.say), self._reporter.say)
        if "run" in needed:
            raise UsageError(f"The rule {quoted(needed['run'])} runs the tests: give --run.")
        try:
            release = find_release(self._asked)
            if release is not None:
                return symbols_of(release, self._reporter.say)
        except EnvironmentFailure as failure:
            self._reporter.say(f"the source of WordPress cannot be read: {failure}")
        if "release" in needed:
            fetch = " ".join(filter(None, ("refcompare wordpress fetch", self._asked)))
            raise EnvironmentFailure(
                f"The rule {quoted(needed['release'])} reads the source of WordPress, which is not in the "
                f"cache: run `{printable(fetch)}`."
            )
        return None

    @property
    def _asked(self) -> str | None:
        """The release that was asked for; None for the pinned one."""
        return self._options["wordpress"] or self._workbench.config.wordpress

    def _measure(self, suites: Suites) -> Iterator[Finding]:
        """Run the tests that were named, and give what they leave on the site."""
        subjects = [subject for subject in suites.subjects if self._is_named(subject.file.path)]
        if not self._chosen.has("leftover-state") or not subjects:
            return iter(())
        runtime = self._workbench.runtime(self._reporter.say)
        jobs = self._options["jobs"] or self._workbench.config.jobs or processors()

        def hear(record: Record) -> None:
            self._reporter.recorded("head", record)
            self._reporter.advance()

        self._reporter.begin("grading", len(subjects))
        measured = leftovers(subjects, runtime, self._workbench.config.limits, jobs, hear)
        return iter(measured.findings)


def _covers(outer: str, path: str) -> bool:
    return not outer or path == printable(outer) or path.startswith(f"{printable(outer)}/")
