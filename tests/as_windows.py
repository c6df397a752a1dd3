"""Takes from Python what Windows does not have: a plugin for pytest, or a module to import first.

What is not taken is what this cannot know of Windows: its paths, its files that cannot be removed while
they are open, its line ends.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import platform
import signal
import socket
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

# Python's own modules and other people's find out what there is when they are imported, so they come first.
FIRST = (
    *("asyncio", "concurrent.futures", "ctypes", "http.server", "logging.handlers", "multiprocessing"),
    *("pathlib", "shutil", "sqlite3", "ssl", "subprocess", "tempfile", "unittest.mock", "uuid"),
    *("aiohttp", "click", "filelock", "git", "github", "jsonschema", "platformdirs", "requests"),
    *("rich.console", "rich.progress", "tabulate", "tenacity", "tree_sitter", "yaml"),
    *("cmarkgfm", "hypothesis", "markdown_it", "pytest", "scipy.stats"),
)
MODULES = frozenset({"fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"})
OF_OS = """
    O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_PATH WNOHANG chown confstr fchmod fchown fork
    forkpty getegid geteuid getgid getgroups getloadavg getpgid getpgrp getsid getuid initgroups
    killpg lchown memfd_create mkfifo mknod nice openpty pidfd_open posix_fallocate posix_spawn
    pread pwrite register_at_fork sched_getaffinity sendfile setegid seteuid setgid setgroups
    setpgid setpriority setresuid setsid setuid statvfs sysconf uname wait waitid
"""
OF_SIGNAL = """
    SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGUSR1 SIGUSR2 alarm
    pthread_kill pthread_sigmask setitimer sigwait
"""
OF_SOCKET = "AF_UNIX SCM_RIGHTS SO_PEERCRED recv_fds send_fds socketpair"


class _Missing(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def _take() -> None:
    found: dict[Any, str] = {os: OF_OS, signal: OF_SIGNAL, socket: OF_SOCKET}
    for place, names in found.items():
        for name in names.split():
            if name in vars(place):
                delattr(place, name)
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Missing())


for _name in FIRST:
    importlib.import_module(_name)
platform.uname()  # which is remembered
# Of pytest, which asks for the system's name before it asks for a user.
importlib.import_module("_pytest.tmpdir").__dict__["get_user_id"] = lambda: None
_take()
