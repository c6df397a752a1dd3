"""How PHP is started as a grader: which extensions, which settings, which functions are taken away.

The same for every runtime, so that a verdict does not depend on which one gave it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath, PurePosixPath

from refcompare.wordpress.php import Php

# Extensions that WordPress and its plugins use. Anything else that the machine loads stays out:
# a debugger shows the grader's local variables, FFI its memory, shared memory outlives a candidate.
EXTENSIONS = frozenset((
    "bcmath", "calendar", "ctype", "curl", "dom", "exif", "fileinfo", "filter", "gd", "gettext",
    "gmp", "iconv", "intl", "json", "mbstring", "mysqli", "mysqlnd", "pdo", "pdo_mysql",
    "pdo_sqlite", "phar", "posix", "simplexml", "sockets", "sodium", "sqlite3", "tokenizer", "xml",
    "xmlreader", "xmlwriter", "xsl", "zip",
))  # fmt: skip

# Functions that a grader never calls and a candidate has no honest use for. The parent needs
# pcntl_fork and pcntl_waitpid; signal handlers would run a candidate's code inside the grader;
# the environment of a process names native code that its libraries load (php/src/stand-ins.php
# defines a putenv that does nothing); a replaced wrapper of file:// gives an assertion other
# files than it asks for; spl_autoload is the one function that runs code with the variables of
# the frame below it, whoever that is (stand-ins.php defines one with variables of its own).
DISABLED_FUNCTIONS = (
    "dl", "putenv", "spl_autoload", "stream_wrapper_unregister", "stream_wrapper_restore",
    "pcntl_exec", "pcntl_alarm", "pcntl_async_signals", "pcntl_signal",
    "pcntl_signal_dispatch", "pcntl_signal_get_handler", "pcntl_sigprocmask", "pcntl_sigwaitinfo",
    "pcntl_sigtimedwait", "pcntl_setpriority", "pcntl_getpriority", "pcntl_unshare", "pcntl_rfork",
    "pcntl_forkx", "pcntl_setns", "pcntl_setcpuaffinity", "pcntl_getcpuaffinity", "pcntl_waitid",
    "opcache_compile_file", "opcache_invalidate", "opcache_reset", "opcache_get_status",
    "opcache_get_configuration", "ftok", "shm_attach", "shmop_open", "sem_get", "msg_get_queue",
)  # fmt: skip


def php_settings(extension_lines: tuple[str, ...], extension_directory: PurePath | None) -> list[str]:
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
    files = sorted(php.scan_directory.glob("*.ini"))
    return extensions_in(file.read_text(encoding="utf-8", errors="replace") for file in files)


def extensions_in(ini_texts: Iterable[str]) -> tuple[str, ...]:
    """Give the shared extensions that ini files load and a grader may have, in the files' order."""
    names = []
    for text in ini_texts:
        for line in text.splitlines():
            key, _, value = line.partition("=")
            name = PurePosixPath(value.strip().strip("\"'")).name.removesuffix(".so").removeprefix("php_")
            if key.strip() == "extension" and name in EXTENSIONS:
                names.append(name)
    return tuple(names)
