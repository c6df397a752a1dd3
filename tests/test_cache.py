"""The verdict cache: what it knows, what it refuses to believe, and what it survives."""

from __future__ import annotations

import dataclasses
import gzip
import json
import multiprocessing
import shutil
import sqlite3
import stat
import threading
import time
from pathlib import Path

import pytest

from refcompare.cache import VerdictCache
from refcompare.cache.entries import MAX_RECORD_BYTES
from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.results import AssertionResult, Environment, ErrorKind, Record, Verdict

ENVIRONMENT = Environment(
    wordpress="7.1.1",
    wordpress_digest="aa",
    php="8.2.36",
    php_digest="bb",
    sqlite="3.40.1",
    grader_digest="cc",
)
LIMITS = Limits()


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def make_test(name: str = "one", digest: str | None = None) -> ExecutionTest:
    return ExecutionTest(
        id=name, suite="s", category="c", path="s.json", line=1, digest=digest or f"digest of {name}"
    )


def make_candidate(code: str = "return 1;", name: str = "reference") -> Candidate:
    return Candidate(name=name, code=code)


def make_record(test: ExecutionTest, candidate: Candidate, verdict: Verdict = Verdict.PASS) -> Record:
    passed = verdict is Verdict.PASS
    return Record(
        test_id=test.id,
        candidate=candidate.name,
        verdict=verdict,
        ms=12.5,
        assertions=(AssertionResult("output_equals", "says hello", passed, 2.0, None, "'é'", "'\udcff'"),),
        score=1.0 if passed else 0.25,
        forbidden=("eval",),
        missing=("add_action",),
        output="line\n\x00\udc80",
    )


def put(cache: VerdictCache, name: str, verdict: Verdict = Verdict.PASS) -> None:
    test, candidate = make_test(name), make_candidate()
    cache.put(test, candidate, ENVIRONMENT, LIMITS, make_record(test, candidate, verdict))


def get(cache: VerdictCache, name: str) -> Record | None:
    return cache.get(make_test(name), make_candidate(), ENVIRONMENT, LIMITS)


def database(path: Path) -> Path:
    (file,) = path.glob("*.sqlite3")
    return file


def alter(path: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(database(path))
    with connection:
        assert connection.execute(statement, values).rowcount > 0
    connection.close()


# What is found again


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.FAIL])
def test_a_kept_record_comes_back_whole_and_marked_as_reused(tmp_path: Path, verdict: Verdict) -> None:
    test, candidate = make_test(), make_candidate()
    record = make_record(test, candidate, verdict)
    with VerdictCache(tmp_path) as cache:
        cache.put(test, candidate, ENVIRONMENT, LIMITS, record)
    with VerdictCache(tmp_path) as cache:
        assert cache.get(test, candidate, ENVIRONMENT, LIMITS) == dataclasses.replace(record, reused=True)


def test_the_default_place_is_the_users_cache_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFCOMPARE_CACHE_DIR", str(tmp_path))
    with VerdictCache() as cache:
        assert cache.path == tmp_path / "verdicts"
        assert cache.path.is_dir()


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.FAIL])
def test_a_confirmation_rerun_is_kept_as_a_first_attempt(tmp_path: Path, verdict: Verdict) -> None:
    test, candidate = make_test(), make_candidate()
    record = dataclasses.replace(make_record(test, candidate, verdict), attempt=3)
    with VerdictCache(tmp_path) as cache:
        cache.put(test, candidate, ENVIRONMENT, LIMITS, record)
        found = cache.get(test, candidate, ENVIRONMENT, LIMITS)
    assert found is not None
    assert found.attempt == 1


@pytest.mark.parametrize("kind", list(ErrorKind))
def test_an_error_is_never_kept(tmp_path: Path, kind: ErrorKind) -> None:
    test, candidate = make_test(), make_candidate()
    record = Record(test.id, candidate.name, Verdict.ERROR, 1.0, error_kind=kind)
    with VerdictCache(tmp_path) as cache:
        cache.put(test, candidate, ENVIRONMENT, LIMITS, record)
        assert cache.get(test, candidate, ENVIRONMENT, LIMITS) is None
        assert cache.stats().entries == 0


