"""From what the user asked for to arms that can run: refs, suites, selection, environments."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from refcompare.config import Config, load_config
from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.execution.definition import definition
from refcompare.execution.model import Limits
from refcompare.git import GitTree, Repository, WorktreeTree
from refcompare.globs import path_matches
from refcompare.newest import obstacle
from refcompare.paths import cache_directory
from refcompare.pipeline import ArmInput
from refcompare.results import JSON, Arm
from refcompare.sandbox import probe
from refcompare.selection import Selection, select
from refcompare.suites import MOST_NOTES, SuiteSet, load_suites
from refcompare.wording import quoted
from refcompare.wordpress.graders import Grader, grader_of, installed_grader
from refcompare.wordpress.native import NativeRuntime
from refcompare.wordpress.php import find_php
from refcompare.wordpress.releases import ensure_release
from refcompare.wordpress.runtime import Runtime
from refcompare.wordpress.site import ensure_site

CONFIG_NAME = "refcompare.yml"

ResolvedTree = GitTree | WorktreeTree


@dataclass(frozen=True, slots=True)
class Choice:
    """What the command line says of arms; None leaves a matter to ``refcompare.yml``.

    ``grader`` is ``installed`` or ``ref``: whether each arm is graded by its own tree's ``php/``.
    """

    config: Path | None = None
    suites: tuple[str, ...] = ()
    selection: Selection = field(default_factory=Selection)
    wordpress: str | None = None
    runtime: str | None = None
    grader: str = "installed"


@dataclass(frozen=True, slots=True)
class Side:
    """One resolved arm with the tests of its tree that take part, out of the ``found`` that it has."""

    name: str
    tree: ResolvedTree
    suites: SuiteSet
    found: int = 0

    @property
    def arm(self) -> Arm:
        """What results say of this arm, before anything has graded it."""
        ref = self.tree.ref
        return Arm(self.name, ref.label, ref.commit, self.tree.digest)


class Workbench:
    """A repository with its configuration, open for as long as trees are read from it.

    ``config`` is that of the working tree until ``pair`` is asked for two refs: then the base's
    holds, so that a change can't decide by which rules it is judged. ``notes`` say so.
    """

    def __init__(self, repository: Repository, config: Config, choice: Choice) -> None:
        self.repository = repository
        self.config = config
        self.notes: tuple[str, ...] = ()
        self._choice = choice
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    def pair(self, base: str | None, head: str | None) -> tuple[Side, Side]:
        """Resolve two refs and select the tests of both.

        Without ``head``, ``A...B`` stands for their merge base against ``B``, and any other base
        is compared with the working tree (with ``HEAD`` where there is none). Without ``base``
        it is the merge base with the default branch.
        """
        if head is None:
            sides = (base or "").split("...")
            current = "WORKTREE" if self.repository.root is not None else "HEAD"
            head = (sides[1] or "HEAD") if len(sides) == 2 else current
        trees = (
            self.repository.resolve(base or self.repository.default_base()),
            self.repository.resolve(head),
        )
        self.judge_by(trees[0], trees[1])
        loaded = tuple(self._load(tree) for tree in trees)
        selected = select(loaded[0], loaded[1], self._choice.selection)
        return (
            Side("base", trees[0], selected[0], _count(loaded[0])),
            Side("head", trees[1], selected[1], _count(loaded[1])),
        )

    def judge_by(self, base: ResolvedTree, head: ResolvedTree) -> None:
        """Take the configuration of the base, or the defaults where it has none, unless one was given.

        Suites are looked for where either side says that they lie, so that a change may move them.
        """
        if self._choice.config is not None:
            return
        texts = [_text(tree) for tree in (base, head)]
        if texts[0] == texts[1]:
            return
        try:
            moved = load_config(texts[1] or b"", f"{head.ref.label}:{CONFIG_NAME}").suites
        except UsageError as error:
            self.notes += (f"{error} It is not used for this comparison.",)
            moved = ()
        if texts[0] is None:
            judged = Config()
            note = f"{base.ref.label} has no {CONFIG_NAME}: the defaults hold (else give --config)"
        else:
            judged = load_config(texts[0], f"{base.ref.label}:{CONFIG_NAME}")
            note = (
                f"{CONFIG_NAME} differs between the refs: that of {base.ref.label} holds (else give --config)"
            )
        self.config = replace(judged, suites=tuple(dict.fromkeys((*judged.suites, *moved))))
        self.notes += (note,)

    def single(self, ref: str | None) -> Side:
        """Resolve one ref, the working tree by default, and select its tests."""
        tree = self.tree(ref)
        loaded = self._load(tree)
        _, selected = select(None, loaded, self._choice.selection)
        return Side("head", tree, selected, _count(loaded))

    def tree(self, ref: str | None) -> ResolvedTree:
        """Resolve one ref, the working tree (or HEAD, where there is none) by default."""
        return self.repository.resolve(ref or ("WORKTREE" if self.repository.root is not None else "HEAD"))

    def definition(self, arm: Arm, test_id: str) -> dict[str, JSON] | None:
        """Give a test's definition as it stood in an arm's commit; None where it can't be read any more."""
        if arm.commit is None:
            return None
        try:
            suites = self._load(self.repository.resolve(arm.commit))
        except (UsageError, EnvironmentFailure):
            return None
        return next((definition(test) for test in suites.tests if test.id == test_id), None)

    def inputs(self, sides: tuple[Side, ...], say: Callable[[str], None]) -> list[ArmInput]:
        """Give each side what grades it. Raises EnvironmentFailure where nothing can."""
        wordpress = self._choice.wordpress or self.config.wordpress
        name = self._choice.runtime or self.config.runtime
        runtimes: dict[str, Runtime] = {}
        arms = []
        for side in sides:
            grader = (
                grader_of(side.tree, side.tree.ref.label)
                if self._choice.grader == "ref"
                else installed_grader()
            )
            if grader.digest not in runtimes:
                runtimes[grader.digest] = make_runtime(name, wordpress, grader, self.config.limits, say)
            arms.append(ArmInput(side.arm, side.suites, runtimes[grader.digest]))
        return arms

    def runtime(self, say: Callable[[str], None]) -> Runtime:
        """Give what grades the plugins that agents build, the same on both arms."""
        wordpress = self._choice.wordpress or self.config.wordpress
        name = self._choice.runtime or self.config.runtime
        return make_runtime(name, wordpress, installed_grader(), self.config.limits, say)

    @property
    def globs(self) -> tuple[str, ...]:
        """Where suites lie in a tree."""
        return self._choice.suites or self.config.suites

    @property
    def kept_results(self) -> Path:
        """Where the cache keeps what the newest run without ``--output`` found in this repository."""
        name = hashlib.sha256(os.fsencode(self.repository.git_dir.resolve())).hexdigest()[:32]
        return cache_directory() / "results" / name

    @property
    def results_directory(self) -> Path:
        """Where to write results when no ``--output`` is given.

        The cache keeps them for ``refcompare show``, which nobody asked for: where it takes nothing, a note
        says so, and they go to a directory that is deleted with the workbench.
        """
        if self._scratch is None and (why := obstacle(self.kept_results)) is not None:
            self._scratch = tempfile.TemporaryDirectory(prefix="refcompare-results-")
            self.notes += (f"results are not kept for `refcompare show`: {self.kept_results}: {why}",)
        return self.kept_results if self._scratch is None else Path(self._scratch.name)

    def close(self) -> None:
        """Delete what was only needed while the workbench was open."""
        if self._scratch is not None:
            self._scratch.cleanup()

    def _load(self, tree: ResolvedTree) -> SuiteSet:
        suites = load_suites(tree, self.globs)
        patterns = [glob.removeprefix("./").split("/") for glob in self.globs]
        unread = [
            path
            for path in tree.links()
            if any(path_matches(pattern, path.split("/")) for pattern in patterns)
        ]
        said = tuple(f"{quoted(path)} is a symlink, so its tests are not read." for path in unread)
        return replace(suites, notes=(*suites.notes, *said[:MOST_NOTES]))


