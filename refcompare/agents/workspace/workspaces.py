"""The tree of one arm as an agent finds it: built once, then copied for every trial.

It is the ref's tree without history, remotes, the definitions of evals, refcompare.yml and what the eval
hides, with the eval's own files and whatever its setup made, committed once to a repository of its own.
Symlinks of the tree are kept where they stay in it, and nothing here follows one to anywhere else. Skills
are announced where the agents look: ``.claude/skills`` is made from ``.agents/skills`` if a tree has only
those. No trial shares a byte with another or with the original: copies are reflinks where the file system
can make them, and plain ones elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from refcompare.agents.evals import WorkspaceSpec
from refcompare.agents.sandbox.boundary import Boundary, View
from refcompare.agents.sandbox.confined import run_confined
from refcompare.agents.workspace.capture import Listing, WorkspaceChange, capture, listing
from refcompare.agents.workspace.places import Places, copy_tree, give_away, own_place
from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.globs import covers
from refcompare.tree import Tree, TreeFile
from refcompare.wording import printable
from refcompare.workspace import materialise

ALWAYS_HIDDEN = ("refcompare.yml", "datasets/suites/*/agent")
"""The configuration and the definitions of evals; no agent sees them."""

SKILLS = ".agents/skills"
CLAUDE_SKILLS = ".claude/skills"
SETUP_SECONDS = 600.0

_MOST_LINKS = 40
"""Links on the way to one path, beyond which it leads nowhere, as on Linux."""

# Committed by a git inside the boundary. Clones keep times and sizes but not inodes, which is what the
# settings are about. One pack is cheaper to make and to copy than an object for every file; git puts
# files that it takes for large ones straight into one.
_COMMIT = """
set -e
git init --quiet --template= --initial-branch=main .
git config user.name refcompare
git config user.email refcompare@localhost
git config core.trustctime false
git config core.checkStat minimal
git config gc.auto 0
export GIT_AUTHOR_DATE='2000-01-01T00:00:00Z' GIT_COMMITTER_DATE='2000-01-01T00:00:00Z'
git -c core.fsync=none -c core.bigFileThreshold=1 -c core.compression=1 -c advice.addEmbeddedRepo=false \\
    add --all --force .
