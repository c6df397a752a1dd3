"""Results on disk: nothing is lost when a run stops, and nothing hostile is believed or followed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refcompare.codec import record_from, record_value, run_from, run_value
from refcompare.compare import compare
from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.fields import Unexpected
from refcompare.gate import gate
from refcompare.report import json as json_report
from refcompare.results import (
    Arm,
    AssertionResult,
    Audit,
    Environment,
    ErrorKind,
    PassingExploit,
    Phase,
    Record,
    RunResult,
    TestEntry,
    Verdict,
    WeakSpot,
)
from refcompare.schemas import Name, violation
from refcompare.store import (
    COMMENT,
    COMPARISON,
    RECORDS,
    RUN,
    Caps,
    RecordWriter,
    ResultsError,
    clear,
    read_arms,
    read_comparison,
    read_run,
    write_run,
    write_text,
)
from tests.result_builders import (
    DETERMINISTIC,
    HOSTILE_TEXTS,
    a_bit_of_everything,
    entry,
    hostile,
    many,
    record,
    run,
)

TEXT = st.one_of(st.text(max_size=20), st.sampled_from(HOSTILE_TEXTS))
SOME_TEXT = st.one_of(st.none(), TEXT)
COUNT = st.integers(0, 1000)
NUMBER = st.floats(0, 1e9)
ASSERTIONS = st.builds(
    AssertionResult, TEXT, TEXT, st.booleans(), st.floats(-1e9, 1e9), SOME_TEXT, SOME_TEXT, SOME_TEXT
)
RECORDS_OF_ANY_KIND = st.builds(
    Record,
    TEXT,
    TEXT,
    st.sampled_from(Verdict),
    NUMBER,
    error_kind=st.one_of(st.none(), st.sampled_from(ErrorKind)),
    phase=st.one_of(st.none(), st.sampled_from(Phase)),
    message=st.one_of(st.none(), TEXT.filter(bool)),
    assertions=st.lists(ASSERTIONS, max_size=3).map(tuple),
    score=st.one_of(st.none(), st.floats(0, 1)),
    forbidden=st.lists(TEXT, max_size=2).map(tuple),
    missing=st.lists(TEXT, max_size=2).map(tuple),
    output=TEXT,
    attempt=st.integers(1, 99),
    reused=st.booleans(),
)
AUDITS = st.builds(
    Audit,
    TEXT,
    st.booleans(),
    st.lists(st.builds(PassingExploit, TEXT, TEXT, TEXT), max_size=2).map(tuple),
    st.lists(st.builds(WeakSpot, COUNT, TEXT, TEXT), max_size=2).map(tuple),
    COUNT,
    COUNT,
    st.one_of(st.none(), TEXT.filter(bool)),
    st.booleans(),
    st.booleans(),
    st.one_of(st.none(), TEXT.filter(bool)),
)
ENVIRONMENTS = st.builds(Environment, *[TEXT] * 8)
ARMS = st.builds(
    Arm,
    st.sampled_from(["base", "head", "control"]),
    TEXT,
    st.one_of(st.none(), TEXT.filter(bool)),
    TEXT,
    st.one_of(st.none(), ENVIRONMENTS),
)
ENTRIES = st.builds(TestEntry, TEXT, TEXT, TEXT, TEXT, COUNT, TEXT, st.one_of(st.none(), TEXT.filter(bool)))
RUNS = st.builds(
    RunResult,
    ARMS,
    st.lists(ENTRIES, max_size=3).map(tuple),
    st.just(()),
    st.lists(AUDITS, max_size=3).map(tuple),
    st.booleans(),
    st.booleans(),
    NUMBER,
    st.lists(TEXT, max_size=2).map(tuple),
)
JSONS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 10**10), st.floats(), TEXT),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=4,
)


@st.composite
def damaged(draw: Any, whole: Any) -> Any:
    """Give a JSON value with one part, at any depth, replaced, removed or added."""
    value = json.loads(json.dumps(draw(whole)))
    place = value
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return value
        key = draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and place[key] and draw(st.booleans()):
            place = place[key]
        elif draw(st.booleans()):
            place[key] = draw(JSONS)
            return value
        else:
            del place[key]
            return value


# ------------------------------------------------------------------------- there and back


@DETERMINISTIC
@given(RECORDS_OF_ANY_KIND)
def test_a_record_comes_back_as_it_was_written(item):
    line = json_report.dump_line(record_value(item))
    assert "\n" not in line[:-1]
    value = json.loads(line)
    assert record_from(value) == item
    assert violation("record", value) is None


@DETERMINISTIC
@given(RUNS)
def test_a_run_comes_back_as_it_was_written(result):
    value = json.loads(json_report.dump(run_value(result)))
    assert run_from(value, ()) == result
    assert violation("run", value) is None


@DETERMINISTIC
@given(damaged(RECORDS_OF_ANY_KIND.map(record_value)))
def test_a_record_is_read_exactly_when_its_schema_allows_it(value):
    check_decoder(value, "record", record_from)


@DETERMINISTIC
@given(damaged(RUNS.map(run_value)))
def test_a_run_is_read_exactly_when_its_schema_allows_it(value):
    check_decoder(value, "run", lambda item: run_from(item, ()))


def test_what_follows_from_the_rest_must_be_there_too():
    value = json.loads(json_report.dump(run_value(a_bit_of_everything()[1])))
    del value["audits"][0]["exploitable"]
    check_decoder(value, "run", lambda item: run_from(item, ()))
    value = json.loads(json_report.render_run(a_bit_of_everything()[1]))
    value["records"][0]["verdict"] = "maybe"
    check_decoder(value, "run", lambda item: run_from(item, ()))


def check_decoder(value: object, name: Name, decode: Callable[[object], object]) -> None:
    try:
        decode(value)
    except Unexpected:
        assert violation(name, value) is not None
    else:
        assert violation(name, value) is None


@pytest.mark.parametrize("pair", [a_bit_of_everything(), many(20), *map(hostile, HOSTILE_TEXTS)])
def test_both_arms_come_back_from_a_directory(tmp_path, pair):
    for result in pair:
        write_run(tmp_path, result)
    assert read_arms(tmp_path) == pair
    assert compare(*read_arms(tmp_path)) == compare(*pair)


def test_the_files_are_where_the_documentation_says(tmp_path):
    for result in a_bit_of_everything():
        write_run(tmp_path, result)
    lines = (tmp_path / "head" / "records.jsonl").read_text("utf-8").splitlines()
    assert {"test_id", "candidate", "verdict", "assertions", "ms"} <= json.loads(lines[0]).keys()
    meta = json.loads((tmp_path / "base" / "run.json").read_text("utf-8"))
    assert {
        "schema_version",
        "arm",
        "environment",
        "tests",
        "audits",
        "partial",
        "seconds",
        "notes",
    } <= meta.keys()


def test_a_comparison_and_a_comment_are_written_beside_the_arms(tmp_path):
    comparison = compare(*a_bit_of_everything())
    write_text(tmp_path, COMPARISON, json_report.render(comparison, gate(comparison)))
    write_text(tmp_path, COMMENT, "lone \udc80 surrogate")
    assert (
        read_comparison(tmp_path)["headline"] == json.loads((tmp_path / COMPARISON).read_bytes())["headline"]
    )
    assert (tmp_path / COMMENT).read_bytes() == b"lone \\udc80 surrogate"


def test_the_same_run_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        write_run(tmp_path / name, a_bit_of_everything()[1])
    one, two = ((tmp_path / name / "head" / RECORDS).read_bytes() for name in ("one", "two"))
    assert one == two


# --------------------------------------------------------------------- as the run happens


def started(**fields) -> RunResult:
    return run("head", [entry("a"), entry("b")], **fields)


def test_a_record_is_on_disk_as_soon_as_it_is_written(tmp_path):
    with RecordWriter(tmp_path, started()) as writer:
        writer.append(record("a"))
        result = read_run(tmp_path, "head")
        assert result.records == (record("a"),)
        assert result.partial


def test_a_run_that_was_stopped_can_be_read_and_compared(tmp_path):
    with pytest.raises(KeyboardInterrupt), RecordWriter(tmp_path, started()) as writer:
        writer.append(record("a"))
        raise KeyboardInterrupt
    result = read_run(tmp_path, "head")
    assert result.partial
    base = run("base", [entry("a"), entry("b")], [record("a"), record("b")])
    assert [change.kind for change in compare(base, result).changes] == ["not graded", "unchanged"]


def test_a_finished_run_is_partial_no_more_and_in_its_own_order(tmp_path):
    final = replace(started(), records=(record("a"), record("b")), seconds=3.0)
    with RecordWriter(tmp_path, started()) as writer:
        writer.append(record("b"))
        writer.append(record("a"))
        writer.finish(final)
    assert read_run(tmp_path, "head") == final


def test_a_record_broken_off_in_writing_is_left_out_and_noted(tmp_path):
    write_run(tmp_path, replace(started(), records=(record("a"), record("b"))))
    path = tmp_path / "head" / RECORDS
    whole = path.read_bytes()
    second = whole.index(b"\n") + 1
    for end in range(second + 1, len(whole) - 1):
        path.write_bytes(whole[:end])
        result = read_run(tmp_path, "head")
        assert result.records == (record("a"),)
        assert result.partial
        assert result.notes == ("the last line of records.jsonl was broken off and is left out",)


def test_a_last_line_that_only_lacks_its_end_is_whole(tmp_path):
    write_run(tmp_path, replace(started(), records=(record("a"), record("b"))))
    path = tmp_path / "head" / RECORDS
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert read_run(tmp_path, "head").records == (record("a"), record("b"))


def test_records_from_several_threads_do_not_mix(tmp_path):
    with RecordWriter(tmp_path, started()) as writer:
        items = [record("a", output="x" * 10_000, attempt=number) for number in range(1, 41)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(writer.append, items))
    found = read_run(tmp_path, "head").records
    assert sorted(item.attempt for item in found) == list(range(1, 41))


def test_a_new_run_starts_from_nothing(tmp_path):
    write_run(tmp_path, replace(started(), records=(record("a"),)))
    RecordWriter(tmp_path, started()).close()
    assert read_run(tmp_path, "head").records == ()


def test_a_record_longer_than_a_reader_takes_is_cut_to_size(tmp_path):
    big = "é" * 3_000_000
    failed = AssertionResult("custom_assertion", big, False, message=big, expected=big, actual=big)
    write_run(
        tmp_path, replace(started(), records=(record("a", output=big, message=big, assertions=(failed,)),))
    )
    (found,) = read_run(tmp_path, "head").records
    assert found.message and found.message.endswith("more characters)")
    assert found.verdict is Verdict.PASS


def test_clearing_removes_the_results_and_nothing_else(tmp_path):
    for result in a_bit_of_everything():
        write_run(tmp_path, result)
    for name in (COMPARISON, COMMENT, "my-notes.txt"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "head" / "mine").mkdir()
    clear(tmp_path)
    clear(tmp_path / "nowhere")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        "base",
        "head",
        str(Path("head", "mine")),
        "my-notes.txt",
    ]


# ----------------------------------------------------------------------- hostile writing


def link(path: Path, target: Path, *, directory: bool = False) -> None:
    try:
        path.symlink_to(target, target_is_directory=directory)
    except OSError:
        pytest.skip("this user may not make links here")


@pytest.mark.parametrize("name", ["head/records.jsonl", "head/run.json", "comparison.json", "comment.md"])
def test_a_link_in_the_place_of_a_file_is_replaced_and_its_target_is_safe(tmp_path, name):
    victim, output = tmp_path / "victim", tmp_path / "output"
    victim.write_text("precious")
    (output / "head").mkdir(parents=True)
    link(output / name, victim)
    with RecordWriter(output, started()) as writer:
        writer.append(record("a"))
        writer.finish(started())
    write_text(output, COMPARISON, "{}")
    write_text(output, COMMENT, "")
    assert victim.read_text() == "precious"
    assert not (output / name).is_symlink()


def test_a_link_to_nowhere_creates_nothing_where_it_points(tmp_path):
    (tmp_path / "output" / "head").mkdir(parents=True)
    link(tmp_path / "output" / "head" / RECORDS, tmp_path / "elsewhere")
    RecordWriter(tmp_path / "output", started()).close()
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("name", ["output", "output/head"])
def test_a_link_in_the_place_of_a_directory_is_refused(tmp_path, name):
    victim = tmp_path / "victim"
    victim.mkdir()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    link(tmp_path / name, victim, directory=True)
    for write in (
        lambda: RecordWriter(tmp_path / "output", started()),
        lambda: write_run(tmp_path / "output", started()),
        lambda: clear(tmp_path / "output"),
    ):
        with pytest.raises(EnvironmentFailure, match="is a link"):
            write()
    assert list(victim.iterdir()) == []


def test_what_cannot_be_written_is_said_with_its_path(tmp_path):
    (tmp_path / "output").write_text("a file")
    with pytest.raises(
        EnvironmentFailure, match=r"cannot write .*output.*; mend that, or give another --output"
    ):
        write_run(tmp_path / "output", started())


def test_a_failed_write_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    write_text(tmp_path, COMMENT, "old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(EnvironmentFailure, match="No space left on device"):
        write_text(tmp_path, COMMENT, "new")
    assert [path.name for path in tmp_path.iterdir()] == [COMMENT]
    assert (tmp_path / COMMENT).read_text() == "old"


# ----------------------------------------------------------------------- hostile reading


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write_run(tmp_path, replace(started(), records=(record("a"), record("b"))))
    return tmp_path


def refused(directory: Path, caps: Caps | None = None) -> str:
    with pytest.raises(ResultsError) as raised:
        read_run(directory, "head", *([caps] if caps else []))
    assert isinstance(raised.value, UsageError)
    message = str(raised.value)
    assert len(message) < 600
    assert message.isprintable()
    return message


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"not json", "it is not JSON"),
        (b"", "it is not JSON"),
        (b"[]", "the object should be of type object"),
        (b'{"a": NaN}', "it holds a number that JSON does not know"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "it holds a number that JSON does not know"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b'{"a":' * 100_000, "it is nested too deeply"),
        (b"\xff\xfe", "it is not UTF-8"),
        (b'{"verdict": "maybe"}', "lacks `test_id`"),
        (b'{"test_id": "a", "candidate": "c", "verdict": "pass", "ms": 1e999}', "lacks `assertions`"),
        (b'{"test_id":"a","candidate":"c","verdict":"pass","assertions":[],"ms":1e999}', "`ms` should have"),
    ],
)
def test_a_line_that_is_no_record_is_named_by_file_and_line(results, line, problem):
    path = results / "head" / RECORDS
    path.write_bytes(path.read_bytes() + line + b"\n")
    message = refused(results)
    assert f"{RECORDS}, line 3: " in message
    assert problem in message
    assert message.endswith("so run the comparison again.")


def test_a_value_deep_in_a_key_that_is_not_known_is_ignored(results):
    path = results / "head" / RECORDS
    extra = json.dumps(record_value(record("a")))[:-1] + ', "more": ' + "[" * 300 + "]" * 300 + "}\n"
    path.write_bytes(path.read_bytes() + extra.encode())
    assert len(read_run(results, "head").records) == 3


@pytest.mark.parametrize("version", [0, 2, "1", None, True, 10**30, [1]])
def test_another_schema_version_is_refused_before_anything_else(results, version):
    path = results / "head" / RUN
    path.write_text(json.dumps({"schema_version": version}))
    message = refused(results)
    assert "this refcompare reads 1" in message


def test_a_run_that_breaks_its_schema_is_refused_with_the_place(results):
    path = results / "head" / RUN
    value = json.loads(path.read_text())
    value["tests"][1]["line"] = "three"
    path.write_text(json.dumps(value))
    assert "`tests[1].line` should be of type integer" in refused(results)


def test_sizes_are_measured_before_anything_is_parsed(results):
    assert f"{RECORDS}, line 1: line 1 is longer" not in refused(results, Caps(document=10))
    assert "it is larger than 10 bytes" in refused(results, Caps(document=10))
    assert "it is larger than 10 bytes" in refused(results, Caps(records=10))
    assert "line 1 is longer than 10 bytes" in refused(results, Caps(line=10))


def test_results_of_another_arm_are_refused(results):
    (results / "head").rename(results / "base")
    with pytest.raises(ResultsError, match="run of another arm"):
        read_run(results, "base")


def test_an_arm_that_is_no_arm_is_refused(results):
    with pytest.raises(ValueError, match="no arm"):
        read_run(results, "../head")


def test_a_directory_without_results_says_what_to_name_instead(tmp_path):
    assert "name a directory that a run with --output wrote" in refused(tmp_path)


@pytest.mark.parametrize("name", [RECORDS, RUN])
def test_a_link_in_results_is_not_followed(results, tmp_path, name):
    secret = tmp_path / "secret"
    (results / "head" / name).rename(secret)
    link(results / "head" / name, secret)
    assert "links in results are not followed" in refused(results)


def test_a_linked_arm_is_not_followed(results):
    (results / "head").rename(results / "moved")
    link(results / "head", results / "moved", directory=True)
    assert "links in results are not followed" in refused(results)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pipes in directories")
def test_a_pipe_in_results_does_not_hang(results):
    (results / "head" / RECORDS).unlink()
    os.mkfifo(results / "head" / RECORDS)
    assert "it is no file" in refused(results)


def test_a_directory_in_the_place_of_a_file_is_refused(results):
    (results / "head" / RUN).unlink()
    (results / "head" / RUN).mkdir()
    refused(results)


def test_a_hostile_comparison_is_refused(tmp_path):
    comparison = compare(*a_bit_of_everything())
    value = json.loads(json_report.render(comparison, gate(comparison)))
    value["totals"]["<script>"] = 1
    write_text(tmp_path, COMPARISON, json.dumps(value))
    with pytest.raises(ResultsError, match=r"`totals` breaks the rule|should be") as raised:
        read_comparison(tmp_path)
    assert "script" not in str(raised.value)