@contextmanager
def open_workbench(start: Path, choice: Choice) -> Iterator[Workbench]:
    """Open the repository around ``start`` with the configuration that holds there."""
    with Repository.discover(start) as repository:
        workbench = Workbench(repository, _config(repository, choice.config), choice)
        try:
            yield workbench
        finally:
            workbench.close()


def _config(repository: Repository, given: Path | None) -> Config:
    """Read the configuration: the given file, the working tree's, or HEAD's in a bare repository."""
    if given is not None:
        try:
            return load_config(given.read_bytes(), str(given))
        except OSError as error:
            raise UsageError(f"The configuration {given} can't be read: {error.strerror}.") from error
    if repository.root is not None:
        path = repository.root / CONFIG_NAME
        misnamed = path.with_suffix(".yaml")
        if misnamed.is_file() and not path.is_file():
            raise UsageError(f"{misnamed.name} is not read: rename it to {CONFIG_NAME}, or give --config.")
        return load_config(path.read_bytes(), CONFIG_NAME) if path.is_file() else Config()
    try:
        text = _text(repository.resolve("HEAD"))
    except UsageError:
        return Config()  # no commit yet
    return Config() if text is None else load_config(text, f"HEAD:{CONFIG_NAME}")


def _count(suites: SuiteSet) -> int:
    return len(suites.tests) + len(suites.invalid)


def _text(tree: ResolvedTree) -> bytes | None:
    """Give a tree's configuration as it stands; None where it has none."""
    try:
        return tree.read(CONFIG_NAME)
    except KeyError:
        return None


def make_runtime(
    name: str, wordpress: str | None, grader: Grader, limits: Limits, say: Callable[[str], None]
) -> Runtime:
    """Give what starts workers: ``native``, ``docker``, or with ``auto`` the first that works here."""
    if name == "auto":
        found = probe()
        if not found.works and not _docker_works():
            raise EnvironmentFailure(
                f"Hostile code is never run without a sandbox, and none works here: {found.message}."
            )
        name = "native" if found.works and (_has_php() or not _docker_works()) else "docker"
    release = ensure_release(wordpress, progress=say)
    if name == "native":
        php = find_php()
        return NativeRuntime(ensure_site(release, php, progress=say), php, grader)
    from refcompare.wordpress.docker import DockerRuntime
    from refcompare.wordpress.image import ensure_image

    return DockerRuntime(ensure_image(release, grader, progress=say), memory=limits.memory)


def _has_php() -> bool:
    try:
        find_php()
    except EnvironmentFailure:
        return False
    return True


def _docker_works() -> bool:
    from refcompare.wordpress.engine import docker_available

    return docker_available().works
