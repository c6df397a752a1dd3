"""The rules of ``refcompare check``: each one function, with a name, a severity, a message and a mend."""

from refcompare.rules.catalogue import ALL, BY_NAME, Chosen, choose
from refcompare.rules.checking import Checked, Suites, check, check_suites
from refcompare.rules.model import Finding, Rule

__all__ = [
    "ALL",
    "BY_NAME",
    "Checked",
    "Chosen",
    "Finding",
    "Rule",
    "Suites",
    "check",
    "check_suites",
    "choose",
]
