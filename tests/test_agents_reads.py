"""Which files a shell command printed, told from the command alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from refcompare.agents.checks.shell import shell_line
from refcompare.agents.checks.shell_reads import relative_path, shell_reads, skills_read, without_numbers
from refcompare.agents.programs.trajectory import Call, FileRead


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("cat AGENTS.md", ["AGENTS.md"]),
        ("cat a.md b.md a.md", ["a.md", "b.md"]),
        ("sed -n '1,200p' docs/a.md", ["docs/a.md"]),
        ("sed -n -e 1,9p -e 20p docs/a.md", ["docs/a.md"]),
        ("head -n 20 a.md; tail -c 5 b.md", ["a.md", "b.md"]),
        ("head -20 a.md", ["a.md"]),
        ("nl -ba a.md | sed -n '3,9p'", ["a.md"]),
        ("bash -lc 'cat a.md'", ["a.md"]),
        ("cd docs && cat a.md ../b.md", ["docs/a.md", "b.md"]),
        ("cat /workspace/a.md ./b.md", ["a.md", "b.md"]),
        ("awk '{print}' a.md", ["a.md"]),
        ("set -e; echo start; cat a.md; exit 0", ["a.md"]),
        # What is outside of the workspace, or not said, is no read.
        ("cat /etc/passwd ~/x ../y", []),
        ('cat "$FILE"', []),
        ("cat", []),
        ("cat -", []),
        ("", []),
        # Something else may have printed.
        ("grep -n rule a.md", []),
        ("cat a.md; ls", []),
        ("python3 tool.py a.md", []),
        ("ls a.md", []),
        ("echo a.md", []),
    ],
)
def test_the_files_that_a_command_prints_are_told(command: str, paths: list[str], tmp_path: Path):
    assert [read.path for read in shell_reads(command, "text", 3, tmp_path)] == paths


def test_a_read_holds_all_that_came_back_and_its_call(tmp_path: Path):
    assert shell_reads("cat a", "text", 3, tmp_path) == (FileRead("a", "text", 3),)


def test_a_pattern_stands_for_the_files_that_it_matches(tmp_path: Path):
    for name in ("b.md", "a.md", "c.txt"):
        (tmp_path / name).write_text("")
    assert {read.path for read in shell_reads("cat *.md", "", 0, tmp_path)} == {"a.md", "b.md"}
    assert shell_reads("cat **/*.md none*.md", "", 0, tmp_path) == ()


def test_a_command_is_read_from_where_it_ran(tmp_path: Path):
    assert shell_reads("cat a", "", 0, tmp_path, "/workspace/docs")[0].path == "docs/a"


def test_paths_are_told_from_the_workspace():
    assert relative_path("/workspace/a/../b") == "b"
    assert relative_path("a", "/workspace/docs") == "docs/a"
    assert relative_path("/workspace") == "."
    assert relative_path("/workspace-other/a") is None
    assert relative_path("../etc/passwd") is None


def test_line_numbers_are_taken_off():
    assert without_numbers("     1\tone\n    20→two\n3\t") == "one\ntwo\n"
    assert without_numbers("1. a list\n2) stays") == "1. a list\n2) stays"


def test_a_skill_is_read_where_its_own_file_came_back():
    calls = [
        Call("Bash", {"command": "cat .agents/skills/one/SKILL.md && ls"}, "text", exit_code=0),
        Call("Bash", {"command": "cat .claude/skills/two/SKILL.md"}, "", exit_code=0),
        Call("Bash", {"command": "cat .codex/skills/three/SKILL.md"}, "no such file", True, exit_code=1),
        Call("Read", {"file_path": "x"}, "text"),
        Call("Bash", {"command": "cat .agents/skills/five/notes.md"}, "text", exit_code=0),
        Call("Bash", {"command": "grep x .agents/skills/six/SKILL.md"}, "text", exit_code=0),
    ]
    lines = list(map(shell_line, calls))
    reads = [FileRead("deep/.claude/skills/four/SKILL.md", "text", 3)]
    assert skills_read(calls, lines, reads) == ["one", "four"]
