"""The PHP on this machine: what it is, what it can do, and where its configuration lies."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refcompare.errors import EnvironmentFailure

PHP_VARIABLE = "REFCOMPARE_PHP"

MINIMUM_VERSION = (8, 1)
MINIMUM_SQLITE = (3, 37, 0)
"""The SQLite library that the SQLite integration plugin 3.0 asks for."""

# Extension -> package suffix. WordPress, WP-CLI, the SQLite plugin and the grader need these.
_REQUIRED = {
    "dom": "xml",
    "json": "cli",
    "mbstring": "mbstring",
    "pcntl": "cli",
    "pdo_sqlite": "sqlite3",
    "phar": "cli",
    "posix": "cli",
    "sockets": "cli",
    "tokenizer": "cli",
    "xml": "xml",
}

# Settings that can change what graded code does. The worker sets memory and error reporting itself.
_SETTINGS = (
    "arg_separator.output",
    "auto_append_file",
    "auto_prepend_file",
    "date.timezone",
    "default_charset",
    "disable_classes",
    "disable_functions",
    "include_path",
    "intl.default_locale",
    "mbstring.language",
    "mbstring.substitute_character",
    "open_basedir",
    "pcre.backtrack_limit",
    "pcre.jit",
    "pcre.recursion_limit",
    "precision",
    "serialize_precision",
    "short_open_tag",
    "variables_order",
    "zend.assertions",
    "zend.exception_ignore_args",
)

_TIMEOUT_SECONDS = 30

# Old PHP must be able to parse this, so that its version can be named in the error.
PROBE = r"""
error_reporting(0);
$extensions = array();
foreach (array_merge(get_loaded_extensions(), get_loaded_extensions(true)) as $name) {
    $extensions[$name] = phpversion($name) ?: null;
}
$sqlite = null;
if (in_array('sqlite', class_exists('PDO') ? PDO::getAvailableDrivers() : array(), true)) {
    $pdo = new PDO('sqlite::memory:');
    $sqlite = $pdo->query('SELECT sqlite_version()')->fetchColumn();
}
echo "\x02", json_encode(array(
    'binary' => PHP_BINARY,
    'version' => PHP_VERSION,
    'build' => array(PHP_OS, PHP_INT_SIZE, PHP_ZTS, PHP_DEBUG, zend_version(), php_uname('m')),
    'extensions' => $extensions,
    'sqlite' => $sqlite,
    'extension_directory' => ini_get('extension_dir'),
    'scan_directory' => PHP_CONFIG_FILE_SCAN_DIR,
    'ini' => php_ini_loaded_file(),
    'scanned' => php_ini_scanned_files(),
    'settings' => ini_get_all(null, false),
));
"""
"""PHP code that prints what php_facts() reads."""


@dataclass(frozen=True, slots=True)
class Php:
    """One PHP binary that can host a worker.

    ``binary`` is a real path. ``digest`` is a hex SHA-256 over the build, the extensions with their
    versions and the settings that change what code does. ``scan_directory`` is where the ini files
    that load extensions lie, None where PHP has none. ``ini_directories`` are all directories
    that must be readable for PHP's ini files to resolve (they may be symlinks from one to another);
    ``extension_directory`` holds the shared objects. ``sqlite`` is the SQLite library's version.
    """

    binary: Path
    version: str
    digest: str
    extensions: Mapping[str, str | None]
    scan_directory: Path | None
    ini_directories: tuple[Path, ...]
    extension_directory: Path
    sqlite: str

    @property
    def series(self) -> str:
        """The version's first two numbers, such as ``8.2``."""
        return ".".join(self.version.split(".")[:2])

    @property
    def loads_native_code(self) -> bool:
        """Whether PHP itself offers to load native code from any file: Pdo\\Sqlite::loadExtension()."""
        return tuple(int(part) for part in self.series.split(".")) >= (8, 4)


def find_php(binary: str | None = None) -> Php:
    """Find a PHP that can grade: ``binary``, else ``REFCOMPARE_PHP``, else ``php`` on PATH.

    Starts one PHP process, once for each binary in the life of this process, with the scrubbed
    environment that graders get. Raises EnvironmentFailure, with the command that mends it, when
    there is none, it is too old, or an extension is missing.
    """
    requested = binary or os.environ.get(PHP_VARIABLE) or "php"
    found = shutil.which(requested)
    if found is None:
        command = _install_command(None, sorted({"cli", *_REQUIRED.values()}))
        raise EnvironmentFailure(f"PHP was not found ({requested}); {command}, or set {PHP_VARIABLE}.")
    return _probe(found, os.environ.get("PATH", os.defpath), os.environ.get("HOME", "/"))