def test_a_reused_record_is_not_kept_again_as_if_it_were_fresh(tmp_path: Path) -> None:
    test, candidate = make_test(), make_candidate()
    record = dataclasses.replace(make_record(test, candidate), reused=True)
    with VerdictCache(tmp_path) as cache:
        cache.put(test, candidate, ENVIRONMENT, LIMITS, record)
        assert cache.stats().entries == 0


def test_a_record_of_another_test_is_refused(tmp_path: Path) -> None:
    test, candidate = make_test(), make_candidate()
    with VerdictCache(tmp_path) as cache, pytest.raises(ValueError, match="put under"):
        cache.put(test, candidate, ENVIRONMENT, LIMITS, make_record(make_test("two"), candidate))


def test_the_same_code_under_another_name_is_the_same_work(tmp_path: Path) -> None:
    with VerdictCache(tmp_path) as cache:
        put(cache, "one")
        renamed = make_test("renamed", digest=make_test("one").digest)
        found = cache.get(renamed, make_candidate(name="exploit:return-1"), ENVIRONMENT, LIMITS)
    assert found is not None
    assert (found.test_id, found.candidate) == ("renamed", "exploit:return-1")


def environments() -> list[Environment]:
    return [
        dataclasses.replace(ENVIRONMENT, **{field.name: "different"})
        for field in dataclasses.fields(Environment)
    ]


@pytest.mark.parametrize("environment", environments())
def test_every_field_of_the_environment_is_part_of_the_key(tmp_path: Path, environment: Environment) -> None:
    with VerdictCache(tmp_path) as cache:
        put(cache, "one")
        assert cache.get(make_test("one"), make_candidate(), environment, LIMITS) is None


@pytest.mark.parametrize("limits", [Limits(seconds=1), Limits(memory=1), Limits(output=1)])
def test_every_limit_is_part_of_the_key(tmp_path: Path, limits: Limits) -> None:
    with VerdictCache(tmp_path) as cache:
        put(cache, "one")
        assert cache.get(make_test("one"), make_candidate(), ENVIRONMENT, limits) is None


def test_whole_seconds_are_the_same_limit_however_they_are_written(tmp_path: Path) -> None:
    with VerdictCache(tmp_path) as cache:
        put(cache, "one")
        assert cache.get(make_test("one"), make_candidate(), ENVIRONMENT, Limits(seconds=90)) is not None


@pytest.mark.parametrize(
    ("test", "candidate"),
    [
        (make_test("one", digest="edited"), make_candidate()),
        (make_test("one"), make_candidate("return 2;")),
        (make_test("one"), Candidate("reference", "return 1;", files={})),
        (make_test("one"), Candidate("reference", "return 1;", files={"a.php": "<?php"})),
    ],
    ids=["edited test", "edited code", "no files", "a file"],
)
def test_the_definition_and_the_candidate_are_part_of_the_key(
    tmp_path: Path, test: ExecutionTest, candidate: Candidate
) -> None:
    with VerdictCache(tmp_path) as cache:
        put(cache, "one")
        assert cache.get(test, candidate, ENVIRONMENT, LIMITS) is None


def test_code_cannot_be_moved_between_fields_to_meet_another_key(tmp_path: Path) -> None:
    spread = Candidate("reference", "a", files={"b": "c"})
    packed = Candidate("reference", 'a",{"b":"c', files=None)
    test = make_test()
    with VerdictCache(tmp_path) as cache:
        cache.put(test, spread, ENVIRONMENT, LIMITS, make_record(test, spread))
        assert cache.get(test, packed, ENVIRONMENT, LIMITS) is None


def test_many_are_answered_in_order_with_gaps_and_repeats(tmp_path: Path) -> None:
    names = ["a", "unknown", "b", "a"]
    with VerdictCache(tmp_path) as cache:
        put(cache, "a")
        put(cache, "b", Verdict.FAIL)
        answers = cache.get_many([(make_test(name), make_candidate()) for name in names], ENVIRONMENT, LIMITS)
        stats = cache.stats()
    assert [answer and answer.verdict for answer in answers] == [
        Verdict.PASS,
        None,
        Verdict.FAIL,
        Verdict.PASS,
    ]
    assert (stats.hits, stats.misses, stats.stored, stats.entries) == (3, 1, 2, 2)


