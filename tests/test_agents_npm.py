"""Agents' programs come from npm, once and whole, or it is said why not."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from refcompare.agents.programs.npm import Package, Program, check_version, ensure_program
from refcompare.errors import EnvironmentFailure, UsageError

PACKAGE = Package(
    "tool", "1.2.3", "@vendor/tool@1.2.3", "node_modules/tool", "node_modules/tool/bin/tool", "TEST_TOOL"
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REFCOMPARE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TEST_TOOL", raising=False)
    return tmp_path / "cache" / "agents"


def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Put a program called npm on PATH, and give the file in which it notes how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    log = tmp_path / "calls"
    (folder / "npm").write_text(f'#!/bin/sh\necho "$@" >> {log}\nPREFIX=$3\n{script}\n')
    (folder / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return log


MAKE = "umask 077; mkdir -p $PREFIX/node_modules/tool/bin; echo x > $PREFIX/node_modules/tool/bin/tool"


def test_a_program_is_fetched_once_without_running_any_of_its_scripts(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log = npm(tmp_path, monkeypatch, f"{MAKE}; chmod +x $PREFIX/node_modules/tool/bin/tool; sleep 0.2")
    found: list[Program] = []
    threads = [threading.Thread(target=lambda: found.append(ensure_program(PACKAGE))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (call,) = log.read_text().splitlines()
    assert "--ignore-scripts" in call and call.endswith("@vendor/tool@1.2.3")
    assert set(found) == {
        Program(
            cache / "tool-1.2.3/node_modules/tool/bin/tool", cache / "tool-1.2.3/node_modules/tool", "1.2.3"
        )
    }
    assert found[0].inside("/opt/tool") == "/opt/tool/bin/tool"
    for path in (found[0].path, *found[0].path.parents[:4]):
        assert path.stat().st_mode & stat.S_IXOTH, "agents run as another uid than root"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'npm error code E404' >&2; exit 1", "npm error code E404"),
        ("mkdir -p $PREFIX/node_modules", "it has no program"),
    ],
)
def test_an_installation_that_fails_leaves_nothing(
    script: str, said: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    npm(tmp_path, monkeypatch, script)
    with pytest.raises(EnvironmentFailure, match=said):
        ensure_program(PACKAGE)
    assert [path.name for path in cache.iterdir() if path.is_dir()] == []


def test_without_npm_it_is_said_what_to_do(cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(
        EnvironmentFailure, match=r"install Node\.js with npm, or name an executable with TEST_TOOL"
    ):
        ensure_program(PACKAGE)


@pytest.mark.parametrize("version", ["1.2.3", "0.171.0", "2.0.0-beta.1"])
def test_versions_are_versions(version: str):
    assert check_version(version) == version


@pytest.mark.parametrize("version", ["", "latest", "1.2", "1.2.3 --force", "../1.2.3", "^1.2.3", "1.2.3\n"])
def test_what_is_no_version_is_told(version: str):
    with pytest.raises(UsageError, match="not a version"):
        check_version(version)
