"""Whose configuration holds when two refs are compared."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from refcompare.arms import Choice, Workbench, open_workbench
from refcompare.changes import ChangeKind
from refcompare.config import Config
from refcompare.errors import UsageError
from refcompare.gate import DEFAULT_FAIL_ON
from refcompare.suites import DEFAULT_GLOBS


class Repository:
    """A repository with one commit, whose configuration the test writes."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._git("init", "-q", "-b", "main")
        self.commit()

    def configure(self, text: str) -> None:
        (self.place / "refcompare.yml").write_text(text)

    def commit(self) -> None:
        self._git("add", "-A")
        author = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        self._git(*author, "commit", "-q", "--allow-empty", "-m", "a commit")

    def _git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.place, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def judged(repository: Repository, base: str, head: str, config: Path | None = None) -> Workbench:
    with open_workbench(repository.place, Choice(config=config)) as workbench:
        workbench.pair(base, head)
        return workbench


def test_the_first_configuration_does_not_judge_the_change_that_adds_it(repository: Repository) -> None:
    repository.configure("fail_on: none\naudit: {enabled: false}\nsuites: [tests/*.json]\n")
    for base, head in (("HEAD", "WORKTREE"), ("HEAD~1", "HEAD")):
        workbench = judged(repository, base, head)
        assert workbench.config.fail_on == DEFAULT_FAIL_ON
        assert workbench.config.audit.enabled
        assert workbench.globs == (*DEFAULT_GLOBS, "tests/*.json"), "but it may say where suites lie"
        [note] = workbench.notes
        assert "has no refcompare.yml: the defaults hold" in note
        repository.commit()


def test_the_configuration_of_the_base_holds_where_the_head_has_another_or_none(
    repository: Repository,
) -> None:
    repository.configure("fail_on: [removed]\n")
    repository.commit()
    repository.configure("fail_on: none\n")
    assert judged(repository, "HEAD", "WORKTREE").config.fail_on == {ChangeKind.REMOVED}
    (repository.place / "refcompare.yml").unlink()
    workbench = judged(repository, "HEAD", "WORKTREE")
    assert workbench.config.fail_on == {ChangeKind.REMOVED}
    assert "differs between the refs" in workbench.notes[0]


def test_a_configuration_that_was_named_holds_whatever_the_refs_have(
    repository: Repository, tmp_path_factory: pytest.TempPathFactory
) -> None:
    named = tmp_path_factory.mktemp("elsewhere") / "other.yml"
    named.write_text("fail_on: [edited]\n")
    repository.configure("fail_on: none\n")
    workbench = judged(repository, "HEAD", "WORKTREE", named)
    assert workbench.config.fail_on == {ChangeKind.EDITED}
    assert workbench.notes == ()


def test_without_any_configuration_the_defaults_hold_and_nothing_is_said(repository: Repository) -> None:
    workbench = judged(repository, "HEAD", "WORKTREE")
    assert (workbench.config, workbench.notes) == (Config(), ())


def test_a_suite_that_is_a_symlink_is_told_of(repository: Repository) -> None:
    folder = repository.place / "datasets" / "suites" / "s" / "execution"
    folder.mkdir(parents=True)
    (folder / "real.json").write_text('{"tests": []}')
    (folder / "linked.json").symlink_to("real.json")
    repository.commit()
    with open_workbench(repository.place, Choice()) as workbench:
        for side in workbench.pair("HEAD", "WORKTREE"):
            assert [note for note in side.suites.notes if "symlink" in note] == [
                "'datasets/suites/s/execution/linked.json' is a symlink, so its tests are not read."
            ]


def test_a_configuration_that_is_misnamed_is_not_ignored(repository: Repository) -> None:
    (repository.place / "refcompare.yaml").write_text("fail_on: none\n")
    with (
        pytest.raises(UsageError, match=r"rename it to refcompare\.yml"),
        open_workbench(repository.place, Choice()),
    ):
        pass
    repository.configure("fail_on: none\n")
    with open_workbench(repository.place, Choice()) as workbench:
        assert not workbench.config.fail_on
