"""What an agent finds in its workspace, what is kept from it, and that no two trials share anything."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from refcompare.agents.evals import WorkspaceSpec
from refcompare.agents.sandbox.boundary import Boundary, View, workspace_owner
from refcompare.agents.sandbox.bubblewrap import BubblewrapBoundary
from refcompare.agents.sandbox.confined import MOST_OUTPUT, run_confined
from refcompare.agents.workspace.workspaces import ArmTree, ArmWorkspace, build_workspace
from refcompare.errors import UsageError
from refcompare.git import Repository
from refcompare.sandbox import probe
from refcompare.tree import TreeFile
from tests.suite_files import MemoryTree
from tests.support_git import Scratch, isolate

SKILL = "---\nname: greeting\ndescription: How to greet.\n---\nSay hello.\n"
FILES = {
    "AGENTS.md": b"Be kind.\n",
    ".agents/skills/greeting/SKILL.md": SKILL.encode(),
    "src/run.sh": b"#!/bin/sh\n",
    "docs/a.md": b"a\n",
    "refcompare.yml": b"jobs: 1\n",
    "datasets/suites/guide/agent/greets.yaml": b"the answers\n",
    "datasets/suites/guide/execution/a.json": b"{}\n",
}

needs_sandbox = pytest.mark.skipif(not probe().works, reason="no sandbox works here")


@dataclass(frozen=True)
class Linked(MemoryTree):
    """A tree in memory that has symlinks too."""

    targets: Mapping[str, str] = field(default_factory=dict)

    def links(self) -> Mapping[str, str]:
        return self.targets

    def files(self) -> Iterator[TreeFile]:
        for file in super().files():
            yield TreeFile(file.path, file.size, executable=file.path.endswith(".sh"))


def seen(given: Mapping[str, bytes] = FILES, /, links: Mapping[str, str] | None = None, **spec) -> ArmTree:
    return ArmTree(Linked(given, targets=links or {}), WorkspaceSpec(**spec))


def paths(tree: ArmTree) -> list[str]:
    return [file.path for file in tree.files()]


# ---------------------------------------------------------------------------- what is in it


def test_definitions_of_evals_and_the_configuration_are_not_in_it():
    assert paths(seen()) == [
        ".agents/skills/greeting/SKILL.md",
        ".claude/skills/greeting/SKILL.md",
        "AGENTS.md",
        "datasets/suites/guide/execution/a.json",
        "docs/a.md",
        "src/run.sh",
    ]


def test_hidden_paths_are_not_in_it_neither_is_a_copy_of_them():
    found = paths(seen(hide=("docs", "datasets/**", "**/SKILL.md")))
    assert found == ["AGENTS.md", "src/run.sh"]
    assert ".claude/skills/greeting/SKILL.md" not in paths(seen(hide=(".claude",)))


def test_the_evals_own_files_are_added_or_take_the_place_of_the_trees():
    tree = seen(files={"AGENTS.md": "Be blunt.\n", "new/b.txt": "b"})
    assert tree.read("AGENTS.md") == b"Be blunt.\n"
    assert tree.read("new/b.txt") == b"b"
    assert "new/b.txt" in paths(tree)


def test_skills_are_announced_where_claude_code_looks_unless_the_repository_does_so():
    tree = seen()
    assert tree.read(".claude/skills/greeting/SKILL.md") == SKILL.encode()
    assert tree.canonical(".claude/skills/greeting/SKILL.md") == ".agents/skills/greeting/SKILL.md"
    own = seen({**FILES, ".claude/skills/own/SKILL.md": b"own\n"})
    assert ".claude/skills/greeting/SKILL.md" not in paths(own)
    linked = seen(links={".claude/skills": "../.agents/skills"})
    assert ".claude/skills/greeting/SKILL.md" not in paths(linked)
    assert linked.canonical(".claude/skills/greeting/SKILL.md") == ".agents/skills/greeting/SKILL.md"


def test_a_link_inside_the_tree_is_kept_and_known():
    links = {"CLAUDE.md": "AGENTS.md", "docs/up": "../AGENTS.md", "manual": "docs", "chain": "CLAUDE.md"}
    tree = seen(links=links)
    assert tree.links == links
    assert tree.canonical("chain") == tree.canonical("docs/up") == "AGENTS.md"
    assert tree.canonical("manual/a.md") == "docs/a.md"
    assert tree.canonical("manual/../AGENTS.md") == "AGENTS.md"
    assert tree.canonical("no/such/file") == "no/such/file"
    assert tree.notes == ()


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("x", "/etc/passwd"),
        ("x", "../outside"),
        ("docs/x", "../../outside"),
        ("x", "x"),
        ("x", "docs/../../outside"),
        ("x", "nowhere"),
        ("x", "refcompare.yml"),
        ("x", "datasets/suites/guide/agent/greets.yaml"),
        ("x", "docs/a.md\0"),
    ],
)
def test_a_link_that_leads_out_in_a_circle_or_to_what_is_hidden_is_left_out(path, target):
    tree = seen(links={path: target})
    assert tree.links == {}
    assert tree.notes == (f"the link {path} leads to nothing in the workspace and is left out",)


def test_links_that_lead_out_together_are_left_out_together():
    tree = seen(links={"a": "docs", "docs/b": "..", "x": "a/b/b/../outside", "y": "a/b/AGENTS.md"})
    assert "x" not in tree.links
    assert tree.canonical("y") == "AGENTS.md"


@pytest.mark.parametrize("spec", ["HEAD", "WORKTREE"])
def test_links_are_read_from_a_ref_by_their_target_alone(tmp_path, monkeypatch, spec):
    isolate(monkeypatch, tmp_path)
    scratch = Scratch.create(tmp_path / "repository")
    scratch.write("AGENTS.md", "Be kind.\n")
    (scratch.path / "CLAUDE.md").symlink_to("AGENTS.md")
    (scratch.path / "away").symlink_to("/etc")
    scratch.commit()
    with Repository.discover(scratch.path) as repository:
        assert repository.resolve(spec).links() == {"CLAUDE.md": "AGENTS.md", "away": "/etc"}
        (scratch.path / "more").symlink_to("AGENTS.md")
        assert ("more" in repository.resolve(spec).links()) is (spec == "WORKTREE")


def test_the_digest_is_of_what_the_agent_sees():
    assert seen().digest == seen().digest
    digests = {
        seen().digest,
        seen(hide=("docs",)).digest,
        seen(files={"a": "1"}).digest,
        seen(files={"a": "2"}).digest,
    }
    assert len(digests) == 4


# ---------------------------------------------------------------------------- on the disk


@pytest.fixture
def boundary() -> Boundary:
    return BubblewrapBoundary()


@pytest.fixture
def built(boundary: Boundary) -> Iterator[ArmWorkspace]:
    tree = Linked(FILES, targets={"CLAUDE.md": "AGENTS.md", "away": "/etc"})
    with build_workspace(tree, WorkspaceSpec(), boundary) as workspace:
        yield workspace


def inside(boundary: Boundary, workspace: Path, command: str) -> str:
    done = run_confined(boundary, command, View(workspace), 60)
    assert done.exit_code == 0, done.output
    return done.output


@needs_sandbox
def test_the_agent_finds_the_tree_committed_once_and_clean(built, boundary):
    with built.trial() as trial:
        assert inside(boundary, trial.path, "git status --porcelain") == ""
        assert inside(boundary, trial.path, "git log --format=%s%d").strip() == (
            "The workspace as it was given (HEAD -> main, tag: start)"
        )
        assert inside(boundary, trial.path, "git remote; git config core.hooksPath || true") == ""
        assert inside(boundary, trial.path, "cat CLAUDE.md; ls -d away || true").startswith("Be kind.\n")
        assert (trial.path / "src/run.sh").stat().st_mode & 0o777 == 0o755
        assert trial.change().files == ()


@needs_sandbox
def test_the_agent_may_change_everything_and_the_change_is_told(built, boundary):
    with built.trial() as trial:
        inside(
            boundary,
            trial.path,
            "echo more >> AGENTS.md && mkdir new && echo x > new/x && rm docs/a.md "
            "&& git add -A && git commit -qm mine && git config core.fsmonitor /workspace/new/x",
        )
        change = trial.change()
    assert {item.path: item.kind for item in change.files} == {
        "AGENTS.md": "modified",
        "docs/a.md": "deleted",
        "new/x": "added",
    }
    assert "+more\n" in change.diff


@needs_sandbox
def test_no_trial_shares_a_byte_with_another_or_with_the_original(built, boundary):
    with built.trial() as one, built.trial() as other:
        inside(boundary, one.path, "echo spoilt > AGENTS.md; chmod 0 src; git tag -d start")
        assert (other.path / "AGENTS.md").read_bytes() == b"Be kind.\n"
        assert other.change().files == ()
        inodes = [(place / "AGENTS.md").stat().st_ino for place in (one.path, other.path, other.original)]
        assert len(set(inodes)) == 3
        assert (other.original / "AGENTS.md").stat().st_nlink == 1
    with built.trial() as third:
        assert (third.path / "AGENTS.md").read_bytes() == b"Be kind.\n"
        assert inside(boundary, third.path, "git tag").strip() == "start"


@needs_sandbox
def test_nothing_is_left_of_a_trial_or_of_the_workspace(boundary):
    with build_workspace(Linked(FILES), WorkspaceSpec(), boundary) as workspace:
        with workspace.trial() as trial:
            inside(boundary, trial.path, "mkdir -p a/b && chmod 0 a; mkfifo pipe; ln -s / root")
            place, original = trial.path.parent, trial.original.parent
        assert original.is_dir()
    assert not place.exists()
    assert not original.exists()


@needs_sandbox
def test_a_workspace_belongs_to_whom_agents_run_as(built):
    with built.trial() as trial:
        for path in (trial.path, trial.path / "AGENTS.md", trial.path / ".git" / "HEAD"):
            assert path.stat().st_uid == workspace_owner()[0]
        assert trial.path.parent.stat().st_mode & 0o077 == 0


@needs_sandbox
def test_what_setup_made_is_part_of_what_was_given(boundary):
    spec = WorkspaceSpec(setup=("mkdir build", "echo made > build/out.txt && echo build > .gitignore"))
    with build_workspace(Linked(FILES), spec, boundary) as workspace, workspace.trial() as trial:
        assert (trial.path / "build/out.txt").read_text() == "made\n"
        assert inside(boundary, trial.path, "git status --porcelain --ignored") == ""
        assert trial.change().files == ()


@needs_sandbox
def test_a_setup_command_that_fails_is_told_with_what_it_said(boundary):
    spec = WorkspaceSpec(setup=("echo no such thing >&2; exit 3",))
    with (
        pytest.raises(UsageError, match="ended with 3: no such thing"),
        build_workspace(Linked(FILES), spec, boundary),
    ):
        pass


@needs_sandbox
def test_setup_has_no_network_and_sees_nothing_of_the_host(boundary, tmp_path):
    (tmp_path / "secret").write_text("canary")
    command = (
        f"! cat {tmp_path}/secret && ! cat /root/.profile && ! ls /home/agent/.ssh "
        "&& ! timeout 5 bash -c 'exec 3<>/dev/tcp/1.1.1.1/53'"
    )
    with build_workspace(Linked(FILES), WorkspaceSpec(setup=(command,)), boundary):
        pass


def test_files_of_the_eval_that_go_through_a_link_of_the_tree_are_refused(boundary):
    tree = Linked({"docs/a.md": b"a"}, targets={"manual": "docs"})
    with (
        pytest.raises(UsageError, match="The link manual cannot be made"),
        build_workspace(tree, WorkspaceSpec(files={"manual/x.md": "x"}), boundary),
    ):
        pass


@needs_sandbox
def test_the_arms_own_text_is_read_by_any_name_of_the_file(built):
    for path in ("AGENTS.md", "CLAUDE.md"):
        assert built.read(path) == b"Be kind.\n"
    assert built.read(".claude/skills/greeting/SKILL.md") == SKILL.encode()
    assert built.read("refcompare.yml") is None
    assert built.read("docs") is None


# ------------------------------------------------------------------------ confined commands


@pytest.fixture
def folder(tmp_path_factory) -> Iterator[Path]:
    place = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    os.chown(place, *workspace_owner())
    yield place
    subprocess.run(["rm", "-rf", place], check=True)


@needs_sandbox
def test_a_command_gives_its_exit_code_and_the_start_of_both_streams(boundary, folder):
    done = run_confined(boundary, "echo out; echo err >&2; exit 7", View(folder), 30)
    assert done.exit_code == 7
    assert sorted(done.output.split()) == ["err", "out"]
    endless = run_confined(boundary, "head -c 3000000 /dev/zero | tr '\\0' x", View(folder), 30)
    assert (endless.exit_code, len(endless.output)) == (0, MOST_OUTPUT)


@needs_sandbox
@pytest.mark.parametrize("command", ["sleep 60", "exec >&- 2>&-; sleep 60", "yes"])
def test_a_command_that_does_not_end_is_ended(boundary, folder, command):
    assert run_confined(boundary, command, View(folder), 1).exit_code is None


@needs_sandbox
def test_a_command_in_the_background_keeps_nobody_waiting(boundary, folder):
    assert run_confined(boundary, "sleep 60 & echo started", View(folder), 30).output == "started\n"


@needs_sandbox
def test_a_workspace_that_is_only_read_cannot_be_written_to(boundary, folder):
    done = run_confined(boundary, "echo x > x; ls", View(folder, read_only=True), 30)
    assert "Read-only file system" in done.output
