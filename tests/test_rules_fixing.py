"""What --fix does to a file: the smallest edit, the right one, and none where it might be wrong."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refcompare.errors import EnvironmentFailure
from refcompare.execution.loader import read_source
from refcompare.execution.loader_json import Where, scan
from refcompare.rules import Chosen, Suites, check
from refcompare.rules.edits import Append, CannotEdit, Change, Cut, Remove, applied, spans
from refcompare.rules.fixing import edited, mend
from refcompare.rules.model import Finding
from tests.rule_files import GOOD
from tests.suite_files import MemoryTree

PATH = "datasets/suites/shop/execution/hooks.json"


def changed(text: str, *changes: Change) -> str:
    document = scan(text)
    return applied(text, spans(document, document.elements[0].start, changes))


def file_of(*tests: dict[str, Any], indent: int | str = 2) -> str:
    return json.dumps({"id": "shop", "tests": list(tests)}, indent=indent, ensure_ascii=False) + "\n"


def bad() -> dict[str, Any]:
    """Give a test that has one of everything that is mended by itself."""
    test = copy.deepcopy(GOOD)
    test["static_checks"] = {"required_patterns": [{"pattern": "get_option"}, {"pattern": "acme_title"}]}
    test["requirements"] = ["Ein Käse", "Two", "Ein Käse"]
    last = test["runtime_checks"]["assertions"][-1]
    last["target"] = "$title = acme_title( 'Größe \\\"' );\n\ndelete_option( 'acme_a' );\nreturn $title;"
    test["metadata"]["check_ignore"] = {"clock": "No reason at all."}
    return test


def fixed(root: Path, text: str, rounds: int = 5) -> tuple[str, int]:
    """Write a file, mend it until nothing is left to mend, and give its text and how much was mended."""
    place = root / PATH
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(text.encode())
    count = 0
    for _ in range(rounds):
        suites = Suites(MemoryTree({PATH: place.read_bytes()}))
        count += len(mend(root, suites, check(suites, Chosen()).findings).findings)
    return place.read_bytes().decode(), count


# --------------------------------------------------------------------------------- edits


@pytest.mark.parametrize(
    ("before", "where", "after"),
    [
        ('[ {"a": [1, 2, 3]} ]', ("a", 0), '[ {"a": [2, 3]} ]'),
        ('[ {"a": [1, 2, 3]} ]', ("a", 1), '[ {"a": [1, 3]} ]'),
        ('[ {"a": [1, 2, 3]} ]', ("a", 2), '[ {"a": [1, 2]} ]'),
        ('[ {"a": [\n\t1\n] } ]', ("a", 0), '[ {"a": [] } ]'),
        ('[{\n "a": 1,\n "b" : 2,\n "c": 3\n}]', ("b",), '[{\n "a": 1,\n "c": 3\n}]'),
        ('[{"a": 1, "b": 2}]', ("a",), '[{"b": 2}]'),
        ('[{"x\\"y": 1, "b": 2}]', ('x"y',), '[{"b": 2}]'),
        ('[{"a": ",", "b": "}"}]', ("b",), '[{"a": ","}]'),
    ],
)
def test_an_entry_goes_with_its_comma_and_nothing_else(before: str, where: Where, after: str):
    assert changed(before, Remove(where)) == after


@pytest.mark.parametrize(
    ("raw", "start", "end", "after"),
    [
        ('"abcd"', 1, 3, '"ad"'),
        ('"a\\nb\\tc"', 1, 3, '"a\\tc"'),
        ('"\\u00e9x\\ud83d\\ude00y"', 1, 3, '"\\u00e9y"'),
        ('"é😀y"', 0, 2, '"y"'),
        ('"a\\"b"', 1, 2, '"ab"'),
    ],
)
def test_a_cut_counts_characters_however_they_are_written(raw: str, start: int, end: int, after: str):
    assert changed(f'[{{"a": {raw}}}]', Cut(("a",), start, end)) == f'[{{"a": {after}}}]'


def test_what_is_added_is_written_as_the_rest_is():
    assert changed('[{"a": "x"}]', Append(("a",), "é\n")) == '[{"a": "x\\n\\u00e9\\n"}]'
    assert changed('[{"a": "ä"}]', Append(("a",), "é")) == '[{"a": "ä\\né"}]'
    assert changed('[{"a": ""}]', Append(("a",), "x")) == '[{"a": "x"}]'


def test_a_string_that_is_not_there_is_put_behind_the_last_member():
    text = '[{\n\t"o": {\n\t\t"a": [ 1 ]\n\t}\n}]'
    assert changed(text, Append(("o", "t"), "x")) == '[{\n\t"o": {\n\t\t"a": [ 1 ],\n\t\t"t": "x"\n\t}\n}]'


@pytest.mark.parametrize(
    "change",
    [Remove(("b",)), Cut(("a",), 0, 9), Cut(("n",), 0, 0), Append(("n",), "x"), Append(("a", "b"), "x")],
)
def test_a_change_that_does_not_fit_what_is_there_is_refused(change: Change):
    with pytest.raises(CannotEdit):
        changed('[{"a": "x", "n": 5}]', change)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def places(value: Any, where: Where = ()) -> list[Where]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in items for place in ((*where, key), *places(item, (*where, key)))]


@settings(deadline=None)
@given(json_values, st.sampled_from([None, 0, 2, "\t"]), st.booleans(), st.data())
def test_whatever_is_removed_the_rest_stays(value: Any, indent: Any, ascii_only: bool, data: st.DataObject):
    text = json.dumps([{"v": value}], indent=indent, ensure_ascii=ascii_only)
    where = data.draw(st.sampled_from(places({"v": value})))
    expected: Any = copy.deepcopy({"v": value})
    holder: Any = expected
    for step in where[:-1]:
        holder = holder[step]
    del holder[where[-1]]
    assert json.loads(changed(text, Remove(where))) == [expected]


# --------------------------------------------------------------------------------- files


def test_everything_that_needs_no_thought_is_mended_and_all_else_stays_as_it_was(tmp_path: Path):
    before = file_of(
        GOOD | {"id": "hooks-000", "prompt": "Something else is asked for here."}, bad(), indent="\t"
    )
    after, count = fixed(tmp_path, before)
    assert count == 4
    first, test = json.loads(after)["tests"]
    assert first == json.loads(before)["tests"][0]
    assert test["static_checks"]["required_patterns"] == [{"pattern": "get_option"}]
    assert test["requirements"] == ["Ein Käse", "Two"]
    assert test["runtime_checks"]["assertions"][-1]["target"] == (
        "$title = acme_title( 'Größe \\\"' );\nreturn $title;"
    )
    assert test["runtime_checks"]["teardown"] == "delete_option( 'acme_orders' );\ndelete_option( 'acme_a' );"
    assert test["metadata"]["check_ignore"] == {}
    gone = set(before.splitlines()) - set(after.splitlines())
    assert len(gone) <= 8, "only lines that are about what was mended differ"


def test_mending_twice_is_mending_once(tmp_path: Path):
    once, _ = fixed(tmp_path, file_of(bad()))
    again, count = fixed(tmp_path, once)
    assert (again, count) == (once, 0)


def test_a_teardown_is_made_where_there_is_none(tmp_path: Path):
    test = bad()
    del test["runtime_checks"]["teardown"]
    after, _ = fixed(tmp_path, file_of(test))
    assert json.loads(after)["tests"][0]["runtime_checks"]["teardown"] == "delete_option( 'acme_a' );"


@pytest.mark.parametrize(
    "code",
    [
        "$title = acme_title( 'a' );\n$id = 5;\nwp_delete_post( $id, true );\nreturn $title;",
        "$title = acme_title( 'a' );\nremove_filter( 'a', $this );\nreturn $title;",
    ],
)
def test_clean_up_that_needs_a_variable_is_left_to_a_person(tmp_path: Path, code: str):
    test = copy.deepcopy(GOOD)
    test["runtime_checks"]["assertions"][-1]["target"] = code
    assert fixed(tmp_path, file_of(test)) == (file_of(test), 0)


def test_clean_up_before_another_assertion_is_left_to_a_person(tmp_path: Path):
    test = copy.deepcopy(GOOD)
    first = test["runtime_checks"]["assertions"][0]
    first["target"] = "$title = acme_title( 'Shop' );\ndelete_option( 'acme_a' );\nreturn $title;"
    suites = Suites(MemoryTree({PATH: file_of(test).encode()}))
    (finding,) = check(suites, Chosen()).findings
    assert (finding.rule, finding.fixable) == ("cleanup-in-assertion", False)
    assert fixed(tmp_path, file_of(test)) == (file_of(test), 0)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_a_byte_order_mark_stay(tmp_path: Path, ending: str, mark: str):
    after, count = fixed(tmp_path, mark + file_of(bad()).replace("\n", ending))
    assert count == 4
    assert after.startswith(mark or "{")
    assert after.count("\n") == after.count(ending)


def test_a_file_keeps_its_mode_and_nothing_is_left_beside_it(tmp_path: Path):
    place = tmp_path / PATH
    place.parent.mkdir(parents=True)
    place.touch(mode=0o640)
    fixed(tmp_path, file_of(bad()))
    assert place.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in place.parent.iterdir()] == [place.name]


def test_a_file_that_is_not_what_was_read_is_left_alone(tmp_path: Path):
    place = tmp_path / PATH
    place.parent.mkdir(parents=True)
    place.write_text("somebody else's")
    suites = Suites(MemoryTree({PATH: file_of(bad()).encode()}))
    done = mend(tmp_path, suites, check(suites, Chosen()).findings)
    assert done.findings == ()
    assert "is left as it is" in done.refused[0]
    assert place.read_text() == "somebody else's"


def test_of_two_edits_that_touch_each_other_one_waits_for_the_next_round(tmp_path: Path):
    test = copy.deepcopy(GOOD) | {"requirements": ["One", "One", "One", "One"]}
    suites = Suites(MemoryTree({PATH: file_of(test).encode()}))
    (tmp_path / PATH).parent.mkdir(parents=True)
    (tmp_path / PATH).write_bytes(file_of(test).encode())
    assert 0 < len(mend(tmp_path, suites, check(suites, Chosen()).findings).findings) < 3
    after, count = fixed(tmp_path, file_of(test))
    assert (json.loads(after)["tests"][0]["requirements"], count) == (["One"], 3)


def test_a_file_that_cannot_be_written_is_an_error_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    place = tmp_path / PATH
    place.parent.mkdir(parents=True)
    place.write_bytes(file_of(bad()).encode())
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(EnvironmentFailure, match="No space left on device; nothing in it was changed"):
        fixed(tmp_path, file_of(bad()))
    assert place.read_bytes() == file_of(bad()).encode()
    assert [path.name for path in place.parent.iterdir()] == [place.name]


def test_a_link_is_not_followed(tmp_path: Path):
    place, target = tmp_path / PATH, tmp_path / "target.json"
    place.parent.mkdir(parents=True)
    target.write_bytes(file_of(bad()).encode())
    place.symlink_to(target)
    suites = Suites(MemoryTree({PATH: target.read_bytes()}))
    assert mend(tmp_path, suites, check(suites, Chosen()).findings).findings == ()
    assert target.read_bytes() == file_of(bad()).encode()


def test_an_edit_that_would_reach_another_test_is_not_made():
    source = read_source(PATH, file_of(GOOD, GOOD | {"id": "hooks-002"}).encode(), "shop")
    first, second = (entry.element.start for entry in source.tests)
    astray = Finding(PATH, 1, "x", "", "", changes=(Remove(("prompt",)),), start=second)
    text, made = edited(source, [astray])
    assert made == (astray,), "what is about the second test may change the second"
    nowhere = Finding(PATH, 1, "x", "", "", changes=(Remove(("nothing",)),), start=first)
    assert edited(source, [nowhere]) == (source.document.text, ())
    assert json.loads(text)["tests"][0] == GOOD
