"""Finding a PHP that can grade, and saying what to do where there is none."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refcompare.errors import EnvironmentFailure
from refcompare.wordpress.php import Php, find_php

EXTENSIONS = (
    "Core", "dom", "json", "mbstring", "pcntl", "PDO", "pdo_sqlite",
    "Phar", "posix", "SimpleXML", "sockets", "tokenizer", "xml",
)  # fmt: skip

FACTS: dict[str, Any] = {
    "binary": "",
    "version": "8.3.7",
    "build": ["Linux", 8, 0, 0, "4.3.7", "x86_64"],
    "extensions": dict.fromkeys(EXTENSIONS, "8.3.7"),
    "sqlite": "3.45.1",
    "extension_directory": "/usr/lib/php/20230831",
    "scan_directory": "",
    "ini": False,
    "scanned": False,
    "settings": {"precision": "14", "memory_limit": "128M"},
}

MakePhp = Callable[..., Path]


@pytest.fixture
def make_php(tmp_path: Path) -> MakePhp:
    """Make a program that answers as a PHP with these facts would, and logs each start."""

    def make(name: str = "php", noise: str = "", **facts: Any) -> Path:
        program = tmp_path / name
        program.parent.mkdir(exist_ok=True, parents=True)
        said = json.dumps({**FACTS, "binary": str(program), **facts})
        program.write_text(
            f"#!{sys.executable}\n"
            "import json, os, pathlib, sys\n"
            f"with open({str(tmp_path / 'starts')!r}, 'a') as log:\n"
            "    log.write(json.dumps(dict(os.environ)) + '\\n')\n"
            f"print({noise!r} + '\\x02' + {said!r}, end='')\n"
        )
        program.chmod(0o755)
        return program

    return make


def starts(directory: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (directory / "starts").read_text().splitlines()]


# The real one


def test_the_real_php_is_described_as_it_describes_itself(php: Php):
    def says(code: str) -> str:
        return subprocess.run([str(php.binary), "-r", code], capture_output=True, text=True).stdout

    assert php.version == says("echo PHP_VERSION;")
    assert php.series == says("echo PHP_MAJOR_VERSION, '.', PHP_MINOR_VERSION;")
    assert php.sqlite == says(
        "echo (new PDO('sqlite::memory:'))->query('SELECT sqlite_version()')->fetchColumn();"
    )
    assert str(php.extension_directory) == says("echo ini_get('extension_dir');")
    assert {"pcntl", "posix", "sockets", "pdo_sqlite", "phar"} <= set(php.extensions)
    assert php.binary.is_absolute()
    assert not php.binary.is_symlink()


def test_every_ini_file_of_the_real_php_lies_in_a_named_directory(php: Php):
    code = "echo php_ini_loaded_file(), ',', php_ini_scanned_files();"
    listed = subprocess.run([str(php.binary), "-r", code], capture_output=True, text=True).stdout
    for name in filter(None, (part.strip() for part in listed.split(","))):
        assert Path(name).parent in php.ini_directories
        assert Path(name).resolve().parent in php.ini_directories


def test_the_real_php_is_the_same_when_named_by_its_path(php: Php):
    assert find_php(str(php.binary)).digest == php.digest


# Where it is looked for


def test_the_variable_names_another_php(make_php: MakePhp, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REFCOMPARE_PHP", str(make_php("php8.3")))
    assert find_php().version == "8.3.7"


def test_an_argument_wins_over_the_variable(make_php: MakePhp, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REFCOMPARE_PHP", str(make_php("one", version="8.3.1")))
    assert find_php(str(make_php("other", version="8.3.2"))).version == "8.3.2"


def test_the_first_php_on_path_is_taken(make_php: MakePhp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    make_php("bin/php", version="8.4.1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("REFCOMPARE_PHP", raising=False)
    assert find_php().version == "8.4.1"


def test_a_link_leads_to_the_real_binary(make_php: MakePhp, tmp_path: Path):
    real = make_php("php8.3")
    (tmp_path / "php").symlink_to(real)
    assert find_php(str(tmp_path / "php")).binary == real


def test_one_process_is_started_however_often_it_is_asked(make_php: MakePhp, tmp_path: Path):
    program = str(make_php())
    assert find_php(program) is find_php(program)
    assert len(starts(tmp_path)) == 1


def test_php_gets_no_secret_of_the_environment(
    make_php: MakePhp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    monkeypatch.setenv("PHP_INI_SCAN_DIR", "/somewhere")
    find_php(str(make_php()))
    assert set(starts(tmp_path)[0]) <= {"PATH", "HOME", "LANG", "LC_CTYPE"}


def test_what_extensions_print_at_start_is_ignored(make_php: MakePhp):
    assert find_php(str(make_php(noise="\nWarning: Module already loaded\n"))).version == "8.3.7"


def test_links_between_ini_directories_are_followed(make_php: MakePhp, tmp_path: Path):
    scanned, available = tmp_path / "cli" / "conf.d", tmp_path / "mods-available"
    scanned.mkdir(parents=True)
    available.mkdir()
    (available / "dom.ini").write_text("extension=dom\n")
    (scanned / "20-dom.ini").symlink_to(available / "dom.ini")
    (tmp_path / "cli" / "php.ini").write_text("")
    php = find_php(
        str(
            make_php(
                scan_directory=str(scanned),
                ini=str(tmp_path / "cli" / "php.ini"),
                scanned=f"{scanned}/20-dom.ini\n",
            )
        )
    )
    assert php.scan_directory == scanned
    assert php.ini_directories == (tmp_path / "cli", scanned, available)


def test_a_php_without_ini_files_names_no_directory(make_php: MakePhp):
    php = find_php(str(make_php()))
    assert php.scan_directory is None
    assert php.ini_directories == ()


@pytest.mark.parametrize(
    "other",
    [
        {"version": "8.3.8"},
        {"sqlite": "3.46.0"},
        {"extensions": {**FACTS["extensions"], "xdebug": "3.3.0"}},
        {"settings": {**FACTS["settings"], "precision": "17"}},
    ],
    ids=["version", "sqlite", "extension", "setting"],
)
def test_the_digest_tells_apart_what_can_change_a_verdict(make_php: MakePhp, other: dict[str, Any]):
    assert find_php(str(make_php("one"))).digest != find_php(str(make_php("other", **other))).digest


def test_the_digest_does_not_depend_on_where_php_lies_or_how_much_memory_it_may_use(make_php: MakePhp):
    settings = {**FACTS["settings"], "memory_limit": "1G"}
    assert find_php(str(make_php("one"))).digest == find_php(str(make_php("other", settings=settings))).digest


# What to do where there is none


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with apt-get and nothing else, as a user who is not root."""
    (tmp_path / "debian").mkdir()
    (tmp_path / "debian" / "apt-get").write_text("#!/bin/sh\n")
    (tmp_path / "debian" / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "debian"))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("REFCOMPARE_PHP", raising=False)
    return tmp_path / "debian"


