"""What this machine has of what grading needs, what is missing, and the command that mends it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from refcompare import __version__
from refcompare.cache import VerdictCache
from refcompare.errors import RefcompareError
from refcompare.paths import CACHE_VARIABLE, cache_directory
from refcompare.sandbox import UNPRIVILEGED_ID, can_forbid_execution, probe, seccomp_filter
from refcompare.wordpress.php import PHP_VARIABLE, find_php
from refcompare.wordpress.releases import DEFAULT_VERSION, find_release, list_releases

OLDEST_PYTHON = (3, 11)
OLDEST_GIT = (2, 25)
RECOMMENDED_EXTENSIONS = ("curl", "gd", "intl", "zip")
"""Extensions that WordPress does without, but with which it behaves as on most sites."""

ENOUGH_DISK = 1024**3
"""Bytes below which free space for releases, sites and verdicts is worth a warning."""

_TIMEOUT_SECONDS = 20

_PHP_PACKAGES = {
    "apt-get": "php-cli php-curl php-gd php-intl php-mbstring php-sqlite3 php-xml php-zip",
    "dnf": "php-cli php-gd php-intl php-mbstring php-pdo php-process php-xml php-pecl-zip",
    "brew": "php",
}
_STACKED_PROFILE = "etc/apparmor.d/bwrap-userns-restrict"
"""A profile of some distributions: bubblewrap may make a namespace, and what it starts may do little."""

_BWRAP_PROFILE = (
    "abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap %s flags=(unconfined) {\\n  userns,\\n}\\n"
)


_NATIVE = frozenset({"php", "bubblewrap", "user namespaces", "sandbox", "execution"})
"""What no machine needs on which a Docker engine answers."""


class Status(StrEnum):
    """How a check came out. Only ``missing`` keeps tests from being graded."""

    OK = "ok"
    WARN = "warn"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was looked at: what was ``found``, and the command that mends it, if one does."""

    name: str
    status: Status
    found: str
    mend: str | None = None


def diagnose() -> tuple[CheckResult, ...]:
    """Look at everything that grading needs, in the order in which to mend it. Never raises.

    Starts a few short processes, one of them in a sandbox; installs and changes nothing but the
    cache directory, which is made.
    """
    results: list[CheckResult] = []
    for name, check in _CHECKS.items():
        try:
            results += check()
        except Exception as error:  # noqa: BLE001 - one check that breaks must not hide the others
            results.append(CheckResult(name, Status.MISSING, f"could not be checked: {error}"))
    if any(result.name == "docker" and result.status is Status.OK for result in results):
        results = [_where_docker_works(result) for result in results]
    return tuple(results)


def _where_docker_works(result: CheckResult) -> CheckResult:
    """Take what a container brings along for not missing."""
    if result.status is not Status.MISSING or result.name not in _NATIVE:
        return result
    return replace(result, status=Status.WARN, found=f"{result.found}; only --runtime native needs it")


def ready(results: Sequence[CheckResult]) -> bool:
    """Whether tests can be graded here."""
    return all(result.status is not Status.MISSING for result in results)


def render_text(results: Sequence[CheckResult]) -> str:
    """Give one line a check, the mending command under it, and a last line that sums it up."""
    names = max((len(result.name) for result in results), default=0)
    lines = []
    for result in results:
        found = _one_line(result.found)
        lines.append(f"{result.status.value:<7}  {result.name:<{names}}  {found}")
        if result.mend is not None:
            lines.append(f"{'':<7}  {'':<{names}}  mend: {_one_line(result.mend)}")
    missing = [result.name for result in results if result.status is Status.MISSING]
    lines.append("")
    lines.append(f"Missing: {', '.join(missing)}." if missing else "Tests can be graded here.")
    return "\n".join(lines)


