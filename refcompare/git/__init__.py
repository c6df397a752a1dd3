"""Refs to trees, read from git's object database and never through a checkout.

In the order in which data flows: `process` runs git, `objects` reads blobs, `trees` lists a commit's files,
`index`, `conversion` and `worktree` make a tree of the files as they lie, `refs` and `shallow` find what a
ref names or say what to do, and `repository` is what the rest of refcompare uses.
"""

from refcompare.git.repository import Repository
from refcompare.git.trees import GitTree, ResolvedRef
from refcompare.git.worktree import WORKTREE, WorktreeTree

__all__ = ["WORKTREE", "GitTree", "Repository", "ResolvedRef", "WorktreeTree"]