def test_no_php_names_the_command_that_installs_it(debian: Path):
    with pytest.raises(EnvironmentFailure) as raised:
        find_php()
    assert "sudo apt-get install -y php-cli php-mbstring php-sqlite3 php-xml" in str(raised.value)


def test_root_needs_no_sudo(debian: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(EnvironmentFailure, match="run: apt-get install"):
        find_php()


def test_a_mac_is_told_about_brew(debian: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(EnvironmentFailure, match="run: brew install php"):
        find_php()


def test_a_system_without_a_known_package_manager_is_told_what_is_needed(debian: Path):
    (debian / "apt-get").unlink()
    with pytest.raises(EnvironmentFailure, match=r"install PHP 8\.1 or newer with .*pdo_sqlite"):
        find_php()


def test_missing_extensions_name_the_packages_of_that_php(debian: Path, make_php: MakePhp):
    extensions = {name: v for name, v in FACTS["extensions"].items() if name not in {"pdo_sqlite", "dom"}}
    with pytest.raises(EnvironmentFailure) as raised:
        find_php(str(make_php("php8.3", extensions=extensions)))
    assert "lacks the extensions dom, pdo_sqlite" in str(raised.value)
    assert "apt-get install -y php8.3-sqlite3 php8.3-xml" in str(raised.value)


@pytest.mark.parametrize("version", ["8.0.30", "7.4.33", "5.6.40"])
def test_an_old_php_is_named_with_what_is_needed(make_php: MakePhp, version: str):
    with pytest.raises(EnvironmentFailure, match=rf"PHP {version} .* too old: 8\.1 or newer"):
        find_php(str(make_php(version=version)))


def test_an_old_sqlite_is_refused(make_php: MakePhp):
    with pytest.raises(EnvironmentFailure, match=r"linked to SQLite 3\.31\.1: 3\.37\.0 or newer"):
        find_php(str(make_php(sqlite="3.31.1")))


def test_a_program_that_is_no_php_is_refused(tmp_path: Path):
    program = shutil.which("true")
    assert program is not None
    with pytest.raises(EnvironmentFailure, match="does not run as a command-line PHP"):
        find_php(program)


def test_a_program_that_cannot_be_started_is_refused(tmp_path: Path):
    (tmp_path / "php").write_text("#!/no/such/interpreter\n")
    (tmp_path / "php").chmod(0o755)
    with pytest.raises(EnvironmentFailure, match="cannot be run"):
        find_php(str(tmp_path / "php"))


def test_a_php_that_says_nothing_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("refcompare.wordpress.php._TIMEOUT_SECONDS", 0.2)
    (tmp_path / "php").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "php").chmod(0o755)
    with pytest.raises(EnvironmentFailure) as refused:
        find_php(str(tmp_path / "php"))
    assert str(refused.value).endswith(
        "php said nothing within 0.2 seconds; set REFCOMPARE_PHP to another one."
    )
