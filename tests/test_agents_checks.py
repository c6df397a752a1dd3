"""Every check holds for what it should and for nothing that only looks like it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refcompare.agents.checks import make_check
from refcompare.agents.checks.interface import CheckResult, CommandResult, Evidence
from refcompare.agents.checks.landmarks import landmarks, share_seen
from refcompare.agents.checks.shell import commands
from refcompare.agents.programs.trajectory import Call, FileRead, Trajectory
from refcompare.agents.workspace.capture import capture, listing
from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.results import ErrorKind, Record, Verdict
from refcompare.wordpress.graders import installed_grader
from refcompare.wordpress.native import NativeRuntime
from refcompare.wordpress.php import Php
from refcompare.wordpress.site import Site

GUIDE = "\n".join(
    f"{number}. Rule number {number} says that {word} is never {word}ed twice in one release."
    for number, word in enumerate(
        ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet"] * 4, 1
    )
)
OTHER = "\n".join(
    f"Chapter {number} tells of nothing that matters here, item {number * 7}." for number in range(40)
)
FILES = {
    "AGENTS.md": "Read docs/guide.md before you write any code in this repository.\n",
    "docs/guide.md": GUIDE,
    "docs/other.md": OTHER,
    ".agents/skills/greeting/SKILL.md": "---\nname: greeting\n---\nSay hello in the house style.\n",
    "src/a.php": "<?php\n// one\n",
}


@dataclass
class Arm:
    files: Mapping[str, str | bytes] = field(default_factory=lambda: FILES)
    links: Mapping[str, str] = field(default_factory=dict)

    def read(self, path: str) -> bytes | None:
        found = self.files.get(self.canonical(path))
        return found.encode() if isinstance(found, str) else found

    def canonical(self, path: str) -> str:
        return self.links.get(path, path)


@dataclass
class Tools:
    results: list[CommandResult] = field(default_factory=list)
    record: Record | None = None
    asked: list[Any] = field(default_factory=list)

    def command(self, command: str, seconds: float) -> CommandResult:
        self.asked.append((command, seconds))
        return self.results.pop(0)

    def wordpress(self, test: ExecutionTest, candidate: Candidate, limits: Limits) -> Record:
        self.asked.append((test, candidate, limits))
        assert self.record is not None
        return self.record


class Trial:
    """A trial to be graded: what was called, what was read, and a workspace that was changed."""

    def __init__(self, place: Path) -> None:
        self.root, original = place / "workspace", place / "original"
        for path, text in FILES.items():
            (original / path).parent.mkdir(parents=True, exist_ok=True)
            (original / path).write_text(text)
        shutil.copytree(original, self.root)
        self._before, self._original = listing(self.root), original
        self.arm, self.tools = Arm(), Tools()
        self.calls: list[Call] = []
        self.reads: list[FileRead] = []
        self.skills: tuple[str, ...] = ()

    def call(self, name: str, given: Any, output: str = "", read: str | None = None, **fields: Any) -> None:
        """Add a call; ``read`` is the path that the agent's adapter says was read by it."""
        if read is not None and not fields.get("is_error"):
            self.reads.append(FileRead(read, output, len(self.calls)))
        self.calls.append(Call(name, given, output, **fields))

    def shell(self, line: str, output: str = "", **fields: Any) -> None:
        self.call("Bash", {"command": line}, output, **fields)

    def write(self, path: str, text: str | bytes) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(text.encode() if isinstance(text, str) else text)

    def grade(self, kind: str, value: Any) -> CheckResult:
        trajectory = Trajectory("test", tuple(self.calls), self.skills, tuple(self.reads))
        change = capture(self.root, self._before, self._original)
        evidence = Evidence(trajectory, change, self.root, self.arm, self.tools)
        return make_check(kind, value).grade(evidence)


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)


def numbered(text: str, first: int = 1) -> str:
    """Give a text as a tool for reading files does, with the number of each line."""
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(text.split("\n"), first))


