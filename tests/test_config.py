"""What refcompare.yml may say, and how it is told when it says something else."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refcompare.changes import ChangeKind
from refcompare.config import AuditConfig, Config, load_config
from refcompare.errors import UsageError
from refcompare.execution.model import Limits
from refcompare.gate import DEFAULT_FAIL_ON
from refcompare.resources import schema_directory
from refcompare.suites import DEFAULT_GLOBS

SCHEMA = json.loads((schema_directory() / "config.schema.json").read_bytes())


def load(text: str | bytes) -> Config:
    return load_config(text.encode() if isinstance(text, str) else text, "refcompare.yml")


def complaints(text: str | bytes) -> list[str]:
    with pytest.raises(UsageError) as raised:
        load(text)
    return str(raised.value).splitlines()


@pytest.mark.parametrize("text", ["", "# only a comment\n", "{}", "---\n", "limits:\naudit:\n", "\ufeff"])
def test_a_file_that_says_nothing_is_the_defaults(text):
    assert load(text) == Config()


def test_the_example_of_the_readme_is_read():
    readme = Path(__file__).resolve().parent.parent / "README.md"
    (example,) = re.findall(r"```yaml\n(# refcompare\.yml\n.*?)```", readme.read_text("utf-8"), re.DOTALL)
    assert load(example).fail_on == DEFAULT_FAIL_ON | {ChangeKind.EXPLOITABLE_WHEN_ADDED}


def test_every_key_is_read():
    text = """
