"""What an eval may say, how it is told when it says something else, and what its matrix comes to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from refcompare.agents.checks import KINDS
from refcompare.agents.checks.calls import Ran, SkillUsed, ToolCalled
from refcompare.agents.checks.changes import Changed, DiffContains, NotChanged
from refcompare.agents.checks.command import Command
from refcompare.agents.checks.files import File
from refcompare.agents.checks.reads import NotRead, Read
from refcompare.agents.checks.wordpress import WordPress
from refcompare.agents.evals import (
    DEFAULT_GUIDANCE,
    Eval,
    InvalidEval,
    Rubric,
    WorkspaceSpec,
    cases,
    load_evals,
    read_eval,
)
from refcompare.agents.programs.interface import AgentLimits
from refcompare.resources import schema_directory
from refcompare.rules import Chosen, Finding, check_suites
from tests.suite_files import MemoryTree

PATH = "datasets/suites/acme/agent/greets.yaml"
SCHEMA = json.loads((schema_directory() / "agent-eval.schema.json").read_bytes())
SMALLEST: dict[str, Any] = {"id": "greets", "prompt": "Say hello.", "checks": [{"read": "AGENTS.md"}]}


def load(**changed: Any) -> Eval:
    found = read_eval(yaml.safe_dump({**SMALLEST, **changed}, sort_keys=False).encode(), PATH)
    assert isinstance(found, Eval), found
    return found


def faults(text: str | bytes) -> list[str]:
    found = read_eval(text.encode() if isinstance(text, str) else text, PATH)
    assert isinstance(found, InvalidEval)
    return [f"{line}: {sentence}" for line, sentence in found.faults]


def fault(**changed: Any) -> str:
    merged = {**SMALLEST, **changed}
    text = yaml.safe_dump({key: value for key, value in merged.items() if value is not ...}, sort_keys=False)
    (found,) = faults(text)
    return found


# ------------------------------------------------------------------------------ what it says


def test_the_smallest_eval_has_the_defaults():
    found = load()
    assert (found.id, found.suite, found.path, found.line) == ("greets", "acme", PATH, 1)
    assert found.workspace == WorkspaceSpec()
    assert found.guidance == DEFAULT_GUIDANCE
    assert (found.agents, found.variables, found.repeat) == ((), {}, 5)
    assert found.limits == AgentLimits()
    assert found.rubric is None
    assert found.metrics == ("read AGENTS.md",)


def test_every_field_is_read():
    found = load(
        description="Whether it greets.",
        prompt="Greet {{who}}, {{ who }}.",
        workspace={"hide": "docs", "files": {"a/b.txt": "x"}, "setup": ["true"]},
        guidance=[".agents/**"],
        agent="claude",
        limits={"seconds": 60, "turns": 3, "usd": 0.5},
        repeat=7,
        matrix={"variables": {"who": ["Ann", "Bob"]}},
        rubric={"criteria": ["It greets."], "agent": "codex", "at-least": 0.5},
    )
    assert found.workspace == WorkspaceSpec(("docs",), {"a/b.txt": "x"}, ("true",))
    assert found.guidance == (".agents/**",)
    assert found.agents == ("claude",)
    assert found.limits == AgentLimits(60, 3, 0.5)
    assert found.repeat == 7
    assert found.variables == {"who": ("Ann", "Bob")}
    assert found.rubric == Rubric(("It greets.",), 0.5, "codex")
    assert found.metrics == ("read AGENTS.md", "rubric")


@pytest.mark.parametrize(
    ("written", "check"),
    [
        ({"skill-used": "greeting"}, SkillUsed("greeting")),
        ({"read": "a.md"}, Read("a.md", 0.9)),
        ({"read": {"path": "a.md", "at-least": 0.5}}, Read("a.md", 0.5)),
        ({"not-read": "a.md"}, NotRead("a.md", 0.2)),
        ({"not-read": {"path": "a.md", "at-most": 0}}, NotRead("a.md", 0)),
        ({"tool-called": "Bash"}, ToolCalled("Bash")),
        ({"tool-called": {"tool": "mcp__*", "at-most": 0}}, ToolCalled("mcp__*", "", 0, 0)),
        ({"tool-called": {"tool": "B", "input": "x", "at-least": 2}}, ToolCalled("B", "x", 2)),
        ({"ran": "npm  test"}, Ran(("npm", "test"))),
        ({"ran": {"command": "npm test", "exit": 1}}, Ran(("npm", "test"), 1)),
        ({"changed": "src"}, Changed(("src",))),
        ({"changed": ["src/*", "docs"]}, Changed(("src/*", "docs"))),
        ({"not-changed": "src"}, NotChanged(("src",))),
        ({"diff-contains": "x"}, DiffContains(("x",))),
        (
            {"diff-contains": {"text": ["x", "y"], "path": "a", "in": "removed"}},
            DiffContains(("x", "y"), "a", "removed"),
        ),
        ({"file": "a"}, File("a")),
        ({"file": {"path": "a", "contains": "x", "lacks": ["y"]}}, File("a", ("x",), ("y",))),
        ({"file": {"path": "a", "exists": False}}, File("a", exists=False)),
        ({"command": "make"}, Command("make")),
        (
            {"command": {"run": "make", "exit": 2, "output-contains": "x", "seconds": 5}},
            Command("make", 2, ("x",), 5),
        ),
        (
            {"wordpress": {"plugin": ".", "assertions": [{"type": "function_exists", "target": "f"}]}},
            WordPress(".", ({"type": "function_exists", "target": "f"},)),
        ),
    ],
)
def test_each_kind_of_check_has_a_short_and_a_long_form(written, check):
    (found,) = load(checks=[written]).checks
    assert found.check == check
    assert found.name == check.label
    assert found.kind in KINDS


def test_every_kind_of_check_is_in_the_schema_and_the_other_way_round():
    assert set(SCHEMA["$defs"]["check"]["properties"]) == {"name", *KINDS}


def test_a_check_may_have_a_name_of_its_own():
    (found,) = load(checks=[{"name": "knows the rules", "read": "AGENTS.md"}]).checks
    assert found.name == "knows the rules"


def test_an_edit_changes_the_digest_and_the_order_of_keys_does_not():
    reordered = dict(reversed(SMALLEST.items()))
    found = read_eval(yaml.safe_dump(reordered, sort_keys=False).encode(), PATH)
    assert isinstance(found, Eval)
    assert found.digest == load().digest != load(prompt="Say hi.").digest


# ------------------------------------------------------------------------------- the matrix


def test_an_eval_without_a_matrix_is_one_case_that_anybody_may_work_on():
    (case,) = cases(load())
    assert (case.key, case.agent, case.variables, case.prompt) == ("greets", None, {}, "Say hello.")


def test_the_matrix_is_every_agent_with_every_combination_of_variables():
    item = load(
        prompt="{{a}} {{b}}",
        matrix={"agent": ["claude", "codex"], "variables": {"a": ["1", "2"], "b": ["x"]}},
    )
    assert [(case.key, case.prompt) for case in cases(item)] == [
        ("greets[agent=claude, a=1, b=x]", "1 x"),
        ("greets[agent=claude, a=2, b=x]", "2 x"),
        ("greets[agent=codex, a=1, b=x]", "1 x"),
        ("greets[agent=codex, a=2, b=x]", "2 x"),
    ]


def test_agents_that_are_given_replace_those_of_the_eval():
    item = load(matrix={"agent": ["claude", "codex"]})
    assert [(case.key, case.agent) for case in cases(item, ["scripted"])] == [("greets", "scripted")]


def test_a_value_keeps_the_text_that_was_typed_and_is_not_filled_in_again():
    text = 'id: v\nprompt: "{{x}}"\nchecks: [{read: a}]\nmatrix: {variables: {x: [7.10, "{{x}}", no]}}\n'
    found = read_eval(text.encode(), PATH)
    assert isinstance(found, Eval)
    assert [case.prompt for case in cases(found)] == ["7.10", "{{x}}", "no"]


# ------------------------------------------------------------------------------ what is wrong


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"id": ...}, "1: id is missing; add it."),
        ({"id": "No Spaces"}, "1: id is 'No Spaces'; make it a name of lower-case letters"),
        ({"id": 7}, "1: id is 7; make it a name"),
        ({"prompt": " \n"}, "prompt is '"),
        ({"checks": []}, "checks is a list; make it a list of checks"),
        ({"promt": "x"}, "unknown key 'promt'; did you mean 'prompt'?"),
        ({"checks": [{"reads": "a"}]}, "unknown key 'checks[0].reads'; did you mean 'read'?"),
        ({"checks": [{"name": "x"}]}, "4: checks[0] has no kind; give it one of skill-used, read"),
        ({"checks": [{"read": "a", "file": "b"}]}, "4: checks[0] has file and read; give it one of"),
        ({"checks": [{"read": "../a"}]}, "checks[0].read is '../a'; make it a path"),
        ({"checks": [{"read": "/etc/passwd"}]}, "checks[0].read is '/etc/passwd'; make it a path"),
        ({"checks": [{"read": "a/./b"}]}, "checks[0].read is 'a/./b'; make it a path"),
        ({"checks": [{"changed": ["a", "../b"]}]}, "6: checks[0].changed[1] is '../b'; make it a path or"),
        (
            {"checks": [{"ran": {"exit": 1}}]},
            "checks[0].ran is an object; make it the first words of a command, or",
        ),
        ({"checks": [{"ran": {"command": "x", "exit": 256}}]}, "checks[0].ran.exit is 256; make it"),
        ({"checks": [{"read": "a"}, {"read": "a"}]}, "5: the metric 'read a' is already given in line 4"),
        ({"checks": [{"name": "rubric", "read": "a"}]}, "'rubric' is already given by the rubric"),
        ({"workspace": {"files": {"../x": ""}}}, "workspace.files is '../x'; make it a path"),
        ({"workspace": {"hide": ["/x"]}}, "workspace.hide[0] is '/x'; make it a path or glob"),
        ({"limits": {"seconds": 0}}, "limits.seconds is 0; make it a number of seconds above 0"),
        ({"limits": {"usd": -1}}, "limits.usd is -1; make it a number of US dollars above 0"),
        ({"repeat": 0}, "repeat is 0; make it an integer from 1 to 200."),
        ({"rubric": []}, "rubric is a list; make it a list of sentences"),
        ({"prompt": "Hi {{who}}"}, "2: {{who}} is no variable of the matrix; add it there."),
        ({"matrix": {"variables": {"who": ["a"]}}}, "the prompt has no {{who}}; put it there"),
        ({"matrix": {"variables": {"2": ["a"]}}}, "matrix.variables is '2'; make it a name of letters"),
        ({"matrix": {"agent": [f"a{n}" for n in range(21)]}}, "matrix.agent is a list; make it a list of"),
    ],
)
def test_an_error_is_one_sentence_with_its_line_and_its_mend(changed, sentence):
    assert sentence in fault(**changed)


def test_a_matrix_that_would_never_end_is_refused():
    variables = {name: [str(number) for number in range(10)] for name in "abc"}
    assert "the matrix has 1,000 cases; keep it to 200" in fault(
        prompt="{{a}}{{b}}{{c}}", matrix={"variables": variables}
    )


def test_the_assertions_of_a_wordpress_check_are_held_to_the_rules_of_execution_tests():
    text = """\