def piece(first: int, last: int) -> str:
    return numbered("\n".join(GUIDE.split("\n")[first - 1 : last]), first)


# ------------------------------------------------------------------------ read and not-read


def full_read(trial: Trial) -> None:
    trial.call("Read", {"file_path": "/workspace/docs/guide.md"}, numbered(GUIDE), read="docs/guide.md")


def read_in_two_pieces(trial: Trial) -> None:
    trial.call("Read", {"offset": 1}, piece(1, 20), read="docs/guide.md")
    trial.call("Read", {"offset": 21}, piece(21, 40), read="docs/guide.md")


def read_through_a_shell(trial: Trial) -> None:
    trial.shell("cat docs/guide.md", GUIDE)


def read_in_pieces_through_different_tools(trial: Trial) -> None:
    trial.call("Read", {"limit": 20}, piece(1, 20), read="docs/guide.md")
    trial.shell("sed -n '21,40p' docs/guide.md", "\n".join(GUIDE.split("\n")[20:]))


def read_through_a_link(trial: Trial) -> None:
    trial.arm.links = {"GUIDE.md": "docs/guide.md"}
    trial.call("Read", {}, numbered(GUIDE), read="GUIDE.md")


def read_through_a_generated_copy(trial: Trial) -> None:
    trial.arm.links = {".claude/docs/guide.md": "docs/guide.md"}
    trial.call("Read", {}, numbered(GUIDE), read=".claude/docs/guide.md")


def read_by_a_program_of_its_own(trial: Trial) -> None:
    trial.shell('python3 -c \'print(open("docs/gu" + "ide.md").read())\'', GUIDE)


def read_along_with_another_file(trial: Trial) -> None:
    trial.shell("cat docs/other.md docs/guide.md", OTHER + GUIDE)


def read_by_a_command_that_failed_afterwards(trial: Trial) -> None:
    trial.shell(
        "cat docs/guide.md missing", GUIDE + "\ncat: missing: No such file", is_error=True, exit_code=1
    )


def read_as_json(trial: Trial) -> None:
    trial.call("mcp__files__read", {"path": "x"}, '{"text": "' + GUIDE.replace("\n", "\\n") + '"}')


READS = [
    full_read,
    read_in_two_pieces,
    read_through_a_shell,
    read_in_pieces_through_different_tools,
    read_through_a_link,
    read_through_a_generated_copy,
    read_by_a_program_of_its_own,
    read_along_with_another_file,
    read_by_a_command_that_failed_afterwards,
]


@pytest.mark.parametrize("how", READS)
def test_contents_that_came_back_are_a_read(trial: Trial, how: Callable[[Trial], None]):
    how(trial)
    assert trial.grade("read", "docs/guide.md") == CheckResult(True, 1.0)
    opposite = trial.grade("not-read", "docs/guide.md")
    assert (opposite.passed, opposite.score) == (False, 0.0)
    assert opposite.message == "100% of it came back"


def nothing(trial: Trial) -> None:
    pass


def another_file(trial: Trial) -> None:
    trial.call("Read", {}, numbered(OTHER), read="docs/other.md")


def a_grep(trial: Trial) -> None:
    trial.call("Grep", {"pattern": "never"}, GUIDE)


def a_grep_in_a_shell(trial: Trial) -> None:
    trial.shell("cd docs && grep -rn never . | sort", GUIDE)


def a_git_grep(trial: Trial) -> None:
    trial.shell("git grep -n Rule", GUIDE)


def an_ls(trial: Trial) -> None:
    trial.shell("ls -la docs", "total 8\n-rw-r--r-- 1 agent agent 3000 guide.md\n")


def a_denied_read(trial: Trial) -> None:
    trial.call(
        "Read",
        {"file_path": "docs/guide.md"},
        "Permission to read has been denied.",
        read="docs/guide.md",
        is_error=True,
    )


def a_path_that_is_only_mentioned(trial: Trial) -> None:
    trial.call("Read", {}, numbered(FILES["AGENTS.md"]), read="AGENTS.md")
    trial.shell("echo read docs/guide.md", "read docs/guide.md\n")


