"""Rules about agent evals: that what they refer to is in the tree that they are about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from refcompare.agents.checks.calls import SkillUsed
from refcompare.agents.checks.reads import NotRead, Read
from refcompare.agents.evals import DEFAULT_GUIDANCE
from refcompare.globs import covers
from refcompare.rules.model import EvalSubject, Rule
from refcompare.wording import did_you_mean, quoted

_SKILLS = (".agents/skills/", ".claude/skills/")


def guidance_of_nothing(subject: EvalSubject) -> Iterator[tuple[int, str, str]]:
    """What an eval calls its guidance is there: the control arm would take nothing away."""
    item = subject.eval
    if item.guidance == DEFAULT_GUIDANCE:
        return
    for glob in item.guidance:
        if not any(covers(glob, path) for path in (*subject.paths, *item.workspace.files)):
            message = f"no file matches the guidance {quoted(glob)}"
            yield item.line, message, "mend the glob, or remove it"


def read_of_nothing(subject: EvalSubject) -> Iterator[tuple[int, str, str]]:
    """A file whose reading is measured is in the workspace."""
    item = subject.eval
    if item.workspace.setup:
        return  # which may make the file
    for named in item.checks:
        check = named.check
        if not isinstance(check, Read | NotRead) or check.path in item.workspace.files:
            continue
        if check.path not in subject.paths:
            near = (
                did_you_mean(check.path, _near(check.path, subject.paths))
                or "mend the path, or remove the check"
            )
            yield named.line, f"the tree has no file {quoted(check.path)}, whose reading is measured", near
        elif any(covers(glob, check.path) for glob in item.workspace.hide):
            message = f"workspace.hide hides {quoted(check.path)}, whose reading is measured"
            yield named.line, message, "leave the file in the workspace, or remove the check"


def _near(path: str, paths: Iterable[str]) -> list[str]:
    """Give the paths that may have been meant: of the same name, or in the same folder."""
    folder, _, name = path.rpartition("/")
    return [other for other in paths if other.endswith(f"/{name}") or other.rpartition("/")[0] == folder]


def skill_of_nothing(subject: EvalSubject) -> Iterator[tuple[int, str, str]]:
    """A skill whose use is measured is in the tree."""
    item = subject.eval
    paths = (*subject.paths, *item.workspace.files)
    skills = {
        path.removeprefix(folder).partition("/")[0]
        for folder in _SKILLS
        for path in paths
        if path.startswith(folder) and path.endswith("/SKILL.md")
    }
    for named in item.checks:
        check = named.check
        if isinstance(check, SkillUsed) and check.skill not in skills and not item.workspace.setup:
            near = did_you_mean(check.skill, skills) or "mend the name, or remove the check"
            yield named.line, f"the tree has no skill {quoted(check.skill)}, whose use is measured", near


RULES = (
    Rule("guidance-of-nothing", "warning", eval=guidance_of_nothing),
    Rule("read-of-nothing", "warning", eval=read_of_nothing),
    Rule("skill-of-nothing", "warning", eval=skill_of_nothing),
)