git commit --quiet --allow-empty --no-verify -m 'The workspace as it was given'
git tag start
git -c core.fsync=none repack -adq
"""


class LinkedTree(Tree, Protocol):
    """A tree that also knows its symlinks, as those of resolved refs do."""

    def links(self) -> Mapping[str, str]:
        """Give the target of every symlink by its path."""


class ArmTree:
    """What of a ref's tree an agent may see, with what the eval puts in. Read-only; a `Tree` itself.

    With ``whole``, definitions of evals and the configuration are in it too. ``notes`` say what was left
    out and why.
    """

    def __init__(self, tree: LinkedTree, spec: WorkspaceSpec, *, whole: bool = False) -> None:
        self._tree = tree
        self._added = {path: text.encode("utf-8", "surrogatepass") for path, text in spec.files.items()}
        hide = spec.hide if whole else (*ALWAYS_HIDDEN, *spec.hide)
        self._files = {
            file.path: file
            for file in tree.files()
            if file.path not in self._added and not _is_hidden(file.path, hide)
        }
        self._copies: dict[str, str] = {}
        given = {
            path: target
            for path, target in tree.links().items()
            if path not in self._added and not _is_hidden(path, hide)
        }
        self.links, self.notes = self._kept(given)
        self._announce_skills(hide)

    @property
    def digest(self) -> str:
        """A digest over the underlying tree and over what was put in or left out."""
        total = hashlib.sha256(self._tree.digest.encode())
        for file in self.files():
            total.update(f"\0{file.path}\0{self._copies.get(file.path, '')}".encode("utf-8", "surrogatepass"))
            total.update(self._added.get(file.path, b""))
        return total.hexdigest()

    def files(self) -> Iterator[TreeFile]:
        """Give every regular file, in path order."""
        files = dict(self._files)
        files |= {path: TreeFile(path, len(data)) for path, data in self._added.items()}
        for copy, path in self._copies.items():
            files[copy] = TreeFile(copy, files[path].size, files[path].executable)
        return iter(sorted(files.values(), key=lambda file: os.fsencode(file.path)))

    def read(self, path: str) -> bytes:
        """Give one file's bytes. Raises KeyError when there is no such regular file."""
        path = self._copies.get(path, path)
        if path in self._added:
            return self._added[path]
        return self._tree.read(self._files[path].path)

    def canonical(self, path: str) -> str:
        """Give the path of the file behind links and copies; a path that leads nowhere stays what it is."""
        resolved = self._resolve(path, self.links)
        return path if resolved is None else self._copies.get(resolved, resolved)

    def _kept(self, given: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
        """Keep the links that lead to something in the tree, by relative steps alone."""
        folders = {"", *(folder for path in (*self._files, *self._added) for folder in _folders(path))}
        kept, notes = {}, []
        for path, target in given.items():
            found = self._resolve(path, given)
            if found is not None and (found in self._files or found in self._added or found in folders):
                kept[path] = target
            else:
                notes.append(f"the link {printable(path)} leads to nothing in the workspace and is left out")
        return kept, tuple(notes)

    @staticmethod
    def _resolve(path: str, links: Mapping[str, str]) -> str | None:
        """Follow links as a file system would, by names alone; None where they lead out or in a circle."""
        left = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        here: list[str] = []
        followed = 0
        while left:
            part = left.pop()
            if part == "..":
                if not here:
                    return None
                here.pop()
                continue
            here.append(part)
            target = links.get("/".join(here))
            if target is None:
                continue
            followed += 1
            if followed > _MOST_LINKS or posixpath.isabs(target) or "\0" in target:
                return None
            here.pop()
            left += [step for step in reversed(target.split("/")) if step not in ("", ".")]
        return "/".join(here)

    def _announce_skills(self, hide: tuple[str, ...]) -> None:
        """Copy the skills to where Claude Code looks, if the repository does not do so itself."""
        paths = [*self._files, *self._added]
        if any(covers(CLAUDE_SKILLS, path) for path in (*paths, *self.links)) or ".claude" in self.links:
            return
        for path in paths:
            copy = CLAUDE_SKILLS + path.removeprefix(SKILLS)
            if path.startswith(f"{SKILLS}/") and not _is_hidden(copy, hide):
                self._copies[copy] = path


def _is_hidden(path: str, hide: tuple[str, ...]) -> bool:
    return any(covers(glob, path) for glob in hide)


def _folders(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


@dataclass(frozen=True, slots=True)
class TrialWorkspace:
    """One trial's own copy: ``path`` is what the agent gets as its workspace."""

    path: Path
    before: Listing
    original: Path

    def change(self) -> WorkspaceChange:
        """Say what differs from what was given."""
        return capture(self.path, self.before, self.original)


class ArmWorkspace:
    """One arm's workspace for one eval, out of every agent's reach, and the places for its copies."""

    def __init__(self, tree: ArmTree, original: Path, places: Places) -> None:
        self.tree = tree
        self._original = original
        self._places = places

    def read(self, path: str) -> bytes | None:
        """Give a file's bytes as the arm's tree has it, also by the path of a link or a copy."""
        try:
            return self.tree.read(self.tree.canonical(path))
        except KeyError:
            return None

    def canonical(self, path: str) -> str:
        """Give the path of the file in the tree that was reached by a link or as a copy."""
        return self.tree.canonical(path)

    @contextmanager
    def trial(self) -> Iterator[TrialWorkspace]:
        """Copy the workspace for one trial, and remove the copy at the end, whatever was done to it."""
        with self._places.place() as place:
            workspace = place / "workspace"
            copy_tree(self._original, workspace)
            yield TrialWorkspace(workspace, listing(workspace), self._original)


@contextmanager
def build_workspace(
    tree: LinkedTree,
    spec: WorkspaceSpec,
    boundary: Boundary,
    parent: Path | None = None,
    *,
    whole: bool = False,
) -> Iterator[ArmWorkspace]:
    """Build an arm's workspace in a temporary directory, removed at the end.

    ``whole`` is that of `ArmTree`. The eval's setup runs behind ``boundary``, without network. Raises
    UsageError where the tree and the eval's files do not go together or a setup command fails,
    EnvironmentFailure where it cannot be built.
    """
    seen = ArmTree(tree, spec, whole=whole)
    with own_place(parent, mode=0o711) as place, own_place(place) as home:
        original = home / "original"
        materialise(seen, original)
        for path, target in seen.links.items():
            _link(original, path, target)
        give_away(original)
        for command in spec.setup:
            _set_up(boundary, original, command)
        done = run_confined(boundary, _COMMIT, View(original), SETUP_SECONDS)
        if done.exit_code != 0:
            said = printable(done.output.strip()[-500:])
            raise EnvironmentFailure(f"The workspace cannot be committed: {said or 'git did not end'}.")
        with Places(place) as places:
            yield ArmWorkspace(seen, original, places)


def _set_up(boundary: Boundary, workspace: Path, command: str) -> None:
    done = run_confined(boundary, command, View(workspace), SETUP_SECONDS)
    if done.exit_code != 0:
        ended = "did not end" if done.exit_code is None else f"ended with {done.exit_code}"
        said = printable(done.output.strip()[-500:])
        raise UsageError(f"The setup command {shlex.quote(command)} {ended}: {said or 'it said nothing'}.")


def _link(root: Path, path: str, target: str) -> None:
    """Make a link of the tree. Its folder is one that was just made here, so it is no link itself."""
    place = root / path
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    except OSError as error:
        raise UsageError(
            f"The link {printable(path)} cannot be made in the workspace ({error.strerror}): "
            "the eval puts something else there."
        ) from error