@functools.cache
def _probe(binary: str, path: str, home: str) -> Php:
    # PATH and HOME are for version managers, whose `php` is a script that looks for the real one.
    environment = {"PATH": path, "HOME": home, "LANG": "C.UTF-8"}
    try:
        process = subprocess.run(
            [binary, "-d", "display_errors=0", "-r", PROBE],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentFailure(
            f"PHP at {binary} said nothing within {_TIMEOUT_SECONDS} seconds; "
            f"set {PHP_VARIABLE} to another one."
        ) from None
    except OSError as error:
        raise EnvironmentFailure(f"PHP at {binary} cannot be run: {error.strerror}.") from error
    facts = php_facts(process.stdout)
    if facts is None:
        said = (process.stderr or process.stdout).decode(errors="replace").strip().splitlines()
        raise EnvironmentFailure(
            f"PHP at {binary} does not run as a command-line PHP (exit status {process.returncode}"
            f"{': ' + said[-1] if said else ''}); set {PHP_VARIABLE} to another one."
        )
    return _php(facts, binary)


def php_facts(printed: bytes) -> Mapping[str, Any] | None:
    """Give what PROBE printed, extensions in lower case; None where nothing sound was printed."""
    # Extensions may print warnings of their own before the code runs.
    marked = printed.rpartition(b"\x02")
    try:
        facts = json.loads(marked[2]) if marked[1] else None
    except ValueError:
        return None
    if not isinstance(facts, dict):
        return None
    facts["extensions"] = {
        str(name).lower(): value for name, value in sorted(dict(facts["extensions"]).items())
    }
    return facts


def php_digest(facts: Mapping[str, Any]) -> str:
    """Give the digest that a Php carries, from what PROBE told."""
    settings = {name: facts["settings"].get(name) for name in _SETTINGS}
    parts = [facts["version"], facts["build"], facts["sqlite"], facts["extensions"], settings]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def shortcoming(facts: Mapping[str, Any]) -> str | None:
    """Say in a clause why the PHP that PROBE described cannot grade; None where it can."""
    if _numbers(facts["version"]) < MINIMUM_VERSION:
        return f"is too old: {'.'.join(map(str, MINIMUM_VERSION))} or newer is needed"
    if missing := _missing(facts):
        return f"lacks the extension{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
    if _numbers(facts["sqlite"] or "0") < MINIMUM_SQLITE:
        minimum = ".".join(map(str, MINIMUM_SQLITE))
        return f"is linked to SQLite {facts['sqlite']}: {minimum} or newer is needed"
    return None


def _missing(facts: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in _REQUIRED if name not in facts["extensions"])


def _php(facts: Mapping[str, Any], binary: str) -> Php:
    real = Path(os.path.realpath(facts["binary"] or binary))
    _require(real, facts)
    scanned = [line.strip().rstrip(",") for line in str(facts["scanned"] or "").split("\n")]
    ini_files = [Path(name) for name in [*scanned, str(facts["ini"] or "")] if name]
    scan_directory = _scan_directory(facts["scan_directory"], ini_files)
    directories = {file.parent for file in ini_files} | {Path(os.path.realpath(f)).parent for f in ini_files}
    if scan_directory is not None:
        directories |= {scan_directory, Path(os.path.realpath(scan_directory))}
    return Php(
        binary=real,
        version=str(facts["version"]),
        digest=php_digest(facts),
        extensions=facts["extensions"],
        scan_directory=scan_directory,
        ini_directories=tuple(sorted(d for d in directories if d.is_dir())),
        extension_directory=Path(str(facts["extension_directory"])),
        sqlite=str(facts["sqlite"]),
    )


def _scan_directory(compiled_in: str, ini_files: Sequence[Path]) -> Path | None:
    """Give the first directory of PHP's scan path that exists; it may hold no file yet."""
    for name in str(compiled_in or "").split(os.pathsep):
        if name and Path(name).is_dir():
            return Path(name)
    return ini_files[0].parent if len(ini_files) > 1 else None


def _require(binary: Path, facts: Mapping[str, Any]) -> None:
    wrong = shortcoming(facts)
    if wrong is None:
        return
    if _numbers(facts["version"]) < MINIMUM_VERSION:
        command = _install_command(None, sorted({"cli", *_REQUIRED.values()}))
        mend = f"{command}, or set {PHP_VARIABLE} to a newer one"
    elif missing := _missing(facts):
        mend = _install_command(_packaged_series(binary), sorted({_REQUIRED[name] for name in missing}))
    else:
        mend = f"set {PHP_VARIABLE} to a PHP with a newer one"
    raise EnvironmentFailure(f"PHP {facts['version']} at {binary} {wrong}; {mend}.")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _packaged_series(binary: Path) -> str | None:
    """Give ``8.2`` for Debian's ``/usr/bin/php8.2``, whose extensions are packaged by series."""
    match = re.fullmatch(r"php(\d+\.\d+)", binary.name)
    return match[1] if match else None


def _install_command(series: str | None, parts: Sequence[str]) -> str:
    """Say in a clause how to install PHP with ``parts`` (Debian's package suffixes) here."""
    sudo = "" if hasattr(os, "geteuid") and os.geteuid() == 0 else "sudo "
    if sys.platform == "darwin":
        return "run: brew install php"
    if shutil.which("apt-get"):
        packages = " ".join(f"php{series or ''}-{part}" for part in parts)
        return f"run: {sudo}apt-get install -y {packages}"
    if shutil.which("dnf"):
        return f"run: {sudo}dnf install -y php-cli php-process php-pdo php-mbstring php-xml"
    needed = ", ".join(sorted(_REQUIRED))
    return f"install PHP {'.'.join(map(str, MINIMUM_VERSION))} or newer with {needed}"