def its_own_words(trial: Trial) -> None:
    trial.shell(f"cat <<'EOF'\n{GUIDE}\nEOF", GUIDE)


def an_edit_that_failed(trial: Trial) -> None:
    trial.call("Edit", {}, f"String to replace not found in file:\n{GUIDE}", is_error=True)


@pytest.mark.parametrize(
    "how",
    [
        nothing,
        another_file,
        a_grep,
        a_grep_in_a_shell,
        a_git_grep,
        an_ls,
        a_denied_read,
        a_path_that_is_only_mentioned,
        its_own_words,
        an_edit_that_failed,
    ],
)
def test_what_is_no_read_counts_for_nothing(trial: Trial, how: Callable[[Trial], None]):
    how(trial)
    found = trial.grade("read", "docs/guide.md")
    assert (found.passed, found.score, found.message) == (False, 0.0, "0% of it came back")
    assert trial.grade("not-read", "docs/guide.md") == CheckResult(True, 1.0)


def a_head(trial: Trial) -> None:
    trial.shell("head -20 docs/guide.md", "\n".join(GUIDE.split("\n")[:20]))


def a_read_that_stopped_early(trial: Trial) -> None:
    trial.call("Read", {"limit": 20}, piece(1, 20), read="docs/guide.md")


def output_that_the_tool_truncated(trial: Trial) -> None:
    cut = GUIDE[: len(GUIDE) // 2]
    trial.shell("cat docs/guide.md", f"{cut}\n... [{len(cut)} characters truncated] ...")


@pytest.mark.parametrize("how", [a_head, a_read_that_stopped_early, output_that_the_tool_truncated])
def test_half_of_a_file_is_half_a_score_and_no_read(trial: Trial, how: Callable[[Trial], None]):
    how(trial)
    found = trial.grade("read", "docs/guide.md")
    assert found.passed is False
    assert found.score == pytest.approx(0.5, abs=0.05)
    assert trial.grade("not-read", "docs/guide.md").passed is False
    assert trial.grade("read", {"path": "docs/guide.md", "at-least": 0.4}).passed is True
    assert trial.grade("not-read", {"path": "docs/guide.md", "at-most": 0.6}).passed is True


def test_reading_text_that_json_escapes_is_a_read_too(trial):
    read_as_json(trial)
    assert trial.grade("read", {"path": "docs/guide.md", "at-least": 0.8}).passed is True


def test_a_file_is_told_by_the_text_of_its_own_arm(trial):
    full_read(trial)
    trial.arm.files = {**FILES, "docs/guide.md": GUIDE.replace("says that", "now demands that")}
    assert trial.grade("read", "docs/guide.md").passed is False


def test_a_file_that_the_arm_has_not_is_said_and_not_failed(trial):
    assert trial.grade("read", "docs/gone.md") == CheckResult.missing("docs/gone.md is not on this arm")
    assert trial.grade("not-read", "docs/gone.md").absent


def test_a_file_without_words_cannot_be_told(trial):
    trial.arm.files = {"logo.txt": "*** --- ***\n"}
    assert trial.grade("read", "logo.txt").absent


def test_one_long_line_is_sampled_throughout(trial):
    line = " ".join(f"token{number}" for number in range(500))
    trial.arm.files = {"long.txt": line}
    trial.shell("cat long.txt", f"{line[: len(line) // 4]} [line truncated]")
    found = trial.grade("read", "long.txt")
    assert found.score == pytest.approx(0.25, abs=0.06)


TEXTS = st.lists(
    st.text(st.sampled_from("abcdefgh  ,.\n\u6f22\u5b57"), min_size=1, max_size=40), max_size=60
).map("\n".join)


@settings(deadline=None, derandomize=True)
@given(TEXTS)
def test_a_whole_text_has_all_of_its_landmarks_and_an_empty_one_none(text):
    marks = landmarks(text)
    assert len(marks) <= 24
    assert share_seen(marks, [text]) == (1.0 if marks else 0.0)
    assert share_seen(marks, [numbered(text)]) == share_seen(marks, [text])
    assert share_seen(marks, [""]) == 0.0
    assert bool(marks) == any(character.isalnum() for character in text)


# ---------------------------------------------------------------------------------- calls


def test_a_skill_is_used_when_the_agent_used_it(trial):
    trial.skills = ("greeting",)
    assert trial.grade("skill-used", "greeting") == CheckResult(True, 1.0)


def test_a_skill_that_was_only_read_about_is_not_used(trial):
    trial.shell("ls .agents/skills", "greeting\n")
    assert trial.grade("skill-used", "greeting").passed is False


def test_a_skill_that_the_arm_has_not_is_said_and_not_failed(trial):
    assert trial.grade("skill-used", "farewell") == CheckResult.missing(
        "there is no skill farewell on this arm"
    )


@pytest.mark.parametrize(
    ("value", "passed"),
    [
        ("Bash", True),
        ("Ba*", True),
        ("Read", False),
        ("bash", False),
        ({"tool": "Bash", "at-least": 2}, True),
        ({"tool": "Bash", "at-least": 3}, False),
        ({"tool": "Bash", "at-most": 1}, False),
        ({"tool": "Bash", "at-most": 0}, False),
        ({"tool": "WebFetch", "at-most": 0}, True),
        ({"tool": "Bash", "input": "npm"}, True),
        ({"tool": "*", "input": "npm", "at-least": 2}, False),
    ],
)
def test_calls_of_a_tool_are_counted(trial, value, passed):
    trial.shell("npm test")
    trial.shell("ls")
    assert trial.grade("tool-called", value).passed is passed


@pytest.mark.parametrize(
    "line",
    [
        "npm test",
        "cd app && npm test -- --watch=false",
        "CI=1 npm test 2>&1 | tail -5",
        "timeout 60 npm test",
        "bash -lc 'cd app; npm test'",
        "if true; then\n  npm test\nfi",
        "(npm test)",
        "echo $(npm test)",
        "/usr/bin/npm test",
    ],
)
def test_a_command_ran_however_it_was_written(trial, line):
    trial.shell(line)
    assert trial.grade("ran", "npm test").passed is True


@pytest.mark.parametrize(
    "line",
    [
        "echo 'npm test'",
        "npm run test",
        "# npm test",
        "cat > run.sh <<'EOF'\nnpm test\nEOF",
        "grep 'npm test' README.md",
        "npm",
        "'npm test",
        "npm testing",
    ],
)
def test_a_command_that_is_only_mentioned_did_not_run(trial, line):
    trial.shell(line)
    trial.call("Write", {"file_path": "x", "content": "npm test"})
    assert trial.grade("ran", "npm test").passed is False


def test_the_list_of_words_that_another_agent_gives_is_a_command_too(trial):
    trial.call("shell", {"command": ["bash", "-lc", "npm test"]})
    trial.call("exec_command", {"cmd": "composer  run lint"})
    assert trial.grade("ran", "npm test").passed is True
    assert trial.grade("ran", "composer * lint").passed is True


def test_the_exit_code_is_that_of_the_call(trial):
    trial.shell("npm test", "1 failing", is_error=True, exit_code=1)
    assert trial.grade("ran", {"command": "npm test", "exit": 1}).passed is True
    found = trial.grade("ran", {"command": "npm test", "exit": 0})
    assert (found.passed, found.message) == (False, "it ended with 1, not with 0")
    trial.shell("npm test", "all passing", exit_code=0)
    assert trial.grade("ran", {"command": "npm test", "exit": 0}).passed is True


def test_an_exit_code_that_nobody_knows_is_not_graded(trial):
    trial.shell("npm test", "failed", is_error=True)
    assert trial.grade("ran", {"command": "npm test", "exit": 1}).passed is None


@settings(deadline=None, derandomize=True)
@given(st.text(st.sampled_from("ab '\"\\$(){};&|<>#\n=-/"), max_size=40))
def test_no_line_of_a_shell_is_too_strange_to_be_split(line):
    assert all(commands(line))


# -------------------------------------------------------------------------------- changes


def test_changed_paths_are_told_by_globs_and_folders(trial):
    trial.write("src/a.php", "<?php\n// two\n")
    trial.write("src/deep/new.php", "<?php\n")
    assert trial.grade("changed", "src/a.php").passed is True
    assert trial.grade("changed", ["src", "src/**/new.php"]).passed is True
    half = trial.grade("changed", ["src/*.php", "tests"])
    assert (half.passed, half.score, half.message) == (False, 0.5, "unchanged: tests")
    assert trial.grade("not-changed", "docs").passed is True
    found = trial.grade("not-changed", ["docs", "src/deep"])
    assert (found.passed, found.message) == (False, "changed: src/deep/new.php")


def test_a_deleted_file_is_changed(trial):
    (trial.root / "src/a.php").unlink()
    assert trial.grade("changed", "src/a.php").passed is True


def test_what_the_diff_contains_is_looked_for_on_its_own_side_and_in_its_own_files(trial):
    trial.write("src/a.php", "<?php\n// two\nadd_action( 'init', 'x' );\n")
    assert trial.grade("diff-contains", "add_action( 'init'").passed is True
    assert trial.grade("diff-contains", "// two\nadd_action").passed is True
    assert trial.grade("diff-contains", "// one").passed is False
    assert trial.grade("diff-contains", {"text": "// one", "in": "removed"}).passed is True
    assert trial.grade("diff-contains", {"text": "// two", "path": "docs"}).passed is False
    both = trial.grade("diff-contains", ["// two", "// three"])
    assert (both.passed, both.score, both.message) == (False, 0.5, "not added: // three")


def test_the_heading_of_a_diff_is_not_part_of_what_was_added(trial):
    trial.write("src/new.php", "x\n")
    assert trial.grade("diff-contains", "src/new.php").passed is False
    trial.write("src/a.php", "<?php\n++ b/strange\n")
    assert trial.grade("diff-contains", "++ b/strange").passed is True


# --------------------------------------------------------------------------- the result


def test_a_file_of_the_result_has_and_lacks_texts(trial):
    trial.write("out.txt", "alpha beta\n")
    assert trial.grade("file", "out.txt") == CheckResult(True, 1.0)
    assert trial.grade("file", {"path": "out.txt", "contains": "beta", "lacks": "gamma"}).passed is True
    found = trial.grade("file", {"path": "out.txt", "contains": ["beta", "gamma"], "lacks": "alpha"})
    assert (found.passed, found.score) == (False, 0.5)
    assert found.message == "it lacks gamma; it holds alpha"
    assert trial.grade("file", "gone.txt").passed is False
    assert trial.grade("file", {"path": "gone.txt", "exists": False}).passed is True
    assert trial.grade("file", {"path": "out.txt", "exists": False}).passed is False


def test_a_link_is_not_a_file_of_the_result(trial, tmp_path):
    (tmp_path / "secret").write_text("canary")
    (trial.root / "out.txt").symlink_to(tmp_path / "secret")
    assert trial.grade("file", {"path": "out.txt", "contains": "canary"}).passed is False


def test_a_command_passes_by_its_exit_code_and_output(trial):
    trial.tools.results = [
        CommandResult(0, "fine\n"),
        CommandResult(2, "broken\n"),
        CommandResult(2, "broken\n"),
        CommandResult(None, ""),
        CommandResult(0, "fine\n"),
    ]
    assert trial.grade("command", "make").passed is True
    assert trial.grade("command", "make").message == "it ended with 2: broken"
    assert trial.grade("command", {"run": "make", "exit": 2, "output-contains": "broken"}).passed is True
    assert trial.grade("command", {"run": "make", "seconds": 5}).message == "it did not end within 5 s"
    assert trial.grade("command", {"run": "make", "output-contains": "perfect"}).passed is False
    assert trial.tools.asked[0] == ("make", 60.0)


# ------------------------------------------------------------------------------- wordpress

PLUGIN = "<?php\n/**\n * Plugin Name: Acme\n */\nfunction acme_hello() { return 'hello'; }\n"
ASSERTIONS = [
    {"type": "function_exists", "target": "acme_hello"},
    {"type": "returns_value", "target": "return acme_hello();", "expected": "hello"},
]
WORDPRESS = {"plugin": "plugins/acme", "assertions": ASSERTIONS}


def test_the_files_of_the_plugin_are_what_is_graded(trial):
    trial.write("plugins/acme/acme.php", PLUGIN)
    trial.write("plugins/acme/inc/more.php", "<?php\n")
    trial.write("plugins/other/x.php", "<?php\n")
    trial.tools.record = Record("x", "completion:test", Verdict.PASS, 1.0, score=1.0)
    assert trial.grade("wordpress", WORDPRESS) == CheckResult(True, 1.0)
    ((test, candidate, limits),) = trial.tools.asked
    assert candidate == Candidate("completion:test", files={"acme.php": PLUGIN, "inc/more.php": "<?php\n"})
    assert test.artifact_kind == "wp_plugin_files" and test.assertions == tuple(ASSERTIONS)
    assert limits.seconds == 90


def too_many(trial: Trial) -> None:
    for number in range(21):
        trial.write(f"plugins/acme/{number}.php", "<?php\n")


def too_large(trial: Trial) -> None:
    trial.write("plugins/acme/a.php", "x" * 300_000)


def a_link(trial: Trial) -> None:
    trial.write("plugins/acme/a.php", PLUGIN)
    (trial.root / "plugins/acme/b.php").symlink_to("/etc/passwd")


def a_bad_name(trial: Trial) -> None:
    trial.write("plugins/acme/a b.php", PLUGIN)


def no_text(trial: Trial) -> None:
    trial.write("plugins/acme/a.php", b"\xff\xfe")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (nothing, "there is no plugin in plugins/acme"),
        (too_many, "the plugin has 21 files, 20 are allowed"),
        (too_large, "a.php cannot be read, or has more than 262,144 bytes"),
        (a_link, "b.php is a symlink, and a plugin has only files"),
        (a_bad_name, "a b.php is a name that a plugin's file cannot have"),
        (no_text, "a.php is not UTF-8"),
    ],
)
def test_what_cannot_be_installed_fails_without_being_run(trial, how, message):
    how(trial)
    found = trial.grade("wordpress", WORDPRESS)
    assert (found.passed, found.message, trial.tools.asked) == (False, message, [])


def test_a_broken_environment_is_not_graded(trial):
    trial.write("plugins/acme/acme.php", PLUGIN)
    trial.tools.record = Record(
        "x", "c", Verdict.ERROR, 1.0, error_kind=ErrorKind.INFRASTRUCTURE, message="no PHP"
    )
    assert trial.grade("wordpress", WORDPRESS) == CheckResult(None, None, "no PHP")


@pytest.mark.wordpress
def test_a_plugin_is_installed_into_the_wordpress_that_grades_execution_tests(trial, site: Site, php: Php):
    grader = GradingThread(NativeRuntime(site, php, installed_grader()))
    trial.tools.wordpress = grader.grade
    try:
        trial.write("plugins/acme/acme.php", PLUGIN)
        assert trial.grade("wordpress", WORDPRESS) == CheckResult(True, 1.0)
        trial.write("plugins/acme/acme.php", PLUGIN.replace("'hello'", "'bye'"))
        found = trial.grade("wordpress", WORDPRESS)
        assert (found.passed, found.score) == (False, 0.5)
        trial.write("plugins/acme/acme.php", "<?php\n")
        assert trial.grade("wordpress", WORDPRESS).passed is False
    finally:
        grader.close()
