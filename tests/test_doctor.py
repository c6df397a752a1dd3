"""The doctor: what it finds on this machine and on machines that lack something."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from refcompare import doctor
from refcompare.doctor import CheckResult, Status, diagnose, namespace_cause, ready, render_json, render_text
from refcompare.wordpress.php import Php

Bin = Callable[..., None]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "cache"
    monkeypatch.setenv("REFCOMPARE_CACHE_DIR", str(directory))
    monkeypatch.delenv("REFCOMPARE_PHP", raising=False)
    return directory


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bin]:
    """Make a PATH of nothing but the programs that are given, each a name and a shell script."""
    # Not in tmp_path: as root, bubblewrap is started as a uid that can't look into it.
    scratch = tempfile.TemporaryDirectory()
    directory = Path(scratch.name)
    directory.chmod(0o755)
    monkeypatch.setenv("PATH", str(directory))

    def install(**scripts: str) -> None:
        for name, script in scripts.items():
            program = directory / name.replace("_", "-")
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)

    yield install
    scratch.cleanup()


def by_name() -> dict[str, CheckResult]:
    return {result.name: result for result in diagnose()}


def sudo() -> str:
    return "" if os.geteuid() == 0 else "sudo "


def test_this_machine_is_described_with_its_versions() -> None:
    found = by_name()
    assert sys.executable in found["python"].found
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout
    assert found["git"].found == git.strip().removeprefix("git version ")
    assert found["git"].status is Status.OK
    assert found["cache"].status in (Status.OK, Status.WARN)
    assert "GiB free" in found["cache"].found


@pytest.mark.wordpress
@pytest.mark.skipif(
    os.environ.get("REFCOMPARE_REQUIRE_WORDPRESS") != "1"
    and not (shutil.which("php") and shutil.which("bwrap")),
    reason="no PHP or no bubblewrap here",
)
def test_a_machine_that_grades_is_said_to_be_ready() -> None:
    found = diagnose()
    names = [result.name for result in found]
    assert names[:4] == ["python", "git", "php", "php extensions"]
    assert {"bubblewrap", "user namespaces", "sandbox", "execution"} <= set(names)
    assert ready(found), render_text(found)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bubblewrap is for Linux")
def test_on_a_bare_debian_each_missing_program_comes_with_its_command(only: Bin) -> None:
    only(apt_get="exit 0")
    found = by_name()
    assert not ready(tuple(found.values()))
    prefix = f"{sudo()}apt-get update && {sudo()}apt-get install -y"
    for name, package in {"git": "git", "bubblewrap": "bubblewrap"}.items():
        assert found[name].status is Status.MISSING
        assert found[name].mend == f"{prefix} {package}"
    assert found["php"].status is Status.MISSING
    assert (found["php"].mend or "").startswith(f"{prefix} php-cli ")
    for name, package in {"npm": "npm", "docker": "docker.io"}.items():
        assert found[name].status is Status.WARN
        assert found[name].mend == f"{prefix} {package}"


def test_the_commands_are_those_of_the_machines_own_package_manager(only: Bin) -> None:
    assert doctor.install_command("git") is None
    only(brew="exit 0")
    assert doctor.install_command("git") == "brew install git"
    only(dnf="exit 0")
    assert doctor.install_command("git") == f"{sudo()}dnf install -y git"
    assert doctor.install_command({"apt-get": "a"}, default="b") == f"{sudo()}dnf install -y b"
    assert doctor.install_command({"apt-get": "a"}) is None


def test_an_old_git_is_named_with_the_version_that_is_needed(only: Bin) -> None:
    only(git="echo git version 2.17.1", apt_get="exit 0")
    found = by_name()["git"]
    assert found.status is Status.WARN
    assert found.found == "2.17.1 is older than 2.25"


@pytest.mark.parametrize("script", ["exit 1", "echo broken >&2; exit 127", ":"])
def test_a_program_that_does_not_run_is_missing(only: Bin, script: str) -> None:
    only(git=script)
    assert by_name()["git"].status is Status.MISSING


def test_a_php_that_cannot_grade_is_missing_and_says_why(only: Bin) -> None:
    only(php="echo not php", apt_get="exit 0")
    found = by_name()["php"]
    assert found.status is Status.MISSING
    assert "does not run as a command-line PHP" in found.found
    assert "php-cli" in (found.mend or "")


def test_a_php_that_the_user_chose_is_mended_by_choosing_again(
    only: Bin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFCOMPARE_PHP", "/nowhere/php")
    found = by_name()["php"]
    assert found.status is Status.MISSING
    assert "/nowhere/php" in found.found
    assert found.mend == "unset REFCOMPARE_PHP"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bubblewrap is for Linux")
def test_a_bubblewrap_that_cannot_make_a_namespace_is_told_from_a_missing_one(only: Bin) -> None:
    only(
        bwrap='[ "$1" = --version ] && echo bubblewrap 0.9.0 && exit; '
        "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1"
    )
    found = by_name()
    assert found["bubblewrap"] == CheckResult("bubblewrap", Status.OK, "0.9.0")
    assert found["user namespaces"].status is Status.MISSING
    assert "setting up uid map: Permission denied" in found["user namespaces"].found
    assert "sandbox" not in found


def settings(root: Path, **values: str) -> Path:
    for name, value in values.items():
        path = root / "proc/sys" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value + "\n")
    return root


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its uid")
def test_a_bubblewrap_that_the_unprivileged_uid_cannot_reach_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho bubblewrap 0.9.0\n")
    (tmp_path / "bwrap").chmod(0o755)
    tmp_path.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = by_name()["user namespaces"]
    assert found.status is Status.MISSING
    assert "bwrap could not be started" in found.found


def test_apparmors_restriction_is_named_with_a_profile_for_bubblewrap_alone(tmp_path: Path) -> None:
    root = settings(tmp_path, kernel__apparmor_restrict_unprivileged_userns="1")
    cause, mend = namespace_cause(root)
    assert "AppArmor" in cause
    assert "kernel.apparmor_restrict_unprivileged_userns=0" in cause
    assert mend is not None
    assert f"{sudo()}apparmor_parser -r /etc/apparmor.d/bwrap" in mend
    printed = subprocess.run(
        ["bash", "-c", mend.split("|")[0]], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert printed[0] == "abi <abi/4.0>,"
    assert printed[2].startswith("profile bwrap /")
    assert printed[3:] == ["  userns,", "}"]


@pytest.mark.parametrize(
    ("setting", "command"),
    [
        ("kernel__unprivileged_userns_clone", "sysctl -w kernel.unprivileged_userns_clone=1"),
        ("user__max_user_namespaces", "sysctl -w user.max_user_namespaces=15000"),
    ],
)
def test_a_kernel_setting_that_forbids_namespaces_is_named(
    tmp_path: Path, setting: str, command: str
) -> None:
    root = settings(tmp_path, **{"kernel__apparmor_restrict_unprivileged_userns": "0", setting: "0"})
    cause, mend = namespace_cause(root)
    assert cause.endswith("is 0")
    assert mend == sudo() + command


def test_a_container_is_named_as_the_cause_when_the_kernel_allows_namespaces(tmp_path: Path) -> None:
    root = settings(tmp_path, user__max_user_namespaces="1000")
    (root / ".dockerenv").touch()
    cause, mend = namespace_cause(root)
    assert "container" in cause
    assert "--security-opt" in (mend or "")


class TestExecution:
    """Some systems let bubblewrap make a namespace, and what it starts therein mount nothing."""

    @pytest.fixture(autouse=True)
    def refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(doctor, "can_forbid_execution", lambda: False)

    @pytest.mark.parametrize(
        ("version", "status", "said"),
        [
            ("8.3.30", Status.WARN, "inside its sandbox"),
            ("8.4.0", Status.MISSING, "--runtime docker"),
            ("8.10.1", Status.MISSING, "--runtime docker"),
        ],
    )
    def test_it_matters_where_php_loads_native_code(
        self, monkeypatch: pytest.MonkeyPatch, version: str, status: Status, said: str
    ) -> None:
        php = Php(Path("/usr/bin/php"), version, "", {}, None, (), Path("/ext"), "3.40")
        monkeypatch.setattr(doctor, "find_php", lambda: php)
        [found] = doctor._check_execution()
        assert (found.name, found.status) == ("execution", status)
        assert said in found.found

    def test_without_php_it_is_a_warning(self, only: Bin) -> None:
        only()
        [found] = doctor._check_execution()
        assert found.status is Status.WARN

    def test_apparmors_stacked_profile_is_named_with_what_replaces_it(self, tmp_path: Path) -> None:
        profile = tmp_path / "etc/apparmor.d/bwrap-userns-restrict"
        assert doctor.mount_cause(tmp_path)[1] is None
        profile.parent.mkdir(parents=True)
        profile.touch()
        cause, mend = doctor.mount_cause(tmp_path)
        assert "/etc/apparmor.d/bwrap-userns-restrict" in cause
        assert mend is not None
        steps = mend.split(" && ")
        assert steps[0].endswith("ln -sf /etc/apparmor.d/bwrap-userns-restrict /etc/apparmor.d/disable/")
        assert steps[1].endswith("apparmor_parser -R /etc/apparmor.d/bwrap-userns-restrict")
        assert steps[3].endswith("apparmor_parser -r /etc/apparmor.d/bwrap")


def test_without_a_known_cause_no_command_is_made_up(tmp_path: Path) -> None:
    cause, mend = namespace_cause(tmp_path)
    assert "--runtime docker" in cause
    assert mend is None


def test_a_cache_directory_that_cannot_be_made_is_missing(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cache.write_text("a file")
    found = by_name()["cache"]
    assert found.status is Status.MISSING
    assert str(own_cache) in found.found
    assert "REFCOMPARE_CACHE_DIR" in (found.mend or "")


def test_little_free_disk_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10, 9, 1024**2))
    found = by_name()["cache"]
    assert found.status is Status.WARN
    assert "0.0 GiB free, which is little" in found.found


def test_an_empty_cache_says_how_to_fetch_wordpress() -> None:
    found = by_name()["wordpress"]
    assert found.status is Status.WARN
    assert found.mend == "refcompare wordpress fetch"


@pytest.mark.parametrize(
    ("script", "status", "said"),
    [
        ('[ "$1" = version ] && echo 27.1 || echo Docker version 28.2.2, build 1', Status.OK, "engine 27.1"),
        (
            '[ "$1" = version ] && exit 1; echo Docker version 28.2.2, build 1',
            Status.WARN,
            "client 28.2.2, but no engine answers",
        ),
        (
            '[ "$1" = version ] && { echo permission denied while trying to connect >&2; exit 1; }; '
            "echo Docker version 28.2.2, build 1",
            Status.WARN,
            "client 28.2.2, but this user may not use the engine",
        ),
    ],
)
def test_dockers_client_and_engine_are_told_apart(only: Bin, script: str, status: Status, said: str) -> None:
    only(docker=script)
    found = by_name()["docker"]
    assert found.status is status
    assert said in found.found


def test_one_check_that_breaks_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks() -> list[CheckResult]:
        raise RuntimeError("surprise")

    monkeypatch.setitem(doctor._CHECKS, "git", breaks)
    found = by_name()
    assert found["git"] == CheckResult("git", Status.MISSING, "could not be checked: surprise")
    assert found["python"].status is Status.OK


RESULTS = (
    CheckResult("git", Status.OK, "2.39.5"),
    CheckResult("bubblewrap", Status.MISSING, "not\x1b[2J found\nhere", "apt-get install -y bubblewrap"),
    CheckResult("docker", Status.WARN, "no engine"),
)


def test_the_text_has_a_line_for_each_check_a_mend_under_it_and_a_sum() -> None:
    assert render_text(RESULTS).splitlines() == [
        "ok       git         2.39.5",
        "missing  bubblewrap  not [2J found here",
        "                     mend: apt-get install -y bubblewrap",
        "warn     docker      no engine",
        "",
        "Missing: bubblewrap.",
    ]
    assert render_text(RESULTS[:1]).endswith("\n\nTests can be graded here.")


def test_a_warning_does_not_keep_tests_from_being_graded() -> None:
    assert ready(RESULTS[2:])
    assert not ready(RESULTS)


def test_the_json_holds_what_the_text_says() -> None:
    rendered = json.loads(json.dumps(render_json(RESULTS)))
    assert rendered["ready"] is False
    assert rendered["checks"][0] == {"name": "git", "status": "ok", "found": "2.39.5", "mend": None}
    assert rendered["checks"][1]["mend"] == "apt-get install -y bubblewrap"