suites: [benchmarks/**/*.json, more/*.json]
fail_on: [newly-exploitable, broken when added]
confirm: 0
jobs: 4
limits: {seconds: 1.5, memory: 1G}
wordpress: 7.10
runtime: docker
audit: {enabled: no, exhaustive: yes, mutants: 7, seed: 9}
"""
    assert load(text) == Config(
        suites=("benchmarks/**/*.json", "more/*.json"),
        fail_on=frozenset({ChangeKind.NEWLY_EXPLOITABLE, ChangeKind.BROKEN_WHEN_ADDED}),
        confirm=0,
        jobs=4,
        limits=Limits(seconds=1.5, memory=1024**3),
        wordpress="7.10",
        runtime="docker",
        audit=AuditConfig(enabled=False, exhaustive=True, mutants=7, seed=9),
    )


@pytest.mark.parametrize(
    ("written", "size"),
    [("536870912", 2**29), ("512M", 2**29), ("512 MB", 2**29), ("1 GiB", 2**30), ("65536K", 2**26)],
)
def test_memory_is_bytes_or_a_size_with_a_unit(written, size):
    assert load(f"limits: {{memory: {written}}}").limits.memory == size


@pytest.mark.parametrize(
    ("written", "kinds"),
    [
        ("none", frozenset()),
        ("any", frozenset(ChangeKind) - {ChangeKind.UNCHANGED}),
        ("[removed]", frozenset({ChangeKind.REMOVED})),
    ],
)
def test_fail_on_is_a_list_or_none_or_any(written, kinds):
    assert load(f"fail_on: {written}").fail_on == kinds


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("suite: [x]", "1: unknown key 'suite'; did you mean 'suites'?"),
        ("mutants: 5", "1: unknown key 'mutants'; did you mean 'audit.mutants'?"),
        ("\nlimits:\n  second: 3", "3: unknown key 'limits.second'; did you mean 'seconds'?"),
        ("fail_on: [fixed, regresed]", "1: fail_on[1] is 'regresed'; did you mean 'regressed'?"),
        ("fail_on: [none]", "1: fail_on[0] is 'none'; make it a kind of change such as"),
        ("fail_on: []", "1: fail_on is a list; make it a list of kinds of change, or none, or any."),
        ("runtime: dcker", "1: runtime is 'dcker'; did you mean 'docker'?"),
        ("confirm: true", "1: confirm is true; make it an integer from 0 to 20."),
        ("confirm: -1", "1: confirm is -1; make it an integer from 0 to 20."),
        ("jobs: 0", "1: jobs is 0; make it an integer from 1 to 256, or auto."),
        ("limits: {seconds: .inf}", "1: limits.seconds is '.inf'; make it a number of seconds"),
        ("limits: {seconds: 0}", "1: limits.seconds is 0; make it a number of seconds above 0"),
        ("limits: {memory: 1M}", "1: limits.memory is '1M'; make it a number of bytes from 64M"),
        ("limits: {memory: 99999999999G}", "1: limits.memory is '99999999999G'; make it"),
        ("limits: {memory: lots}", "1: limits.memory is 'lots'; make it a number of bytes"),
        ("limits: 3", "1: limits is 3; make it a mapping of limits."),
        ("suites: x", "1: suites is 'x'; make it a list of globs."),
        ("suites:\n- ok\n- /etc/*", "3: suites[1] is '/etc/*'; make it a path below the root"),
        ("suites: [../x]", "1: suites[0] is '../x'"),
        ("suites: [a/../../x]", "1: suites[0] is 'a/../../x'"),
        ("suites: ['a\\b']", "1: suites[0] is"),
        ("wordpress: [7]", "1: wordpress is a list; make it a version"),
        ("audit: {enabled: maybe}", "1: audit.enabled is 'maybe'; make it true or false."),
        ("- a", "1: the file is a list; make it a mapping of keys."),
        ("jobs: 1\njobs: 2", "2: 'jobs' is already set in line 1; keep one of the two."),
        ("? [a]\n: 1", "1: a key is a list or a mapping; make it a word."),
        ("jobs: 1\n---\njobs: 2", "2: a second document starts here; keep one."),
        ("jobs: {", "not YAML"),
        ("jobs: 1\n\tx: 2", "2: not YAML"),
    ],
)
def test_an_error_is_one_sentence_with_its_line_and_its_mend(text, complaint):
    (line,) = complaints(text)
    assert line.startswith("refcompare.yml:")
    assert complaint in line


def test_all_errors_are_told_at_once_in_the_order_of_their_lines():
    lines = complaints("jobs: x\nfoo: 1\nlimits:\n  seconds: x\n  bar: 2\n")
    assert [line.split(":")[1] for line in lines] == ["1", "2", "4", "5"]


def test_bytes_that_are_not_utf8_are_told_with_their_line():
    assert complaints(b"jobs: 1\n# caf\xe9\n") == [
        "refcompare.yml:2: the file is not UTF-8; save it as UTF-8."
    ]


def test_a_control_character_is_told_with_its_line():
    assert complaints("jobs: 1\nwordpress: a\x00b") == [
        "refcompare.yml:2: the file holds a control character; remove it."
    ]


@pytest.mark.parametrize(
    "bomb",
    [
        "a: &a [x]\nb: [*a, *a]",
        "a: &a 1",
        "suites: !!python/object/apply:os.system [id]",
        "suites: !x y",
        "[" * 10_000,
        "x: " + "y" * 70_000,
        "- " * 2_000,
    ],
)
def test_what_makes_yaml_dangerous_is_refused(bomb):
    assert len(complaints(bomb)) == 1


def test_an_enormous_number_is_only_a_wrong_value():
    (line,) = complaints("jobs: " + "9" * 5_000)
    assert len(line) < 300


def test_names_from_the_file_cannot_act_on_a_terminal():
    with pytest.raises(UsageError) as raised:
        load_config(b'"a\\e[31m": 1', "dir\x1b/refcompare.yml")
    assert "\x1b" not in str(raised.value)


@settings(deadline=None)
@given(st.text(max_size=60) | st.binary(max_size=60))
def test_no_text_raises_anything_but_a_usage_error(text):
    try:
        load(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    except UsageError as error:
        assert str(error).startswith("refcompare.yml:")


# The published schema says the same as the code


def test_the_schema_is_valid_and_holds_its_own_defaults_and_examples():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for name, schema in SCHEMA["properties"].items():
        for value in [schema[key] for key in ("default",) if key in schema] + schema.get("examples", []):
            jsonschema.validate({name: value}, SCHEMA)


def test_the_defaults_in_the_schema_are_those_of_the_code():
    defaults = {
        name: schema["default"] for name, schema in SCHEMA["properties"].items() if "default" in schema
    }
    for name in ("limits", "audit"):
        properties = SCHEMA["properties"][name]["properties"]
        defaults[name] = {key: schema["default"] for key, schema in properties.items()}
    assert load(json.dumps(defaults)) == Config()
    assert (Config().suites, Config().fail_on) == (DEFAULT_GLOBS, DEFAULT_FAIL_ON)


def test_the_schema_knows_every_kind_of_change_in_both_spellings():
    spelled = {kind.value for kind in ChangeKind if kind is not ChangeKind.UNCHANGED}
    assert set(SCHEMA["$defs"]["change"]["enum"]) == spelled | {kind.replace(" ", "-") for kind in spelled}


def test_every_part_of_the_schema_has_a_title_to_name_in_an_error():
    def untitled(schema: dict[str, Any], path: str = "") -> Iterator[str]:
        if "title" not in schema:
            yield path
        for name, inner in schema.get("properties", {}).items():
            yield from untitled(inner, f"{path}/{name}")

    assert list(untitled(SCHEMA)) == []
