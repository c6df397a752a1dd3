"""How the suites of a tree are found and brought together."""

import time

import pytest

from refcompare.execution.model import InvalidTest
from refcompare.suites import DEFAULT_GLOBS, SuiteSet, entries, load_suites, sources, suite_name
from tests.suite_files import MemoryTree, a_file, a_test

HOOKS = "datasets/suites/acme/execution/hooks.json"
REST = "datasets/suites/acme/execution/rest.json"


def found(glob: str, *paths: str) -> list[str]:
    tree = MemoryTree({path: a_file() for path in paths})
    return [source.path for source in sources(tree, [glob])]


def ids(suites: SuiteSet) -> tuple[list[str], list[str]]:
    return [test.id for test in suites.tests], [test.id for test in suites.invalid]


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        (DEFAULT_GLOBS[0], HOOKS),
        ("*.json", "a.json"),
        ("*/a?.json", "x/ab.json"),
        ("**/*.json", "a.json"),
        ("**/*.json", "x/y/z/a.json"),
        ("x/**/a.json", "x/a.json"),
        ("x/**/y/**/a.json", "x/1/y/2/y/3/a.json"),
        ("x/**", "x/y/z"),
        ("./x/*.json", "x/a.json"),
        ("a*b*c", "aXbYbZc"),
        ("[x].json", "[x].json"),
        ("a.json", "a.json"),
    ],
)
def test_a_glob_finds_the_files_that_it_names(glob, path):
    assert found(glob, path) == [path]


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        (DEFAULT_GLOBS[0], "datasets/suites/acme/deep/execution/hooks.json"),
        (DEFAULT_GLOBS[0], "datasets/suites/acme/execution/HOOKS.JSON"),
        (DEFAULT_GLOBS[0], "x/" + HOOKS),
        ("*.json", "x/a.json"),
        ("?.json", "/.json"),
        ("x/**/a.json", "y/x/a.json"),
        ("[ab].json", "a.json"),
        ("a.json", "aXjson"),
        ("a", "a/b"),
        ("a/b", "a"),
    ],
)
def test_a_glob_leaves_every_other_file_alone(glob, path):
    assert found(glob, path) == []


def test_a_hostile_glob_takes_no_time():
    start = time.perf_counter()
    assert found("**/" * 40 + "*a" * 40 + "b", "/".join(["a" * 200] * 40)) == []
    assert time.perf_counter() - start < 2


def test_a_file_that_two_globs_name_is_loaded_once():
    tree = MemoryTree({HOOKS: a_file(a_test("a"))})
    assert ids(load_suites(tree, [DEFAULT_GLOBS[0], "**/*.json"])) == (["a"], [])


@pytest.mark.parametrize(
    ("path", "suite"),
    [
        (HOOKS, "acme"),
        ("acme/execution/hooks.json", "acme"),
        ("execution/execution/hooks.json", "execution"),
        ("x/execution/deep/hooks.json", "x"),
        ("tests/hooks.json", "tests"),
        ("execution/hooks.json", "execution"),
        ("hooks.json", "hooks"),
    ],
)
def test_a_suite_is_named_for_the_directory_around_it(path, suite):
    assert suite_name(path) == suite
    (test,) = load_suites(MemoryTree({path: a_file(a_test())}), ["**/*.json"]).tests
    assert test.suite == suite


def test_tests_come_in_the_order_of_path_and_position():
    tree = MemoryTree({REST: a_file(a_test("z"), a_test("a")), HOOKS: a_file(a_test("m"), {"id": "b"})})
    suites = load_suites(tree)
    assert ids(suites) == (["m", "z", "a"], ["b"])
    assert [entry.test_id for entry in entries(suites)] == ["m", "b", "z", "a"]


def test_a_broken_file_costs_no_other_file():
    suites = load_suites(MemoryTree({HOOKS: b"{", REST: a_file(a_test("a"))}))
    assert ids(suites) == (["a"], [HOOKS])


def test_all_but_the_first_test_of_an_id_are_invalid_and_name_the_first():
    tree = MemoryTree(
        {HOOKS: a_file(a_test("a"), a_test("a"), indent=None), REST: b"\n" + a_file(a_test("a"))}
    )
    suites = load_suites(tree)
    assert ids(suites) == (["a"], ["a#2", "a#3"])
    assert suites.invalid[0].reason == f"the id 'a' is already used at {HOOKS}:1"
    assert (suites.invalid[1].path, suites.invalid[1].line) == (REST, 4)


