"""The workflows, the action and the guide's examples: valid, least in rights, pinned, in step."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import yaml

from refcompare.cli import cli
from refcompare.github.inputs import Inputs
from refcompare.github.job import Conclusion
from refcompare.selection import Asked

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "github.md").read_text(encoding="utf-8")
EXAMPLES = {
    f"{number}-{match[1]}": match[0]
    for number, match in enumerate(
        re.finditer(r"# \.github/workflows/(\S+)\n.*?(?=^```)", GUIDE, re.S | re.M)
    )
}
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))

pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="only a checkout has workflows")


def run_tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / name), *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guide's workflows as files, the placeholders filled in."""
    directory = tmp_path_factory.mktemp("examples") / ".github" / "workflows"
    directory.mkdir(parents=True)
    for name, text in EXAMPLES.items():
        (directory / name).write_text(text.replace("OWNER/refcompare@COMMIT", f"octo/refcompare@{'1' * 40}"))
    return directory


def test_githubs_schemas_allow_the_workflows_the_action_and_the_examples(examples: Path) -> None:
    assert len(EXAMPLES) == 6
    for schema, files in (
        ("vendor.github-workflows", [*WORKFLOWS, *sorted(examples.iterdir())]),
        ("vendor.github-actions", [ROOT / "action.yml"]),
    ):
        done = run_tool("check-jsonschema", "--builtin-schema", schema, *map(str, files))
        assert done.returncode == 0, done.stdout + done.stderr


def test_zizmor_finds_nothing_that_is_not_explained(examples: Path) -> None:
    paths = [str(path) for path in (*WORKFLOWS, ROOT / "action.yml", *sorted(examples.iterdir()))]
    done = run_tool("zizmor", "--offline", "--no-config", "--persona=pedantic", "--format=json", *paths)
    findings = json.loads(done.stdout)
    told = [
        (finding["ident"], finding["determinations"]["severity"])
        for finding in findings
        if not finding["ignored"] and finding["determinations"]["severity"] != "Informational"
    ]
    # A short example does without a limit on what runs at once.
    assert [item for item in told if item[0] not in ("concurrency-limits", "anonymous-definition")] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
class TestWorkflows:
    def test_rights_are_given_to_jobs_one_by_one(self, path: Path) -> None:
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert workflow["permissions"] == {}
        for name, job in workflow["jobs"].items():
            writes = {right for right, level in job["permissions"].items() if level == "write"}
            allowed = {"publish": {"pull-requests"}, "drift": {"issues"}, "image": {"packages"}}
            assert writes == allowed.get(name, set())
            assert job["timeout-minutes"] <= 60

    def test_other_peoples_actions_are_pinned_to_commits_with_their_version(self, path: Path) -> None:
        for line in path.read_text(encoding="utf-8").splitlines():
            if "uses:" in line and "uses: ./" not in line:
                assert re.search(r"uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line

    def test_checkouts_keep_no_credentials(self, path: Path) -> None:
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        for job in workflow["jobs"].values():
            for step in job["steps"]:
                if step.get("uses", "").startswith("actions/checkout@"):
                    assert step["with"]["persist-credentials"] is False

    def test_no_secret_is_used_and_no_stranger_gets_a_strong_token(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        assert "secrets." not in text
        assert "pull_request_target" not in yaml.safe_load(text)[True]


def test_one_commit_is_pinned_for_each_action_everywhere() -> None:
    pins: dict[str, set[str]] = {}
    for text in (*(path.read_text() for path in WORKFLOWS), (ROOT / "action.yml").read_text(), GUIDE):
        for action, commit, version in re.findall(
            r"uses: (actions/[\w-]+)[\w/]*@([0-9a-f]{40}) # (v\S+)", text
        ):
            pins.setdefault(action, set()).add(f"{commit} {version}")
    assert pins and all(len(found) == 1 for found in pins.values()), pins


def test_publishing_listens_to_the_workflow_that_compares() -> None:
    publish = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text())
    compare = yaml.safe_load((ROOT / ".github/workflows/compare.yml").read_text())
    assert publish[True]["workflow_run"]["workflows"] == [compare["name"]]
    steps = compare["jobs"]["compare"]["steps"]
    assert [step["with"]["comment"] for step in steps if step["uses"] == "./"] == ["never"]
    paths = compare[True]["pull_request"]["paths"]
    # Pull requests begin with the caches of what runs on the default branch.
    assert compare[True]["push"] == {"branches": ["main"], "paths": paths}
    assert publish["jobs"]["publish"]["if"] == "github.event.workflow_run.event == 'pull_request'"
    assert set(paths) == {"datasets/**", "php/**", "AGENTS.md", ".agents/**"}


def table(title: str) -> dict[str, list[str]]:
    """Give a table of the README, by the title of its first column: that column's name to the other cells."""
    lines = README.partition(f"\n| {title} | ")[2].splitlines()
    rows = [line.strip("|").split(" | ") for line in itertools.takewhile(lambda line: line, lines[2:])]
    return {cells[0].strip(" `"): [cell.strip(" |") for cell in cells[1:]] for cells in rows}


def test_the_readme_has_every_input_with_its_default() -> None:
    rows = table("input")
    assert list(rows) == list(ACTION["inputs"])
    for name, (default, meaning) in rows.items():
        stated = ACTION["inputs"][name]["default"]
        assert meaning
        if stated and not stated.startswith("${{"):
            assert default == f"`{stated}`"
        else:  # which words say
            assert default != "``" and default


def test_the_readme_says_what_every_input_allows() -> None:
    rows = table("input")
    for name in ("mode", "runtime", "comment", "comment-mode"):
        allowed = get_args(get_type_hints(Inputs)[name.replace("-", "_")])
        assert set(re.findall(r"`([a-z]+)`", rows[name][1])) == set(allowed)


def test_the_readme_has_every_output() -> None:
    rows = table("output")
    assert list(rows) == list(ACTION["outputs"])
    conclusions = re.findall(r"`([a-z]+)`", rows["conclusion"][0])
    assert set(conclusions) == set(get_args(Conclusion))


def test_the_guides_agents_are_asked_for_in_words_that_the_command_knows() -> None:
    [text] = [text for name, text in EXAMPLES.items() if name.endswith("agents.yml")]
    step = yaml.safe_load(text)["jobs"]["agents"]["steps"][-1]
    inputs = Inputs.from_environment(
        {"INPUT_OPTIONS": step["with"]["options"], "INPUT_KEY": step["with"]["key"]}
    )
    command = cli.commands["compare"]
    asked = command.make_context("compare", ["base", "head", *inputs.compare_options()]).params
    assert Asked.of(asked) == Asked(execution=False, agents=True)
    assert asked["agent"] == ("claude",) and asked["budget"] == 20


def test_the_guide_names_the_events_that_are_told_apart() -> None:
    section = GUIDE.partition("## What is compared")[2].partition("\n## ")[0]
    events = re.findall(r"^\| `(\w+)`", section, re.M)
    assert set(events) >= {"pull_request", "push", "merge_group", "schedule", "workflow_dispatch"}


def test_links_within_the_guide_lead_somewhere() -> None:
    headings = {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", GUIDE, re.M)
    }
    for anchor in re.findall(r"\]\(#([^)]+)\)", GUIDE):
        assert anchor in headings
    for path in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", GUIDE):
        assert (ROOT / "docs" / path).resolve().exists(), path
    for anchor in re.findall(r"docs/github\.md#([\w-]+)", README):
        assert anchor in headings
