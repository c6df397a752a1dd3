"""AGENTS.md and the skills can be found, and lead to nothing that is not there: pages, paths, commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from refcompare.agents.model.wire import RequestFacts
from refcompare.agents.programs.follower import GuidanceFollower
from refcompare.cli import cli

ROOT = Path(__file__).resolve().parent.parent
SKILLS = sorted((ROOT / ".agents/skills").glob("*/SKILL.md"))
PAGES = [ROOT / "AGENTS.md", *sorted((ROOT / ".agents").rglob("*.md")), ROOT / "datasets/README.md"]

pytestmark = pytest.mark.skipif(not SKILLS, reason="only a checkout has the guidance")
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def header(skill: Path) -> dict[str, str]:
    text = skill.read_text("utf-8")
    assert text.startswith("---\n")
    return dict(yaml.safe_load(text.split("---\n")[1]))


def test_every_agent_is_given_the_same_guidance():
    assert (ROOT / "CLAUDE.md").readlink() == Path("AGENTS.md")


@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.parent.name)
def test_a_skill_is_named_as_its_folder_says_when_it_is_due_and_is_short(skill: Path):
    found = header(skill)
    assert set(found) == {"name", "description"}
    assert found["name"] == skill.parent.name
    assert found["description"].startswith("Use when you ")
    assert len(found["description"]) < 300, "agents carry every description about"
    assert len(skill.read_text("utf-8").splitlines()) <= 60, "what is not always needed is a reference"


@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.parent.name)
def test_a_skill_names_each_of_its_references(skill: Path):
    text = skill.read_text("utf-8")
    for reference in skill.parent.glob("references/*"):
        assert f"](references/{reference.name})" in text


def test_agents_md_lists_every_skill():
    listed = re.findall(r"^\| `(\.agents/skills/[^`]+)` \|", (ROOT / "AGENTS.md").read_text("utf-8"), re.M)
    assert sorted(listed) == [skill.parent.relative_to(ROOT).as_posix() for skill in SKILLS]


@by_page
def test_links_lead_to_what_is_there(page: Path):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


@by_page
def test_paths_that_are_named_are_there(page: Path):
    for path in re.findall(
        r"`((?:datasets|docs|tests|refcompare|php|\.github)/[\w./-]*)`", page.read_text("utf-8")
    ):
        assert (ROOT / path).exists(), path


def commands(page: Path) -> list[list[str]]:
    """Give the words of each `refcompare …` in code, in a span or in a block."""
    text = page.read_text("utf-8")
    lines = re.findall(r"`(refcompare [^`\n]+)`", text)
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        lines += re.findall(r"^\s*(refcompare .+)$", block, re.MULTILINE)
    return [shlex.split(line, comments=True)[1:] for line in lines]


@by_page
def test_commands_exist_with_their_options(page: Path):
    for words in commands(page):
        command: click.Command = cli
        if words[0] in cli.commands:
            command = cli.commands[words[0]]
            if isinstance(command, click.Group):
                command = command.commands[words[1]]
        else:
            command = cli.commands["compare"]  # it begins with a ref
        known = {name for parameter in command.params for name in parameter.opts}
        for word in words:
            assert not word.startswith("--") or word.partition("=")[0] in known, words


PROMPTS = {
    "Add an execution test for WordPress to the suite wp-core.": ["execution-tests"],
    "A model failed an execution test for WordPress; say whose fault it is.": ["execution-tests"],
    "Add an agent eval that measures what the guidance makes a coding agent do.": ["agent-evals"],
    "Write the description of the pull request for this change.": ["pull-requests"],
    "The command `refcompare show` should be able to leave out the output that candidates printed.": [],
}


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_description_is_found_by_what_it_is_for_and_by_nothing_else(prompt: str):
    listed = "\n".join(f"- {found['name']}: {found['description']}" for found in map(header, SKILLS))
    request = {"system": f"# Skills\n\n{listed}", "messages": [{"role": "user", "content": prompt}]}
    facts = RequestFacts(model="m", streams=False, has_tools=True, answered=0)
    turn = GuidanceFollower().turn(request, facts, 0)
    assert turn is not None
    called = [call.anthropic[1] for call in turn.calls if call.anthropic and call.anthropic[0] == "Skill"]
    assert called == [{"skill": name} for name in PROMPTS[prompt]]
