"""Which process something belongs to, written so that its end can be told from anywhere on the machine."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

_PROC = Path("/proc")


def this_process() -> str:
    """Name this process: ``MACHINE/PID/START``, never two processes by the same name.

    MACHINE is the boot and the process namespace, START when the process was started, since
    numbers of processes are used again.
    """
    pid = os.getpid()
    return f"{_machine()}/{pid}/{_start_of(pid)}"


def is_gone(owner: str) -> bool:
    """Whether the process that ``owner`` names has surely ended.

    False for a name that says nothing, and for a process of another machine, boot or
    container, whose processes cannot be seen from here.
    """
    machine, _, rest = owner.partition("/")
    number, _, start = rest.partition("/")
    if machine != _machine() or not number.isdecimal() or not start:
        return False
    return _start_of(int(number)) != start


@functools.cache
def _machine() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink(_PROC / "self/ns/pid")  # noqa: PTH115 (it names no file)
    except OSError:
        return os.uname().nodename.replace("/", "_") if hasattr(os, "uname") else "unknown"
    return f"{boot}-{namespace.strip('pid:[]')}"


def _start_of(pid: int) -> str:
    """Give when a process started, as its system writes it; empty where there is none.

    Not empty where this system cannot say, so that the process does not look ended.
    """
    if _PROC.joinpath("self/stat").exists():
        try:
            stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
        except OSError:
            return ""
        # The second field, the command, may hold spaces and parentheses. The third is the state.
        fields = stat.rpartition(")")[2].split()
        return "" if fields[0] in ("Z", "X") else fields[19]
    if shutil.which("ps") is None:
        return "unknown"
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    asked = subprocess.run(command, capture_output=True, check=False, text=True)
    return "_".join(asked.stdout.split())
