"""Finds what a ref names, or says why it names nothing and what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from refcompare.errors import UnknownRef, UsageError
from refcompare.git.names import decoded, encoded
from refcompare.git.process import GitCommands, Result
from refcompare.git.shallow import FULL_SHA, SHA, command_for_history, command_for_ref, is_shallow
from refcompare.git.worktree import WORKTREE
from refcompare.wording import alternatives, printable, quoted

# A name, and what git may be asked to find from there: main~2, main^{tree}, main@{1}, main:folder.
_NAME_AND_REST = re.compile(r"(?P<name>.+?)(?P<rest>(?:[~^:]|@\{).*)?", re.DOTALL)
# No file system and no host has a longer ref.
_LONGEST_SHOWN = 255
_MOST_ALTERNATIVES = 6
ABBREVIATED = 7
"""Digits of a SHA where one is shown, and from which on a branch's name might be taken for one."""


class Refs:
    """The names of one repository's commits and trees."""

    def __init__(self, git: GitCommands) -> None:
        self._git = git

    def lookup(self, spec: str, history: bool = False) -> tuple[str, str]:
        """Give the name by which git knows a ref, and its object. ``history`` says that it is wanted too.

        Raises UsageError when there is no such ref, or when it could mean several.
        """
        _refuse_nonsense(spec)
        found = self.find(spec)
        if found is None:
            raise self._unknown(spec, history)
        return found

    def find(self, spec: str) -> tuple[str, str] | None:
        """Give the same, or None when there is no such ref. ``spec`` is one that `lookup` does not refuse."""
        result = self._rev_parse(spec)
        if result.status == 0:
            if "is ambiguous" in result.stderr:
                self._refuse_ambiguous_name(spec)
            return re.sub(r"^refs/(heads|tags|remotes)/", "", spec), result.line
        name, rest = _split(spec)
        if _has_ambiguous_sha(result):
            raise self._several_shas(name)
        if name in ("HEAD", "@") or (rest and self._rev_parse(name).status == 0):
            return None  # the name is known here, so a remote's branch of that name is not what was meant
        found = {}
        for remote in self._git.remotes():
            result = self._rev_parse(f"refs/remotes/{remote}/{spec}")
            if result.status == 0:
                found[f"{remote}/{spec}"] = result.line
        if len(set(found.values())) > 1 and f"origin/{spec}" not in found:
            raise UsageError(f"{quoted_ref(spec)} is on several remotes: give {_either(found)}.")
        return next(iter(found.items()), None)

    def _rev_parse(self, spec: str) -> Result:
        # A commit is tried first, so that a short SHA that also begins a blob's is not ambiguous. After a
        # colon everything is a path.
        if ":" not in spec:
            result = self._git.run("rev-parse", "--verify", f"{spec}^{{commit}}")
            if result.status == 0 or _has_ambiguous_sha(result):
                return result
        result = self._git.run("rev-parse", "--verify", spec)
        if result.status == 0 and self._git.run("cat-file", "-e", result.line).status:
            return result._replace(status=128)  # git takes a full SHA at its word
        return result

    def _several_shas(self, prefix: str) -> UsageError:
        names = _either(self._shas(prefix))
        return UsageError(f"{quoted_ref(prefix)} is how several SHAs begin: give more digits of {names}.")

    def _shas(self, prefix: str) -> list[str]:
        """Give the SHAs that begin so, of whatever kind of object."""
        found = self._git.run("rev-parse", f"--disambiguate={prefix}").stdout
        return sorted(found.decode("ascii", "replace").split())

    def _refuse_ambiguous_name(self, spec: str) -> None:
        """Refuse a name that is, say, both a branch and a tag of different commits; git would pick one."""
        name, _ = _split(spec)
        if name in ("HEAD", "@") or FULL_SHA.fullmatch(name):
            return  # what git picks is what everybody means
        found = {}
        for place in ("tags/", "heads/", "remotes/"):
            commit = self._peeled(f"refs/{place}{name}")
            if commit:
                found[place + name] = commit
        # A branch of four digits is a year rather than an attempt to pass for a commit.
        if SHA.fullmatch(name) and len(name) >= ABBREVIATED:
            found |= {sha: sha for sha in self._shas(name) if self._peeled(sha, "commit") == sha}
        # What git picks may also lie outside of refs/, where nothing should.
        if len({*found.values(), self._peeled(name)}) > 1:
            raise UsageError(f"{quoted_ref(name)} is the name of several refs: give {_either(found)}.")

    def _peeled(self, name: str, kind: str = "") -> str | None:
        result = self._git.run("rev-parse", "--verify", "--quiet", f"{name}^{{{kind}}}")
        return None if result.status else result.line

    def _unknown(self, spec: str, history: bool) -> UsageError:
        """Say why a ref was not found, and what to do."""
        name, rest = _split(spec)
        shown = quoted_ref(spec)
        names = self._names()
        if self._rev_parse("HEAD").status and (name in ("HEAD", "@") or not names):
            return UsageError(f"{shown} does not exist, since nothing is committed yet: commit first.")
        if rest and self.find(name):
            if rest.startswith(":"):
                return UsageError(f"{quoted_ref(name)} has no folder {quoted_ref(rest[1:])}.")
            if is_shallow(self._git):
                fetch = command_for_history(self._git)
                return UsageError(f"{shown} is cut off, because this clone is shallow: {fetch}.")
            return UsageError(f"{quoted_ref(name)} exists, but git finds no {shown} from there.")
        near = [names[key] for key in difflib.get_close_matches(name[:_LONGEST_SHOWN].lower(), names, n=3)]
        meant = f" Did you mean {_either(near)}?" if near else ""
        if is_shallow(self._git):
            fetch = command_for_history(self._git) if history else command_for_ref(self._git, name)
            where = f"{shown} is not in this shallow clone"
            return UsageError(f"{where}: if the remote has it, {fetch}.{meant}")
        if not meant:
            meant = " `git branch --all` and `git tag` list what there is."
        return UnknownRef(f"{shown} is no branch, tag or commit of this repository.{meant}", spec)

    def _names(self) -> dict[str, str]:
        """Give the branches and tags by their names in lower case, a remote's by their short names too."""
        names: dict[str, str] = {}
        for ref in decoded(self._git.run("for-each-ref", "--format=%(refname)").stdout).split("\n")[:-1]:
            kind, _, short = ref.removeprefix("refs/").partition("/")
            if kind in ("heads", "tags", "remotes"):
                names.setdefault(short.lower(), short)
            if kind == "remotes":
                branch = short.partition("/")[2]
                names.setdefault(branch.lower(), branch)
        return names


