"""One repository: refs in, trees out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.git.objects import Objects
from refcompare.git.process import GitCommands, Result
from refcompare.git.refs import ABBREVIATED, Refs, quoted_ref, sides_of
from refcompare.git.shallow import SHA, command_for_history, is_shallow
from refcompare.git.trees import GitTree, ResolvedRef
from refcompare.git.worktree import WORKTREE, WorktreeTree
from refcompare.wording import printable

_DEFAULT_BRANCHES = ("main", "master", "trunk")


class Repository:
    """A git repository that is read and nothing else. Use it in a ``with`` statement, or close it.

    ``root`` is the working tree's top directory, None when the repository is bare.
    """

    def __init__(self, git: GitCommands, git_dir: Path, root: Path | None) -> None:
        self.root = root
        self.git_dir = git_dir
        self._git = git
        self._objects = Objects(git)
        self._refs = Refs(git)

    @classmethod
    def discover(cls, start: Path) -> Repository:
        """Find the repository that git would use in ``start``, GIT_DIR and GIT_WORK_TREE included.

        Raises UsageError where there is none, or where git refuses it because somebody else owns it.
        """
        if not start.is_dir():
            raise UsageError(f"{printable(str(start))} is not a directory.")
        git = GitCommands(start)
        found = git.run("rev-parse", "--absolute-git-dir")
        if found.status:
            raise _undiscovered(start, found)
        git_dir = Path(found.line)
        top = git.run("rev-parse", "--show-toplevel")
        bare = git.run("rev-parse", "--is-bare-repository").line == "true"
        root = None if bare or top.status or not top.line else Path(top.line)
        git = GitCommands(root or start)
        # From here on the answer is fixed: a directory that changes under us leads nowhere else.
        git.pin(GIT_DIR=str(git_dir), **({"GIT_WORK_TREE": str(root)} if root else {}))
        return cls(git, git_dir, root)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes that read objects. The trees that were resolved can no longer be read."""
        self._objects.close()

    def resolve(self, spec: str) -> GitTree | WorktreeTree:
        """Turn a ref into its tree: anything git resolves to a commit or a tree, ``A...B``, or ``WORKTREE``.

        A branch that only a remote has can be given by its short name. Raises UsageError when there is no
        such ref, with what was probably meant, or the command that fetches what a shallow clone left out.
        """
        if spec == WORKTREE:
            if self.root is None:
                place = printable(str(self.git_dir))
                raise UsageError(
                    f"{WORKTREE} needs a working tree, and {place} has none here: give another ref."
                )
            return WorktreeTree(self.root, self._git, self._objects)
        sides = sides_of(spec)
        if sides:
            return self._tree(spec, spec, self.merge_base(*sides))
        return self._tree(spec, *self._refs.lookup(spec))

    def merge_base(self, a: str, b: str) -> str:
        """Give the full SHA of the commit at which two refs parted. WORKTREE stands on HEAD.

        Raises UsageError when they share none, or none that this clone has.
        """
        result = self._git.run("merge-base", self._commit(a), self._commit(b))
        if result.status == 0:
            return result.line
        if result.status != 1:
            raise EnvironmentFailure(f"`git merge-base` failed: {result.complaint}.{self._git.advice()}")
        sentence = f"{quoted_ref(a)} and {quoted_ref(b)} have no merge base"
        if is_shallow(self._git):
            raise UsageError(f"{sentence} in this shallow clone: {command_for_history(self._git)}.")
        raise UsageError(f"{sentence}: they share no history, so give the two refs as BASE and HEAD instead.")

    def default_base(self) -> str:
        """Give the ref that BASE means when it is left out, as ``BRANCH...HEAD``: their merge base.

        The branch is the remote's default one, else the first of main, master, trunk and init.defaultBranch.
        Raises UsageError when there is none, or when it shares no history with HEAD.
        """
        self._refs.lookup("HEAD")
        for branch in self._default_branches():
            if self._refs.find(branch):
                self.merge_base(branch, "HEAD")
                return f"{branch}...HEAD"
        tried = ", ".join(["the remote's HEAD", *_DEFAULT_BRANCHES, "init.defaultBranch"])
        advice = (
            f"this clone is shallow, so {command_for_history(self._git)}"
            if is_shallow(self._git)
            else "give BASE"
        )
        raise UsageError(f"No default branch was found to compare with (tried {tried}): {advice}.")

    def is_shallow(self) -> bool:
        """Say whether this clone lacks history that its remote has."""
        return is_shallow(self._git)

    def history(self, base: str, head: str) -> list[str]:
        """Give the full SHAs of the commits after ``base`` up to ``head``, oldest first, by first parents."""
        ends = f"{self._commit(base)}..{self._commit(head)}"
        return self._git.read("rev-list", "--first-parent", "--reverse", ends).decode("ascii").split()

    def _commit(self, spec: str) -> str:
        """Give the commit that a ref names, for its history; WORKTREE stands on HEAD."""
        _, found = self._refs.lookup("HEAD" if spec == WORKTREE else spec, history=True)
        commit = self._peel(found, "commit")
        if commit is None:
            raise UsageError(f"{quoted_ref(spec)} is not a commit, so it has no history.")
        return commit

    def _tree(self, spec: str, name: str, found: str) -> GitTree:
        commit = self._peel(found, "commit")
        tree = self._peel(commit or found, "tree")
        if tree is None:
            kind = self._git.run("cat-file", "-t", found)
            if kind.line == "blob":
                raise UsageError(f"{quoted_ref(spec)} is a file; a ref has to be a commit or a folder.")
            what = f"{quoted_ref(spec)} cannot be read: {kind.complaint}."
            raise EnvironmentFailure(what + self._git.advice(kind.stderr))
        short = commit[:ABBREVIATED] if commit else f"tree {tree[:ABBREVIATED]}"
        if sides_of(spec):
            label = f"{name} (merge base {short})"
        elif SHA.fullmatch(name) and (commit or tree).startswith(name.lower()):
            label = short
        else:
            label = f"{name} ({short})"
        return GitTree(ResolvedRef(spec, commit, printable(label)), tree, self._git, self._objects)

    def _peel(self, found: str, kind: str) -> str | None:
        result = self._git.run("rev-parse", "--verify", "--quiet", f"{found}^{{{kind}}}")
        return None if result.status else result.line

    def _default_branches(self) -> Iterator[str]:
        for remote in self._git.remotes():
            head = self._git.run("symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD")
            if head.status == 0:
                yield head.line.removeprefix("refs/remotes/")
        yield from _DEFAULT_BRANCHES
        configured = self._git.config("init.defaultBranch")
        if configured and not configured.startswith(("-", "^")):
            yield configured


def _undiscovered(start: Path, result: Result) -> Exception:
    """Say why git found no repository, or refused the one that it found."""
    place = printable(str(start))
    if "dubious ownership" in result.stderr:
        match = re.search(r"git config --global --add safe\.directory .*", result.stderr)
        command = printable(match[0].strip()) if match else "git config --global --add safe.directory PATH"
        return UsageError(
            f"Git refuses the repository at {place}, as another user owns it: to trust it, run `{command}`."
        )
    if "not a git repository" in result.stderr:
        return UsageError(f"{place} is not in a git repository: run refcompare inside one.")
    return EnvironmentFailure(f"Git cannot use the repository at {place}: {result.complaint}.")