def test_every_id_occurs_once_even_if_authors_try_otherwise():
    tree = MemoryTree({HOOKS: a_file(a_test("a"), a_test("a#2"), a_test("a"), {"id": "a"}, a_test(HOOKS), 1)})
    suites = load_suites(tree)
    gradable, invalid = ids(suites)
    assert (gradable, invalid) == (["a", "a#2", HOOKS], ["a#3", "a#4", f"{HOOKS}#6"])
    assert "already used" in suites.invalid[1].reason
    assert "no reference" in suites.invalid[1].reason


def test_a_file_that_is_too_large_is_not_even_read():
    class Unread(MemoryTree):
        def read(self, path: str) -> bytes:
            raise AssertionError("read")

    (item,) = load_suites(Unread({HOOKS: b""}, {HOOKS: 32 * 1024 * 1024 + 1})).invalid
    assert "33,554,433 bytes" in item.reason


@pytest.mark.parametrize("error", [KeyError(HOOKS), PermissionError("denied\n"), FileNotFoundError()])
def test_a_file_that_vanishes_or_is_locked_is_invalid(error):
    class Changing(MemoryTree):
        def read(self, path: str) -> bytes:
            if path == HOOKS:
                raise error
            return super().read(path)

    suites = load_suites(Changing({HOOKS: b"", REST: a_file(a_test("a"))}))
    assert ids(suites) == (["a"], [HOOKS])
    assert "cannot be read" in suites.invalid[0].reason
    assert "\n" not in suites.invalid[0].reason


def test_a_file_name_that_is_not_utf8_gives_printable_values():
    path = "datasets/suites/\udcfc/execution/\udcff.json"
    suites = load_suites(MemoryTree({path: a_file(a_test(category=...), 1)}))
    for text in (*map(repr, suites.tests), *map(repr, suites.invalid)):
        text.encode()
    assert suites.tests[0].suite == "\\xfc"


def test_an_unknown_field_is_noted_once_with_where_it_is_used_first():
    tree = MemoryTree({HOOKS: a_file(a_test("a", mood="x"), a_test("b", mood="y"), indent=None)})
    assert load_suites(tree).notes == (
        f"The field 'mood' is not one of the format: kept, not graded ({HOOKS}:1 and 1 more).",
    )


def test_very_many_unknown_fields_are_counted_and_not_listed():
    notes = load_suites(MemoryTree({HOOKS: a_file(a_test(**{f"x{index}": 1 for index in range(45)}))})).notes
    assert len(notes) == 21
    assert notes[-1] == "25 more fields are not of the format: kept, not graded."


def test_unknown_fields_are_seen_where_the_format_nests():
    checks = {**a_test()["runtime_checks"], "retries": 3}
    notes = load_suites(
        MemoryTree({HOOKS: a_file(a_test(runtime_checks=checks, static_checks={"x": 1}))})
    ).notes
    assert [note.split("'")[1] for note in notes] == ["static_checks.x", "runtime_checks.retries"]


def test_fields_that_suites_in_the_field_carry_are_not_worth_a_note():
    tree = MemoryTree({HOOKS: a_file(a_test(difficulty="basic", judge_config={}, version="1"))})
    assert load_suites(tree).notes == ()


def test_a_glob_that_names_nothing_is_noted():
    suites = load_suites(MemoryTree({HOOKS: a_file()}), [*DEFAULT_GLOBS, "missing/*.json"])
    assert suites.notes == ("No file matches 'missing/*.json'.",)


def test_an_entry_carries_the_digest_that_any_edit_changes():
    test, invalid = a_test("a"), a_test("b", reference_solution=...)
    suites = load_suites(MemoryTree({HOOKS: a_file(test, invalid)}))
    first, second = entries(suites)
    assert (first.digest, first.invalid) == (suites.tests[0].entry_digest, None)
    assert second.digest == suites.invalid[0].entry_digest
    assert second.invalid == suites.invalid[0].reason
    assert isinstance(suites.invalid[0], InvalidTest)
    assert (first.path, first.line, first.suite, first.category) == (HOOKS, 3, "acme", "hooks")
