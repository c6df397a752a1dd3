"""The exceptions on which a person must act, each with one clear sentence and an exit code."""

from __future__ import annotations


class RefcompareError(Exception):
    """A failure that ends the command: what is wrong, where, and what to do, in one sentence.

    ``exit_code`` is 3 (the environment failed, no verdict) unless a subclass says otherwise.
    """

    exit_code = 3


class UsageError(RefcompareError):
    """The command line, the configuration or a ref is wrong; the user mends it and runs again."""

    exit_code = 2


class UnknownRef(UsageError):
    """No branch, tag or commit has the name ``spec``."""

    def __init__(self, sentence: str, spec: str) -> None:
        super().__init__(sentence)
        self.spec = spec


class EnvironmentFailure(RefcompareError):
    """Something that grading needs (PHP, a sandbox, WordPress, git) is missing or broken."""

    exit_code = 3