def test_two_thousand_are_answered_at_once(tmp_path: Path) -> None:
    pairs = [(make_test(f"t{number}"), make_candidate("x" * 2000)) for number in range(2000)]
    with VerdictCache(tmp_path) as cache:
        cache.put_many(
            [(test, candidate, make_record(test, candidate)) for test, candidate in pairs],
            ENVIRONMENT,
            LIMITS,
        )
        start = time.perf_counter()
        answers = cache.get_many(pairs, ENVIRONMENT, LIMITS)
        seconds = time.perf_counter() - start
    assert None not in answers
    assert seconds < 2  # a tenth of one on a quiet machine


# A candidate with two verdicts


def test_a_key_that_got_both_verdicts_is_graded_every_time(tmp_path: Path) -> None:
    with VerdictCache(tmp_path) as cache:
        put(cache, "one", Verdict.PASS)
        put(cache, "one", Verdict.FAIL)
        assert get(cache, "one") is None
        put(cache, "one", Verdict.PASS)
        assert get(cache, "one") is None


def test_grading_again_with_the_same_verdict_renews_the_entry(tmp_path: Path) -> None:
    clock = Clock()
    with VerdictCache(tmp_path, clock=clock) as cache:
        put(cache, "one")
        clock.now += 100
        put(cache, "one")
        assert cache.prune(max_age_seconds=50) == 0
        assert get(cache, "one") is not None


# What is not believed


@pytest.mark.parametrize(
    "change",
    [
        "record = CAST(replace(CAST(record AS TEXT), '\"fail\"', '\"pass\"') AS BLOB)",
        "record = substr(record, 1, length(record) - 5)",
        "record = x''",
        "record = x'ff00'",
        "record = 'unstable'",
        "record = CAST(x'ff' AS TEXT)",
        "record = 17",
        f"record = zeroblob({MAX_RECORD_BYTES + 1})",
        "seal = x''",
        "seal = 'text'",
        "graded = graded + 1000",
        "graded = 'yesterday'",
    ],
)
def test_an_altered_entry_is_not_known_and_can_be_graded_again(tmp_path: Path, change: str) -> None:
    with VerdictCache(tmp_path) as cache:
        put(cache, "one", Verdict.FAIL)
        put(cache, "two", Verdict.FAIL)
    alter(tmp_path, f"UPDATE entries SET {change}")
    with VerdictCache(tmp_path) as cache:
        assert get(cache, "one") is None
        put(cache, "one", Verdict.FAIL)
        found = get(cache, "one")
        assert found is not None
        assert found.verdict is Verdict.FAIL
        assert cache.stats().problem is None


def test_an_entry_moved_under_another_key_is_not_believed(tmp_path: Path) -> None:
    with VerdictCache(tmp_path) as cache:
        put(cache, "passes", Verdict.PASS)
        put(cache, "fails", Verdict.FAIL)
    connection = sqlite3.connect(database(tmp_path))
    with connection:
        rows = connection.execute("SELECT key, record, seal, graded FROM entries").fetchall()
        for (key, *_), (_, record, seal, graded) in zip(rows, reversed(rows), strict=True):
            connection.execute(
                "UPDATE entries SET record = ?, seal = ?, graded = ? WHERE key = ?",
                (record, seal, graded, key),
            )
    connection.close()
    with VerdictCache(tmp_path) as cache:
        assert get(cache, "passes") is None
        assert get(cache, "fails") is None
        assert cache.stats().rejected == 2


def test_a_database_without_its_key_is_not_believed(tmp_path: Path) -> None:
    with VerdictCache(tmp_path) as cache:
        put(cache, "one")
    (tmp_path / "key").unlink()
    with VerdictCache(tmp_path) as cache:
        assert get(cache, "one") is None


