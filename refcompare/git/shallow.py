"""What a shallow clone lacks, and the command that fetches it."""

from __future__ import annotations

import re
import shlex

from refcompare.git.process import GitCommands
from refcompare.wording import printable

SHA = re.compile(r"[0-9a-f]{4,64}", re.IGNORECASE)
FULL_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?", re.IGNORECASE)


def is_shallow(git: GitCommands) -> bool:
    """Say whether this clone lacks history that its remote has."""
    return git.run("rev-parse", "--is-shallow-repository").line == "true"


def command_for_history(git: GitCommands) -> str:
    """Name the command that fetches the whole history of every branch, and of a detached HEAD."""
    remote = _remote(git)
    words = [remote, f"+refs/heads/*:refs/remotes/{remote}/*"]
    if git.run("symbolic-ref", "--quiet", "HEAD").status:
        words.append(git.run("rev-parse", "--verify", "HEAD^{commit}").line)
    command = printable(shlex.join(words))
    return f"run `git fetch --unshallow {command}` (in GitHub Actions, check out with `fetch-depth: 0`)"


def command_for_ref(git: GitCommands, name: str) -> str:
    """Name the command that fetches one ref into a shallow clone."""
    remote = _remote(git)
    if SHA.fullmatch(name) and not FULL_SHA.fullmatch(name):
        return command_for_history(git)
    if FULL_SHA.fullmatch(name):
        refspec = name
    elif name.startswith("refs/tags/"):
        refspec = f"{name}:{name}"
    else:
        branch = re.sub(rf"^(refs/heads/|(refs/remotes/)?{re.escape(remote)}/)", "", name)
        refspec = f"+refs/heads/{branch}:refs/remotes/{remote}/{branch}"
    return f"run `git fetch --depth=1 {printable(shlex.join([remote, refspec]))}`"


def _remote(git: GitCommands) -> str:
    return next(iter(git.remotes()), "origin")
