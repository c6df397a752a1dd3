"""The agents' own command line programs, fetched from npm once and kept in the cache."""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.paths import cache_directory, make_open_directory
from refcompare.workspace import remove

_TIMEOUT_SECONDS = 900
_VERSION = re.compile(r"\d{1,6}\.\d{1,6}\.\d{1,6}(-[A-Za-z0-9.]{1,40})?")


@dataclass(frozen=True, slots=True)
class Package:
    """Where an agent's program is on npm, for this machine.

    ``spec`` names the package with its version, ``program`` the executable's path in what npm installs,
    and ``root`` the directory, likewise, of all that the program needs. ``variable`` is the environment
    variable with which a user names an executable of their own.
    """

    name: str
    version: str
    spec: str
    root: str
    program: str
    variable: str


@dataclass(frozen=True, slots=True)
class Program:
    """An executable on this machine and the directory or file that must be visible for it to run."""

    path: Path
    root: Path
    version: str

    def inside(self, directory: str) -> str:
        """Give its path where ``root`` is mounted at ``directory``."""
        if self.root == self.path:
            return directory
        return f"{directory}/{self.path.relative_to(self.root).as_posix()}"


def machine() -> tuple[str, bool]:
    """Give this machine's architecture as npm calls it, and whether its C library is musl.

    Raises EnvironmentFailure where the agents' vendors offer no program.
    """
    names = {"x86_64": "x64", "aarch64": "arm64"}
    found = platform.machine()
    if platform.system() != "Linux" or found not in names:
        raise EnvironmentFailure(
            f"Agents run on Linux on x86-64 and ARM64, and this is {platform.system()} on {found}."
        )
    return names[found], platform.libc_ver()[0] != "glibc"


def check_version(version: str) -> str:
    """Give ``version`` back. Raises UsageError for what is not one."""
    if not _VERSION.fullmatch(version):
        raise UsageError(f"{version!r} is not a version of an agent's program; give one such as 1.2.3.")
    return version


def ensure_program(package: Package) -> Program:
    """Give an agent's program, fetching it where the cache has none (a minute).

    Raises EnvironmentFailure where npm is missing or fails, or the user's own executable is none.
    """
    own = os.environ.get(package.variable)
    if own:
        return _own_program(Path(own), package)
    target = cache_directory() / "agents" / f"{package.name}-{package.version}"
    if not (target / package.program).is_file():
        make_open_directory(target.parent)
        with FileLock(target.parent / f"{package.name}.lock"):
            if not (target / package.program).is_file():
                _install(package, target)
    return Program(target / package.program, target / package.root, package.version)


def _own_program(path: Path, package: Package) -> Program:
    resolved = path.expanduser().resolve()
    if not resolved.is_file() or not os.access(resolved, os.X_OK):
        raise EnvironmentFailure(
            f"{package.variable} names {path}, which is no executable file: "
            "correct it, or unset it to use the one from npm."
        )
    return Program(resolved, resolved, _version_of(resolved, resolved.stat().st_mtime_ns))


@functools.lru_cache
def _version_of(program: Path, changed: int) -> str:
    """Ask a program for its version, once as long as it has not ``changed``."""
    try:
        asked = subprocess.run([program, "--version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    version = re.search(r"\d+\.\d+\.\d+\S*", asked.stdout.decode("utf-8", "replace"))
    return version[0] if version else "unknown"


def _install(package: Package, target: Path) -> None:
    """Install into a directory beside ``target`` and move it there whole."""
    npm = shutil.which("npm")
    if npm is None:
        raise EnvironmentFailure(
            f"npm is not installed, and {package.name} comes from npm: install Node.js with npm, "
            f"or name an executable with {package.variable}."
        )
    fresh = Path(tempfile.mkdtemp(prefix=f".{package.name}-", dir=target.parent))
    try:
        line = [npm, "install", "--prefix", str(fresh), "--ignore-scripts", "--no-save", "--no-package-lock"]
        try:
            done = subprocess.run(
                [*line, "--no-audit", "--no-fund", package.spec],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT_SECONDS,
                cwd=fresh,
                check=False,
            )
        except subprocess.SubprocessError as error:
            raise EnvironmentFailure(f"npm could not install {package.spec}: {error}.") from error
        if done.returncode != 0 or not (fresh / package.program).is_file():
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise EnvironmentFailure(
                f"npm could not install {package.spec}: {' '.join(said[-3:])[:600] or 'it has no program'}"
            )
        _open_to_all(fresh)
        remove(target)
        fresh.rename(target)
    except BaseException:
        remove(fresh)
        raise


def _open_to_all(directory: Path) -> None:
    """Let every uid read, since agents run as another one than root."""
    for base, _, files in os.walk(directory):
        Path(base).chmod(0o755)
        for name in files:
            file = Path(base) / name
            if not file.is_symlink():
                file.chmod(0o755 if os.access(file, os.X_OK) else 0o644)