def _refuse_nonsense(spec: str) -> None:
    """Refuse what git would take for an option, a negation or a range."""
    if not spec or "\0" in spec or spec.startswith(("-", "^")) or not _has_bytes(spec):
        shape = f"a branch, a tag, a SHA, A...B or {WORKTREE}"
        raise UsageError(f"{quoted_ref(spec)} is not a ref: give {shape}.")
    if ".." in spec.partition(":")[0]:
        advice = "give BASE and HEAD as two words, or A...B (merge base)"
        raise UsageError(f"{quoted_ref(spec)} is a range, not a ref: {advice}.")


def _has_bytes(spec: str) -> bool:
    """Say whether text can be given to git. Half a surrogate pair, which JSON can hold, cannot."""
    try:
        encoded(spec)
    except UnicodeEncodeError:
        return False
    return True


def sides_of(spec: str) -> tuple[str, str] | None:
    """Give the two refs of ``A...B``, HEAD where one is left out."""
    left, dots, right = spec.partition("...")
    if not dots or ":" in left:
        return None
    return left or "HEAD", right or "HEAD"


def _has_ambiguous_sha(result: Result) -> bool:
    """Say whether git failed because several objects' SHAs begin as the given one."""
    return bool(result.status) and re.search(r"short .* is ambiguous", result.stderr) is not None


def _split(spec: str) -> tuple[str, str]:
    match = _NAME_AND_REST.fullmatch(spec)
    assert match is not None
    return match["name"], match["rest"] or ""


def quoted_ref(spec: str) -> str:
    """Give a ref in single quotes, safe to print whatever is in it."""
    return quoted(spec, _LONGEST_SHOWN)


def _either(names: Iterable[str]) -> str:
    return alternatives([printable(name) for name in names][:_MOST_ALTERNATIVES])