def render_json(results: Sequence[CheckResult]) -> dict[str, Any]:
    """Give ``{"ready": bool, "checks": [{"name", "status", "found", "mend"}]}``."""
    checks = [asdict(result) | {"status": result.status.value} for result in results]
    return {"ready": ready(results), "checks": checks}


def _check_python() -> Iterator[CheckResult]:
    found = f"{platform.python_version()} at {sys.executable}, refcompare {__version__}"
    if sys.version_info[:2] < OLDEST_PYTHON:
        yield CheckResult("python", Status.MISSING, found, install_command("python3.11"))
    else:
        yield CheckResult("python", Status.OK, found)


def _check_git() -> Iterator[CheckResult]:
    said = _ask("git", "--version")
    if said is None:
        yield CheckResult("git", Status.MISSING, "not found on PATH", install_command("git"))
        return
    version = said.removeprefix("git version ")
    if _numbers(version) < OLDEST_GIT:
        oldest = ".".join(map(str, OLDEST_GIT))
        yield CheckResult("git", Status.WARN, f"{version} is older than {oldest}", install_command("git"))
    else:
        yield CheckResult("git", Status.OK, version)


def _check_php() -> Iterator[CheckResult]:
    mend = install_command(_PHP_PACKAGES)
    try:
        php = find_php()
    except RefcompareError as error:
        if os.environ.get(PHP_VARIABLE):
            mend = f"unset {PHP_VARIABLE}"
        yield CheckResult("php", Status.MISSING, str(error), mend)
        return
    yield CheckResult("php", Status.OK, f"{php.version} at {php.binary}, SQLite {php.sqlite}")
    lacking = [name for name in RECOMMENDED_EXTENSIONS if name not in php.extensions]
    if lacking:
        found = f"{', '.join(lacking)} not loaded: tests that use them get other verdicts than elsewhere"
        yield CheckResult("php extensions", Status.WARN, found, mend)
    else:
        yield CheckResult("php extensions", Status.OK, f"all, {len(php.extensions)} loaded")


def _check_sandbox() -> Iterator[CheckResult]:
    if not sys.platform.startswith("linux"):
        found = "bubblewrap needs Linux; grade with --runtime docker"
        yield CheckResult("bubblewrap", Status.MISSING, found)
        return
    said = _ask("bwrap", "--version")
    if said is None:
        yield CheckResult(
            "bubblewrap", Status.MISSING, "bwrap not found on PATH", install_command("bubblewrap")
        )
        return
    yield CheckResult("bubblewrap", Status.OK, said.removeprefix("bubblewrap "))
    refusal = _namespace_refusal()
    if refusal is not None:
        cause, mend = namespace_cause()
        yield CheckResult("user namespaces", Status.MISSING, f"{refusal}: {cause}", mend)
        return
    uid = UNPRIVILEGED_ID if os.geteuid() == 0 else os.geteuid()
    yield CheckResult("user namespaces", Status.OK, f"bwrap can make one as uid {uid}")
    tried = probe()
    status = Status.OK if tried.works else Status.MISSING
    yield CheckResult("sandbox", status, tried.message)
    if tried.works:
        yield from _check_execution()
    if seccomp_filter() is None:
        found = f"no system call filter for {platform.machine()}: the sandbox works, with one wall less"
        yield CheckResult("seccomp", Status.WARN, found)


def _check_execution() -> Iterator[CheckResult]:
    """Say whether the sandbox can keep what a candidate writes from being executed."""
    if can_forbid_execution():
        yield CheckResult("execution", Status.OK, "what a candidate writes can't be executed")
        return
    cause, mend = mount_cause()
    try:
        needed = find_php().loads_native_code
    except RefcompareError:
        needed = False
    if needed:
        found = f"this PHP loads native code, which the sandbox can't forbid here: {cause}"
        yield CheckResult("execution", Status.MISSING, f"{found}; or grade with --runtime docker", mend)
    else:
        found = f"what a candidate writes could be executed, inside its sandbox: {cause}"
        yield CheckResult("execution", Status.WARN, found, mend)


