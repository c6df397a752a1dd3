"""What an installed refcompare carries, and that a checkout sets itself up with what the README says."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import refcompare

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.skipif(
    not (ROOT / "pyproject.toml").is_file(), reason="only a checkout can be packaged"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--wheel-dir",
            str(directory),
            str(ROOT),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (path,) = directory.iterdir()
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as an installer lays it out, without its dependencies."""
    directory = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    return directory


def run_installed(installed: Path, code: str, cwd: Path) -> str:
    """Run code against the unpacked wheel alone: -P keeps the working directory off the path."""
    result = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": str(installed)},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def tracked(directory: str) -> set[str]:
    """The files that a checkout has below ``directory``, without hidden ones."""
    paths = (ROOT / directory).rglob("*")
    return {
        path.relative_to(ROOT / directory).as_posix()
        for path in paths
        if path.is_file() and not path.name.startswith(".") and "__pycache__" not in path.parts
    }


@pytest.mark.parametrize(
    ("source", "packaged"),
    [("php", "refcompare/_php"), ("datasets/schema", "refcompare/_schema"), ("refcompare", "refcompare")],
)
def test_the_wheel_carries_every_file_of(wheel: Path, source: str, packaged: str) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = tracked(source)
    assert expected
    assert {f"{packaged}/{name}" for name in expected} <= names


def test_the_wheel_carries_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    strays = [
        name
        for name in names
        if not name.startswith(("refcompare/", f"refcompare-{refcompare.__version__}.dist-info/"))
        or name.endswith((".pyc", ".orig", ".sqlite3"))
    ]
    assert strays == []


def test_the_metadata_names_the_license_the_version_and_the_command(installed: Path) -> None:
    (directory,) = installed.glob("*.dist-info")
    metadata = email.message_from_string((directory / "METADATA").read_text("utf-8"))
    assert metadata["Version"] == refcompare.__version__
    assert metadata["License-Expression"] == "GPL-2.0-or-later"
    assert "refcompare = refcompare.cli:main" in (directory / "entry_points.txt").read_text("utf-8")
    assert "either version 2 of the License" in (directory / "licenses" / "LICENSE").read_text("utf-8")


def test_an_installed_refcompare_finds_the_grader_and_the_schemas_it_came_with(
    installed: Path, tmp_path: Path
) -> None:
    code = "from refcompare import resources as r; print(r.grader_source()); print(r.schema_directory())"
    grader, schemas = map(Path, run_installed(installed, code, tmp_path).splitlines())
    assert grader == installed / "refcompare" / "_php"
    assert (grader / "worker.php").is_file()
    assert schemas == installed / "refcompare" / "_schema"
    assert list(schemas.glob("*.json"))


def test_an_installed_refcompare_says_its_version(installed: Path, tmp_path: Path) -> None:
    code = "import sys; from refcompare.cli import main; sys.argv = ['refcompare', '--version']; main()"
    assert refcompare.__version__ in run_installed(installed, code, tmp_path)


@pytest.mark.parametrize("script", ["scripts/bootstrap", ".ci/run"])
def test_the_set_up_scripts_are_executable_and_parse(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    subprocess.run(["bash", "-n", str(ROOT / script)], check=True)


def test_an_unknown_set_up_step_is_refused(tmp_path: Path) -> None:
    result = subprocess.run(
        [str(ROOT / "scripts/bootstrap"), "nonsense"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert result.returncode == 3
    assert result.stderr == "bootstrap: there is no step `nonsense`\n"


def test_a_machine_without_a_new_enough_python_is_told_so(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "scripts").mkdir(parents=True)
    (checkout / "pyproject.toml").write_text("")
    (checkout / "scripts/bootstrap").write_bytes((ROOT / "scripts/bootstrap").read_bytes())
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    result = subprocess.run(
        ["bash", str(checkout / "scripts/bootstrap"), "python"],
        env={**os.environ, "PYTHON": str(old)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 3
    assert "Python 3.11 or newer was not found" in result.stderr
    assert not (checkout / ".venv").exists()


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A directory of programs that is all the PATH there is: no PHP, no bubblewrap, and an apt-get
    that writes down what it was asked, and "installs" by making the program appear.
    """
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "cat", "chmod", "dirname", "env", "ln", "mktemp", "rm", "sudo", "uname"):
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    scripts = {
        "git": "exit 0",
        "sleep": "exit 0",
        "sudo": '[ "$1" = -v ] || exec "$@"',
        "apt-cache": f"test -e {tmp_path}/lists",
        "apt-get": f"""
            echo "$DEBIAN_FRONTEND $*" >>{tmp_path}/log
            case " $* " in *" update "*) touch {tmp_path}/lists; exit ;; esac
            if [ -e {tmp_path}/stale ]; then echo 404 not found >&2; rm {tmp_path}/stale; exit 100; fi
            case "$*" in
                *bubblewrap*) ln -s {shutil.which("true")} {programs}/bwrap ;;
                *php-cli*) ln -s {shutil.which("true")} {programs}/php ;;
            esac""",
    }
    (programs / "touch").symlink_to(shutil.which("touch") or "/usr/bin/touch")
    for name, script in scripts.items():
        (programs / name).unlink(missing_ok=True)
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    return programs


def set_up_system(machine: Path) -> tuple[str, list[str]]:
    """Run the step that installs programs; give what it said and what it asked apt-get."""
    environment = {"PATH": str(machine), "HOME": str(machine.parent)}
    result = subprocess.run(
        ["bash", str(ROOT / "scripts/bootstrap"), "system"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    log = machine.parent / "log"
    return result.stderr, log.read_text().splitlines() if log.exists() else []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="apt-get is for Linux")
def test_a_bare_machine_gets_php_and_bubblewrap_is_told_why_and_is_left_alone_the_second_time(
    machine: Path,
) -> None:
    said, asked = set_up_system(machine)
    assert "graded code runs in a bubblewrap sandbox: running" in said
    assert "WordPress runs on PHP: running" in said
    assert [line.split()[-1] for line in asked][:2] == ["update", "bubblewrap"]
    assert asked[2].endswith("php-cli php-curl php-gd php-intl php-mbstring php-sqlite3 php-xml php-zip")
    assert all(line.startswith("noninteractive ") for line in asked)
    (machine.parent / "log").unlink()
    assert set_up_system(machine) == ("", [])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="apt-get is for Linux")
def test_old_package_lists_are_renewed_and_the_installation_tried_again(machine: Path) -> None:
    (machine.parent / "lists").touch()
    (machine.parent / "stale").touch()
    said, asked = set_up_system(machine)
    assert "404 not found" in said
    assert [line.split()[-1] for line in asked][:3] == ["bubblewrap", "update", "bubblewrap"]