id: builds
prompt: Build a plugin.
checks:
  - wordpress:
      plugin: .
      assertions:
        - type: function_exists
          target: acme
        - type: output_equal
          target: echo 1;
"""
    (found,) = faults(text)
    assert found == (
        "9: checks[0].wordpress.assertions[1] has the unknown type 'output_equal'; "
        "did you mean 'output_equals'?"
    )


@pytest.mark.parametrize(
    "bomb",
    [
        "a: &a [x]\nb: [*a, *a]",
        "id: !!python/object/apply:os.system [id]",
        "[" * 10_000,
        "x: " + "y" * 2_000_000,
        b"id: \xff",
        "id: a\nid: b",
        "- a list",
        "id: x\x00",
    ],
)
def test_what_makes_yaml_dangerous_is_refused(bomb):
    assert len(faults(bomb)) == 1


@settings(deadline=None, derandomize=True)
@given(
    st.recursive(
        st.none() | st.text(max_size=9) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["read", "ran", "file", "path", "name", "x"]), inner, max_size=3
            )
        ),
        max_leaves=8,
    )
)
def test_whatever_the_checks_hold_is_an_eval_or_a_list_of_faults(value):
    found = read_eval(json.dumps({**SMALLEST, "checks": value}).encode(), PATH)
    assert isinstance(found, Eval) or found.faults


# -------------------------------------------------------------------------------- in a tree


def document(**changed: Any) -> bytes:
    return yaml.safe_dump({**SMALLEST, **changed}).encode()


def test_evals_are_found_in_the_agent_folder_of_every_suite():
    tree = MemoryTree(
        {
            "datasets/suites/a/agent/one.yaml": document(id="one"),
            "datasets/suites/b/agent/two.yml": document(id="two"),
            "datasets/suites/b/agent/notes.md": b"",
            "datasets/suites/b/agent/more/three.yaml": document(id="three"),
            "other/agent/four.yaml": document(id="four"),
        }
    )
    found = load_evals(tree)
    assert [(item.id, item.suite) for item in found.evals] == [("one", "a"), ("two", "b")]
    assert found.invalid == ()


def test_a_second_eval_of_the_same_id_is_invalid_and_the_rest_is_used():
    tree = MemoryTree(
        {
            "datasets/suites/a/agent/a.yaml": document(),
            "datasets/suites/a/agent/b.yaml": document(),
            "datasets/suites/a/agent/c.yaml": b"nonsense: [",
            "datasets/suites/a/agent/d.yaml": document(id="fine"),
        }
    )
    found = load_evals(tree)
    assert [item.id for item in found.evals] == ["greets", "fine"]
    first, second = found.invalid
    assert first.reason.startswith("datasets/suites/a/agent/b.yaml:3: the id 'greets' is already used at")
    assert second.reason.startswith("datasets/suites/a/agent/c.yaml:")


def test_a_file_that_claims_to_be_huge_is_not_read():
    path = "datasets/suites/a/agent/a.yaml"
    found = load_evals(MemoryTree({path: b""}, {path: 10**9}))
    assert "keep it under" in found.invalid[0].reason


# ----------------------------------------------------------------------------- the schema


def test_the_schema_is_valid_and_every_part_has_a_title_to_name_in_an_error():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def untitled(schema: dict[str, Any], path: str = "") -> Iterator[str]:
        if "title" not in schema and "$ref" not in schema and "const" not in schema:
            yield path
        parts = [*schema.get("properties", {}).items(), *enumerate(schema.get("anyOf", []))]
        parts += [("items", schema["items"])] if "items" in schema else []
        for name, inner in parts:
            yield from untitled(inner, f"{path}/{name}")

    for name, schema in SCHEMA["$defs"].items():
        assert list(untitled(schema, name)) == []
    assert list(untitled(SCHEMA)) == []


# ------------------------------------------------------------------------------- the check


def test_the_check_of_suites_tells_what_is_wrong_with_an_eval():
    tree = MemoryTree(
        {
            "datasets/suites/a/agent/good.yaml": document(),
            "datasets/suites/a/agent/bad.yaml": b"id: bad\nprompt: x\nchecks:\n  - reed: a\n",
        }
    )
    chosen = Chosen(only=frozenset({"no-suites", "agent-eval"}))
    (finding,) = check_suites(tree, chosen=chosen).findings
    assert finding == Finding(
        path="datasets/suites/a/agent/bad.yaml",
        line=4,
        rule="agent-eval",
        message="unknown key 'checks[0].reed'",
        mend="did you mean 'read'?",
    )