def mount_cause(root: Path = Path("/")) -> tuple[str, str | None]:
    """Say why what bubblewrap starts may not mount, and the command that allows it."""
    if not (root / _STACKED_PROFILE).exists():
        return "the kernel or a container around this process lets bubblewrap start nothing that mounts", None
    ours, theirs = "/etc/apparmor.d/bwrap", f"/{_STACKED_PROFILE}"
    return (
        f"AppArmor's profile {theirs} lets nothing mount that bubblewrap starts. The command puts another one"
        " in its place",
        f"{_sudo()}ln -sf {theirs} /etc/apparmor.d/disable/ && {_sudo()}apparmor_parser -R {theirs}"
        f" && {_add_profile(ours)}",
    )


def _add_profile(path: str) -> str:
    """Give the command that lets bubblewrap alone make user namespaces."""
    profile = _BWRAP_PROFILE % (shutil.which("bwrap") or "/usr/bin/bwrap")
    return f"printf '{profile}' | {_sudo()}tee {path} >/dev/null && {_sudo()}apparmor_parser -r {path}"


def _namespace_refusal() -> str | None:
    """Let bubblewrap make a user namespace as a uid that isn't root; give what it says when it can't."""
    unprivileged: dict[str, Any] = {}
    if os.geteuid() == 0:
        unprivileged = {"user": UNPRIVILEGED_ID, "group": UNPRIVILEGED_ID, "extra_groups": ()}
    try:
        process = subprocess.run(
            ["bwrap", "--unshare-user", "--unshare-net", "--ro-bind", "/", "/", "--", "/bin/true"],
            env={"PATH": os.environ.get("PATH", os.defpath)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
            cwd="/",
            **unprivileged,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"bwrap could not be started: {error}"
    if process.returncode == 0:
        return None
    said = process.stderr.decode("utf-8", "replace").strip()
    return said or f"bwrap ended with status {process.returncode}"


def namespace_cause(root: Path = Path("/")) -> tuple[str, str | None]:
    """Say why unprivileged user namespaces are refused, and the command that allows them.

    ``root`` is the directory under which ``proc/sys`` and ``.dockerenv`` are looked for.
    """
    settings = root / "proc/sys"
    if _setting(settings / "kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor allows user namespaces to known programs only (as on Ubuntu 24.04). The command adds"
            " bubblewrap; sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 would add every program",
            _add_profile("/etc/apparmor.d/bwrap"),
        )
    for name, value in (("kernel/unprivileged_userns_clone", "1"), ("user/max_user_namespaces", "15000")):
        if _setting(settings / name) == "0":
            dotted = name.replace("/", ".")
            return f"{dotted} is 0", f"{_sudo()}sysctl -w {dotted}={value}"
    if (root / ".dockerenv").exists() or (root / "run/.containerenv").exists():
        return "this is a container whose seccomp profile forbids them", (
            "start the container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
            " --security-opt systempaths=unconfined"
        )
    return "the kernel or a container around this process forbids them; grade with --runtime docker", None


def _check_npm() -> Iterator[CheckResult]:
    said = _ask("npm", "--version")
    if said is not None:
        yield CheckResult("npm", Status.OK, said)
        return
    found = "not found on PATH; without it WordPress comes from wordpress.org, and agents can't be installed"
    yield CheckResult("npm", Status.WARN, found, install_command({"brew": "node"}, default="npm"))


def _check_cache() -> Iterator[CheckResult]:
    mend = f'export {CACHE_VARIABLE}="$HOME/refcompare-cache"'
    try:
        directory = cache_directory()
        with tempfile.TemporaryFile(dir=directory):
            pass
    except (RefcompareError, OSError) as error:
        yield CheckResult("cache", Status.MISSING, str(error), mend)
        return
    free = shutil.disk_usage(directory).free
    found = f"{directory}, {free / 1024**3:.1f} GiB free"
    if free < ENOUGH_DISK:
        yield CheckResult("cache", Status.WARN, f"{found}, which is little", mend)
    else:
        yield CheckResult("cache", Status.OK, found)
    with VerdictCache() as cache:
        stats = cache.stats()
    if stats.problem is not None:
        yield CheckResult("verdicts", Status.WARN, stats.problem, f"rm -r {stats.path}")
    else:
        yield CheckResult("verdicts", Status.OK, f"{stats.entries} known, {stats.bytes / 1024**2:.1f} MiB")


def _check_wordpress() -> Iterator[CheckResult]:
    versions = ", ".join(release.version for release in list_releases())
    if find_release() is not None:
        yield CheckResult("wordpress", Status.OK, f"{versions} fetched")
        return
    found = f"{DEFAULT_VERSION} is not fetched yet" + (f" ({versions} is)" if versions else "")
    yield CheckResult("wordpress", Status.WARN, found, "refcompare wordpress fetch")


def _check_docker() -> Iterator[CheckResult]:
    client = _ask("docker", "--version")
    if client is None:
        found = "not found on PATH; only --runtime docker needs it"
        yield CheckResult(
            "docker", Status.WARN, found, install_command({"apt-get": "docker.io"}, default="docker")
        )
        return
    client = client.removeprefix("Docker version ").split(",")[0]
    server, complaint = _answer("docker", "version", "--format", "{{.Server.Version}}")
    if server is not None:
        yield CheckResult("docker", Status.OK, f"client {client}, engine {server}")
        return
    found, mend = "no engine answers", f"{_sudo()}service docker start"
    if "permission denied" in complaint.lower():
        found, mend = "this user may not use the engine", "sudo usermod -aG docker $USER, then log in again"
    found = f"client {client}, but {found}; only --runtime docker needs it"
    yield CheckResult("docker", Status.WARN, found, mend)


_CHECKS: dict[str, Callable[[], Iterator[CheckResult]]] = {
    "python": _check_python,
    "git": _check_git,
    "php": _check_php,
    "sandbox": _check_sandbox,
    "cache": _check_cache,
    "wordpress": _check_wordpress,
    "npm": _check_npm,
    "docker": _check_docker,
}


def install_command(package: str | dict[str, str], *, default: str | None = None) -> str | None:
    """Give the command that installs ``package`` with this machine's package manager, or None.

    A mapping names the packages of each manager (``apt-get``, ``dnf``, ``brew``); ``default`` is for those
    that it leaves out.
    """
    for manager in ("apt-get", "dnf", "brew"):
        if shutil.which(manager) is None:
            continue
        names = package if isinstance(package, str) else package.get(manager, default)
        if names is None:
            return None
        if manager == "brew":
            return f"brew install {names}"
        # A fresh Debian has no package lists.
        update = f"{_sudo()}apt-get update && " if manager == "apt-get" else ""
        return f"{update}{_sudo()}{manager} install -y {names}"
    return None


def _sudo() -> str:
    return "" if os.geteuid() == 0 else "sudo "


def _ask(*command: str) -> str | None:
    """Give the first line of what a program says of itself; None when it is missing or fails."""
    return _answer(*command)[0]


def _answer(*command: str) -> tuple[str | None, str]:
    """Give what _ask gives, and what the program complained of."""
    program = shutil.which(command[0])
    if program is None:
        return None, ""
    try:
        process = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None, ""
    lines = process.stdout.decode("utf-8", "replace").strip().splitlines()
    answer = lines[0].strip() if process.returncode == 0 and lines else None
    return answer, process.stderr.decode("utf-8", "replace")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _setting(path: Path) -> str | None:
    try:
        return path.read_text("ascii").strip()
    except (OSError, ValueError):
        return None


def _one_line(text: str) -> str:
    """Keep what a program said from moving the reader's cursor."""
    return "".join(character if character.isprintable() else " " for character in text)
