"""Workers on this machine's PHP, inside bubblewrap."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from refcompare.results import Environment
from refcompare.sandbox import Mount, Sandbox
from refcompare.wordpress.graders import Grader
from refcompare.wordpress.php import Php
from refcompare.wordpress.runtime import end_process
from refcompare.wordpress.site import Site

# Extensions that WordPress and its plugins use. Anything else that the machine loads stays out:
# a debugger shows the grader's local variables, FFI its memory, shared memory outlives a candidate.
EXTENSIONS = frozenset((
    "bcmath", "calendar", "ctype", "curl", "dom", "exif", "fileinfo", "filter", "gd", "gettext",
    "gmp", "iconv", "intl", "json", "mbstring", "mysqli", "mysqlnd", "pdo", "pdo_mysql",
    "pdo_sqlite", "phar", "posix", "simplexml", "sockets", "sodium", "sqlite3", "tokenizer", "xml",
    "xmlreader", "xmlwriter", "xsl", "zip",
))  # fmt: skip

# Functions that a grader never calls and a candidate has no honest use for. The parent needs
# pcntl_fork and pcntl_waitpid; signal handlers would run a candidate's code inside the grader.
DISABLED_FUNCTIONS = (
    "dl", "pcntl_exec", "pcntl_alarm", "pcntl_async_signals", "pcntl_signal",
    "pcntl_signal_dispatch", "pcntl_signal_get_handler", "pcntl_sigprocmask", "pcntl_sigwaitinfo",
    "pcntl_sigtimedwait", "pcntl_setpriority", "pcntl_getpriority", "pcntl_unshare", "pcntl_rfork",
    "pcntl_forkx", "pcntl_setns", "pcntl_setcpuaffinity", "pcntl_getcpuaffinity", "pcntl_waitid",
    "opcache_compile_file", "opcache_invalidate", "opcache_reset", "opcache_get_status",
    "opcache_get_configuration", "ftok", "shm_attach", "shmop_open", "sem_get", "msg_get_queue",
)  # fmt: skip

WRITABLE_BYTES = 128 * 1024 * 1024


def php_settings(extension_lines: tuple[str, ...], extension_directory: Path | None) -> list[str]:
    """Give the ``-d`` arguments that make PHP a grader, without any ini file of the machine's."""
    settings = {
        "memory_limit": "512M",
        "display_errors": "stderr",
        "log_errors": "0",
        "error_reporting": "-1",
        "html_errors": "0",
        "ffi.enable": "0",
        "date.timezone": "UTC",
        "zend.assertions": "-1",
        "phar.readonly": "1",
        "disable_functions": ",".join(DISABLED_FUNCTIONS),
    }
    if extension_directory is not None:
        settings = {"extension_dir": str(extension_directory), **settings}
    pairs = [f"{name}={value}" for name, value in settings.items()]
    pairs += [f"extension={name}" for name in extension_lines]
    return [argument for pair in pairs for argument in ("-d", pair)]


def extension_lines(php: Php) -> tuple[str, ...]:
    """Give the shared extensions that the machine's PHP loads and a grader may have, in load order."""
    if php.scan_directory is None:
        return ()
    names = []
    for file in sorted(php.scan_directory.glob("*.ini")):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition("=")
            name = Path(value.strip().strip("\"'")).name.removesuffix(".so").removeprefix("php_")
            if key.strip() == "extension" and name in EXTENSIONS:
                names.append(name)
    return tuple(names)


def worker_command(php: str) -> list[str]:
    """Give the command inside a runtime that boots WordPress and starts the worker."""
    return [
        php,
        "/wp-cli.phar",
        "--path=/site",
        "--require=/grader/boot.php",
        "--skip-packages",
        "--no-color",
        "eval-file",
        "/grader/worker.php",
        "--use-include",
    ]


@dataclass(frozen=True, slots=True)
class NativeRuntime:
    """Workers over an installed site, on the PHP of this machine, confined by bubblewrap."""

    site: Site
    php: Php
    grader: Grader

    @property
    def environment(self) -> Environment:
        """What grades here."""
        return Environment(
            wordpress=self.site.release.version,
            wordpress_digest=self.site.digest,
            php=self.php.version,
            php_digest=self.php.digest,
            sqlite=self.php.sqlite,
            grader_digest=self.grader.digest,
        )

    def start(self) -> subprocess.Popen[bytes]:
        """Start a worker in a sandbox without ``/proc`` and without network."""
        line = worker_command(str(self.php.binary))
        command = [line[0], "-n", *php_settings(extension_lines(self.php), self.php.extension_directory)]
        return Sandbox(
            mounts=self._mounts(),
            environment={
                "PATH": "/usr/bin:/bin",
                "HOME": "/scratch",
                "TMPDIR": "/scratch",
                "LANG": "C.UTF-8",
                "REFCOMPARE_DB_DIR": "/scratch/boot",
            },
            directory="/scratch",
        ).start([*command, *line[1:]])

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """End a worker; its namespace goes with it."""
        end_process(process)

    def _mounts(self) -> tuple[Mount, ...]:
        """The site read-only, with a fresh wp-content over it that holds the site's own entries."""
        content = self.site.root / "wp-content"
        mounts = [
            Mount("/scratch", size=WRITABLE_BYTES),
            Mount("/tmp", size=WRITABLE_BYTES),  # noqa: S108 (a path inside the sandbox)
            Mount("/snapshot.sqlite", self.site.database),
            Mount("/wp-cli.phar", self.site.release.wp_cli),
            Mount("/grader", self.grader.path),
            Mount("/site", self.site.root),
            Mount("/site/wp-content", size=WRITABLE_BYTES),
        ]
        if not self.php.binary.is_relative_to("/usr"):
            mounts.append(Mount(str(self.php.binary.parent.parent), self.php.binary.parent.parent))
        for entry in sorted(content.iterdir()):
            if entry.name in ("plugins", "themes"):
                inner = [(f"{entry.name}/{child.name}", child) for child in sorted(entry.iterdir())]
            elif entry.name == "database":
                continue
            else:
                inner = [(entry.name, entry)]
            mounts += [Mount(f"/site/wp-content/{name}", path) for name, path in inner]
        return tuple(mounts)