def test_the_key_is_private_random_and_kept(tmp_path: Path) -> None:
    for name in ("a", "b", "a"):
        VerdictCache(tmp_path / name).close()
    keys = [(tmp_path / name / "key").read_bytes() for name in ("a", "b")]
    assert keys[0] != keys[1]
    assert {len(key) for key in keys} == {32}
    assert stat.S_IMODE((tmp_path / "a" / "key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o644, 0o620])
def test_a_key_that_others_could_read_or_write_is_replaced(tmp_path: Path, mode: int) -> None:
    with VerdictCache(tmp_path) as cache:
        put(cache, "one")
    key = tmp_path / "key"
    old = key.read_bytes()
    key.chmod(mode)
    with VerdictCache(tmp_path) as cache:
        assert get(cache, "one") is None
    assert key.read_bytes() != old
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_a_truncated_key_is_replaced(tmp_path: Path) -> None:
    VerdictCache(tmp_path).close()
    (tmp_path / "key").write_bytes(b"short")
    with VerdictCache(tmp_path) as cache:
        put(cache, "one")
        assert get(cache, "one") is not None
    assert len((tmp_path / "key").read_bytes()) == 32


def test_a_key_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_bytes(b"k" * 32)
    known.chmod(0o600)
    cache_path = tmp_path / "cache"
    cache_path.mkdir()
    (cache_path / "key").symlink_to(known)
    with VerdictCache(cache_path) as cache:
        put(cache, "one")
        assert get(cache, "one") is None
        assert "key" in (cache.stats().problem or "")
    assert known.read_bytes() == b"k" * 32


# What it survives


@pytest.mark.parametrize("damage", ["garbage", "truncated", "empty", "other table", "directory of zeros"])
def test_a_broken_database_is_set_aside_and_made_anew(tmp_path: Path, damage: str) -> None:
    with VerdictCache(tmp_path) as cache:
        for number in range(200):
            put(cache, f"t{number}")
    file = database(tmp_path)
    whole = file.read_bytes()
    if damage == "other table":
        file.unlink()
        connection = sqlite3.connect(file)
        connection.execute("CREATE TABLE entries (key)")
        connection.close()
    else:
        file.write_bytes(
            {
                "garbage": b"not a database" * 1000,
                "truncated": whole[: len(whole) // 2],
                "empty": b"",
                "directory of zeros": whole[:100] + bytes(len(whole) - 100),
            }[damage]
        )
    with VerdictCache(tmp_path) as cache:
        answers = [get(cache, f"t{number}") for number in range(200)]
        put(cache, "new")
        assert get(cache, "new") is not None
        assert cache.stats().problem is None
    assert None in answers
    assert all(answer is None or answer.verdict is Verdict.PASS for answer in answers)


def test_damage_in_the_middle_of_a_run_costs_verdicts_and_nothing_else(tmp_path: Path) -> None:
    with VerdictCache(tmp_path) as cache:
        for number in range(500):
            put(cache, f"t{number}")
    file = database(tmp_path)
    with VerdictCache(tmp_path) as cache:
        raw = bytearray(file.read_bytes())
        for start in range(4096, len(raw), 4096):
            raw[start : start + 8] = b"\xff" * 8
        file.write_bytes(raw)
        assert get(cache, "t1") is None
        put(cache, "t1")
        assert get(cache, "t1") is not None
    assert (file.with_suffix(".broken")).exists()
    with VerdictCache(tmp_path) as cache:
        cache.prune()
        assert get(cache, "t1") is not None
    assert not (file.with_suffix(".broken")).exists()


def test_a_process_whose_database_another_one_set_aside_goes_on_with_the_new_one(tmp_path: Path) -> None:
    with VerdictCache(tmp_path) as first:
        put(first, "before")
        for file in (database(tmp_path), Path(f"{database(tmp_path)}-wal")):
            file.write_bytes(b"\xff" * file.stat().st_size)
        with VerdictCache(tmp_path) as second:
            put(second, "second")
            put(first, "first")
            assert get(second, "first") is not None
            assert get(first, "second") is not None
            assert get(first, "before") is None
    with VerdictCache(tmp_path) as third:
        assert get(third, "first") is not None
        assert get(third, "second") is not None


def test_a_cache_that_is_deleted_in_the_middle_of_a_run_is_made_anew(tmp_path: Path) -> None:
    with VerdictCache(tmp_path / "cache") as cache:
        put(cache, "one")
        shutil.rmtree(tmp_path / "cache")
        assert get(cache, "one") is None
        put(cache, "two")
        assert get(cache, "two") is not None


def test_a_place_that_cannot_be_written_means_that_nothing_is_known(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where the cache would be")
    with VerdictCache(blocked) as cache:
        put(cache, "one")
        assert get(cache, "one") is None
        assert cache.prune() == 0
        assert "can't be used" in (cache.stats().problem or "")
        with pytest.raises(EnvironmentFailure):
            cache.export(tmp_path / "export")
    assert not (tmp_path / "export").exists()


def test_a_closed_cache_knows_nothing(tmp_path: Path) -> None:
    with VerdictCache(tmp_path) as cache:
        put(cache, "one")
    assert get(cache, "one") is None


def _fill(path: str, worker: int) -> None:
    with VerdictCache(Path(path)) as cache:
        for number in range(60):
            put(cache, f"own{worker}-{number}")
            put(cache, f"shared-{number}", Verdict.FAIL)
            assert get(cache, f"own{worker}-{number}") is not None


def test_processes_that_start_at_once_share_one_cache(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_fill, args=(str(tmp_path), number)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    with VerdictCache(tmp_path) as cache:
        assert cache.stats().entries == 4 * 60 + 60
        assert all(get(cache, f"own{worker}-{number}") for worker in range(4) for number in range(60))
        assert get(cache, "shared-0") is not None


def test_threads_share_one_cache(tmp_path: Path) -> None:
    with VerdictCache(tmp_path) as cache:

        def fill(start: int) -> None:
            for number in range(start, start + 50):
                put(cache, f"t{number}")

        threads = [threading.Thread(target=fill, args=(start,)) for start in (0, 100, 200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert cache.stats().entries == 150


# Pruning


def test_pruning_by_age_drops_what_was_graded_too_long_ago_even_if_used_since(tmp_path: Path) -> None:
    clock = Clock()
    with VerdictCache(tmp_path, clock=clock) as cache:
        put(cache, "old")
        clock.now += 7200
        put(cache, "new")
        assert get(cache, "old") is not None
        assert cache.prune(max_age_seconds=3600) == 1
        assert get(cache, "old") is None
        assert get(cache, "new") is not None


def test_pruning_by_size_drops_the_least_recently_used_and_shrinks_the_file(tmp_path: Path) -> None:
    clock = Clock()
    with VerdictCache(tmp_path, clock=clock) as cache:
        for number in range(400):
            put(cache, f"t{number}")
        clock.now += 7200
        assert get(cache, "t7") is not None
        before = cache.stats().bytes
        dropped = cache.prune(max_bytes=before // 4)
        after = cache.stats()
        assert 200 < dropped < 400
        assert after.entries == 400 - dropped
        assert after.bytes < before // 2
        assert database(tmp_path).stat().st_size == after.bytes
        assert get(cache, "t7") is not None


# Exports


def test_a_trusted_export_of_another_cache_is_taken_over_and_sealed_anew(tmp_path: Path) -> None:
    with VerdictCache(tmp_path / "a") as cache:
        put(cache, "one")
        put(cache, "two", Verdict.FAIL)
        assert cache.export(tmp_path / "export") == 2
    with VerdictCache(tmp_path / "b") as cache:
        put(cache, "two", Verdict.FAIL)
        result = cache.merge(tmp_path / "export", trusted=True)
        assert (result.added, result.known, result.rejected, result.complete) == (1, 1, 0, True)
    with VerdictCache(tmp_path / "b") as cache:
        assert [record and record.verdict for record in (get(cache, "one"), get(cache, "two"))] == [
            Verdict.PASS,
            Verdict.FAIL,
        ]


def test_an_export_that_is_not_trusted_gives_only_what_this_cache_sealed(tmp_path: Path) -> None:
    with VerdictCache(tmp_path / "a") as cache:
        put(cache, "one")
        cache.export(tmp_path / "export")
    with VerdictCache(tmp_path / "b") as cache:
        assert cache.merge(tmp_path / "export").rejected == 1
        assert get(cache, "one") is None
    with VerdictCache(tmp_path / "a") as cache:
        cache.prune(max_bytes=0)
        assert get(cache, "one") is None
        assert cache.merge(tmp_path / "export").added == 1
        assert get(cache, "one") is not None


def test_a_merge_that_contradicts_makes_the_key_unstable(tmp_path: Path) -> None:
    with VerdictCache(tmp_path / "a") as cache:
        put(cache, "one", Verdict.PASS)
        cache.export(tmp_path / "export")
    with VerdictCache(tmp_path / "b") as cache:
        put(cache, "one", Verdict.FAIL)
        cache.merge(tmp_path / "export", trusted=True)
        assert get(cache, "one") is None
        cache.export(tmp_path / "unstable")
    with VerdictCache(tmp_path / "a") as cache:
        cache.merge(tmp_path / "unstable", trusted=True)
        assert get(cache, "one") is None


def test_the_same_entries_export_to_the_same_bytes(tmp_path: Path) -> None:
    with VerdictCache(tmp_path / "a", clock=Clock()) as cache:
        for number in range(3):
            put(cache, f"t{number}")
        cache.export(tmp_path / "one")
        cache.export(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_poisoned_entry_is_not_exported(tmp_path: Path) -> None:
    with VerdictCache(tmp_path / "a") as cache:
        put(cache, "one", Verdict.FAIL)
    alter(
        tmp_path / "a",
        "UPDATE entries SET record = CAST(replace(CAST(record AS TEXT), '\"fail\"', '\"pass\"') AS BLOB)",
    )
    with VerdictCache(tmp_path / "a") as cache:
        assert cache.export(tmp_path / "export") == 0


def edit_lines(path: Path, old: bytes, new: bytes) -> None:
    content = gzip.decompress(path.read_bytes())
    assert old in content
    path.write_bytes(gzip.compress(content.replace(old, new)))


def test_an_altered_line_of_a_trusted_export_is_left_out(tmp_path: Path) -> None:
    with VerdictCache(tmp_path / "a") as cache:
        put(cache, "one", Verdict.FAIL)
        put(cache, "two", Verdict.PASS)
        cache.export(tmp_path / "export")
    edit_lines(tmp_path / "export", rb"\"verdict\":\"fail\"", rb"\"verdict\":\"pass\"")
    with VerdictCache(tmp_path / "b") as cache:
        result = cache.merge(tmp_path / "export", trusted=True)
        assert (result.added, result.rejected) == (1, 1)
        assert get(cache, "one") is None


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[]",
        b"null",
        b"{}",
        b'{"key": 1, "record": 2, "seal": 3, "graded": 4, "sum": 5}',
        b'{"key": "00", "record": "\\udcff", "seal": "", "graded": 1.0, "sum": ""}',
        b"[" * 100_000,
    ],
)
def test_a_hostile_line_of_an_export_is_left_out(tmp_path: Path, line: bytes) -> None:
    with VerdictCache(tmp_path / "a") as cache:
        put(cache, "one")
        cache.export(tmp_path / "export")
    content = gzip.decompress((tmp_path / "export").read_bytes())
    header, entry = content.splitlines()
    (tmp_path / "export").write_bytes(gzip.compress(b"\n".join([header, line, entry, b""])))
    with VerdictCache(tmp_path / "b") as cache:
        result = cache.merge(tmp_path / "export", trusted=True)
        assert (result.added, result.rejected) == (1, 1)


def test_an_export_that_was_cut_short_gives_what_it_holds_and_says_so(tmp_path: Path) -> None:
    with VerdictCache(tmp_path / "a") as cache:
        for number in range(2000):
            put(cache, f"t{number}")
        cache.export(tmp_path / "export")
    whole = (tmp_path / "export").read_bytes()
    (tmp_path / "export").write_bytes(whole[: len(whole) // 2])
    with VerdictCache(tmp_path / "b") as cache:
        result = cache.merge(tmp_path / "export", trusted=True)
        assert not result.complete
        assert 0 < result.added < 2000
        assert cache.stats().entries == result.added


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"plain text",
        gzip.compress(b""),
        gzip.compress(b"[]\n"),
        gzip.compress(json.dumps({"refcompare": "verdicts", "format": 999}).encode() + b"\n"),
        gzip.compress(b"[" * 2000),
    ],
)
def test_what_is_no_export_is_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "export").write_bytes(content)
    with VerdictCache(tmp_path / "cache") as cache, pytest.raises(UsageError, match="is not an export"):
        cache.merge(tmp_path / "export", trusted=True)


def test_an_export_that_is_not_there_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with VerdictCache(tmp_path / "cache") as cache, pytest.raises(UsageError, match="can't be read"):
        cache.merge(tmp_path / "nowhere")


def test_a_verdict_from_the_future_ages_from_now(tmp_path: Path) -> None:
    clock = Clock()
    clock.now += 1e9
    with VerdictCache(tmp_path / "a", clock=clock) as cache:
        put(cache, "one")
        cache.export(tmp_path / "export")
    clock.now -= 1e9
    with VerdictCache(tmp_path / "b", clock=clock) as cache:
        cache.merge(tmp_path / "export", trusted=True)
        clock.now += 100
        assert cache.prune(max_age_seconds=50) == 1
