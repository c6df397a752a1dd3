"""Writes the execution tests of a ref as a dataset: one Parquet and one JSON Lines file, a row for each test.

    python datasets/export_dataset.py --output DIR [--ref REF] [--suites GLOB]

Nothing that gives a cheat away is in it: not ``exploit_solutions``, nor notes and fields of a test's own,
which may tell where it is weak. The same tests give the same bytes; datasets/README.md says what that
rests on. Needs ``pip install '.[dataset]'``.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from refcompare.errors import EnvironmentFailure, RefcompareError, UsageError
from refcompare.execution.definition import ASSERTION_FIELDS, PATTERN_FIELDS, definition
from refcompare.execution.model import ExecutionTest
from refcompare.git import Repository
from refcompare.suites import DEFAULT_GLOBS, load_suites
from refcompare.wording import printable, quoted

NAME = "execution_tests"
"""What both files are called, before their endings."""

COLUMNS = (
    "suite",
    "category",
    "id",
    "prompt",
    "requirements",
    "test_function",
    "expected_behavior",
    "artifact_kind",
    "reference_solution",
    "reference_files",
    "static_checks",
    "runtime_checks",
    "source_refs",
    "release_focus",
    "path",
    "digest",
    "commit",
)
"""The columns in their order."""

LISTS = frozenset({"requirements", "source_refs"})
"""The columns that hold lists of texts. All others hold a text or null."""

_ROWS_IN_GROUP = 1000
_LEVEL = 9

Row = dict[str, Any]


def rows(tests: Sequence[ExecutionTest], commit: str | None) -> list[Row]:
    """Give the rows of tests, by suite, category and id. ``commit`` is the ref's full SHA, if it has one."""
    ordered = sorted(tests, key=lambda test: (test.suite, test.category, test.id))
    return [_row(test, commit) for test in ordered]


def _row(test: ExecutionTest, commit: str | None) -> Row:
    authored = definition(test)
    static, runtime = authored["static_checks"], authored["runtime_checks"]
    focus, sources = test.metadata.get("release_focus"), test.metadata.get("source_refs")
    values: Row = {
        **{name: authored[name] for name in COLUMNS if name in authored},
        "reference_files": _json(authored["reference_files"]),
        "static_checks": _json({name: _known(static[name], PATTERN_FIELDS) for name in static}),
        "runtime_checks": _json({**runtime, "assertions": _known(runtime["assertions"], ASSERTION_FIELDS)}),
        "suite": test.suite,
        "path": test.path,
        "digest": test.digest,
        "commit": commit,
        # Nobody checks what is in metadata, so only what has the right type is taken over.
        "release_focus": focus if isinstance(focus, str) else None,
        "source_refs": _texts(sources),
    }
    return {name: values[name] for name in COLUMNS}


def _known(members: Sequence[Any], fields: frozenset[str]) -> list[Any]:
    """Give the members of a list with the format's own fields: others may say what must not be told."""
    return [
        {name: value for name, value in item.items() if name in fields} if isinstance(item, dict) else item
        for item in members
    ]


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _json(value: Any) -> str | None:
    """Give a value as JSON. Keys keep their order, since PHP tells arrays apart by it."""
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def json_lines(found: Sequence[Row]) -> bytes:
    """Give rows as JSON Lines in UTF-8, each line ended."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found).encode()


def parquet(found: Sequence[Row]) -> bytes:
    """Give rows as a Parquet file. Raises EnvironmentFailure without pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise EnvironmentFailure(
            "Parquet needs pyarrow, which is not installed: `pip install '.[dataset]'` in refcompare's clone."
        ) from error
    text = pyarrow.string()
    schema = pyarrow.schema([(name, pyarrow.list_(text) if name in LISTS else text) for name in COLUMNS])
    columns = [pyarrow.array([row[field.name] for row in found], field.type) for field in schema]
    buffer = io.BytesIO()
    # Every choice that bytes depend on is made here, so that no default of a release can change them.
    pyarrow.parquet.write_table(
        pyarrow.Table.from_arrays(columns, schema=schema),
        buffer,
        row_group_size=_ROWS_IN_GROUP,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=_LEVEL,
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
    )
    return buffer.getvalue()


def load(ref: str, globs: Sequence[str], start: Path) -> list[Row]:
    """Give the rows of a ref of the repository around ``start``.

    Raises UsageError where the ref has no such test, or one that cannot be graded: a dataset that lacks
    a test looks like one that never had it.
    """
    with Repository.discover(start) as repository:
        tree = repository.resolve(ref)
        suites = load_suites(tree, globs)
    if suites.invalid:
        item, more = suites.invalid[0], len(suites.invalid) - 1
        rest = f", and {more} more cannot either" if more else ""
        raise UsageError(
            f"{item.path}:{item.line}: {quoted(item.id)} cannot be graded ({item.reason}){rest}: "
            "mend it; `refcompare check` shows all."
        )
    if not suites.tests:
        raise UsageError(
            f"{tree.ref.label} has no execution test in {' or '.join(map(printable, globs))}: "
            "give another --ref, or --suites."
        )
    return rows(suites.tests, tree.ref.commit)


def write(output: Path, files: dict[str, bytes]) -> None:
    """Write files whole or not at all. Raises UsageError where the place does not take them."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            part = output / f".{name}.part"
            try:
                part.write_bytes(data)
                part.replace(output / name)
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"{printable(str(output))} cannot be written to ({error.strerror}): give another --output."
        ) from error


@click.command(epilog="Example: python datasets/export_dataset.py --ref v1.0.0 --output build/dataset")
@click.option("--output", required=True, type=click.Path(path_type=Path), help="Folder to write to.")
@click.option("--ref", default="HEAD", show_default=True, help="What to export: any ref, or WORKTREE.")
@click.option("--suites", multiple=True, metavar="GLOB", help="Suite files, instead of all of them.")
def main(output: Path, ref: str, suites: tuple[str, ...]) -> None:
    """Write the execution tests of a ref as Parquet and JSON Lines, without what would give a cheat away."""
    try:
        found = load(ref, suites or DEFAULT_GLOBS, Path.cwd())
        write(output, {f"{NAME}.parquet": parquet(found), f"{NAME}.jsonl": json_lines(found)})
    except RefcompareError as error:
        click.echo(f"export_dataset: {error}", err=True)
        sys.exit(error.exit_code)
    click.echo(f"{len(found)} tests in {printable(str(output))}: {NAME}.parquet and {NAME}.jsonl.")


if __name__ == "__main__":
    main()
