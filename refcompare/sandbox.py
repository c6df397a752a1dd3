"""The boundary around hostile code: bubblewrap, a seccomp filter, an unprivileged uid.

Nothing of the host is visible inside but system files, read-only, and what is bound on purpose.
There is no network, no environment, no other process and, unless asked for, no ``/proc``. Where
something can be written, nothing can be executed.
"""

from __future__ import annotations

import functools
import os
import platform
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import refcompare
from refcompare.errors import EnvironmentFailure

UNPRIVILEGED_ID = 61987
"""The uid and gid that root becomes before the sandbox starts: above the ranges that Debian gives
to people and services, so that it owns nothing and no other process."""

SYSTEM_LINKS = ("/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32")
SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_SOURCES = ("/usr/src", "/usr/local/src")
"""Where checkouts lie below /usr, which is visible inside; a candidate could read its tests there."""

_FILES = 65536
"""How many files and directories each writable place may hold."""

# Calls that no grader needs: looking into or steering another process, shared memory and queues
# that outlive their maker, new kernel surfaces. Numbers are per architecture; names that an
# architecture lacks are left out.
_DENIED_X86_64 = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "pidfd_open": 434,
    "pidfd_getfd": 438, "pidfd_send_signal": 424, "kcmp": 312, "perf_event_open": 298, "bpf": 321,
    "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "add_key": 248, "request_key": 249, "keyctl": 250, "shmget": 29, "shmat": 30, "shmctl": 31,
    "semget": 64, "semop": 65, "semctl": 66, "semtimedop": 220, "msgget": 68, "msgsnd": 69,
    "msgrcv": 70, "msgctl": 71, "mq_open": 240, "mq_unlink": 241, "mount": 165, "umount2": 166,
    "pivot_root": 155, "unshare": 272, "setns": 308, "chroot": 161, "move_mount": 429,
    "open_tree": 428, "fsopen": 430, "fsmount": 432, "mount_setattr": 442, "personality": 135,
    "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "setpriority": 141,
    "sched_setscheduler": 144, "sched_setparam": 142, "sched_setaffinity": 203, "sched_setattr": 314,
    "ioprio_set": 251, "open_by_handle_at": 304, "name_to_handle_at": 303, "quotactl": 179,
    "init_module": 175, "finit_module": 313, "delete_module": 176, "kexec_load": 246,
    "kexec_file_load": 320, "swapon": 167, "swapoff": 168, "reboot": 169, "acct": 163,
    "syslog": 103, "lookup_dcookie": 212, "move_pages": 279, "migrate_pages": 256,
    "process_madvise": 440, "process_mrelease": 448, "fanotify_init": 300, "fspick": 433,
}  # fmt: skip
_DENIED_AARCH64 = {
    "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "pidfd_open": 434,
    "pidfd_getfd": 438, "pidfd_send_signal": 424, "kcmp": 272, "perf_event_open": 241, "bpf": 280,
    "userfaultfd": 282, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "add_key": 217, "request_key": 218, "keyctl": 219, "shmget": 194, "shmctl": 195, "shmat": 196,
    "semget": 190, "semctl": 191, "semtimedop": 192, "semop": 193, "msgget": 186, "msgctl": 187,
    "msgrcv": 188, "msgsnd": 189, "mq_open": 180, "mq_unlink": 181, "mount": 40, "umount2": 39,
    "pivot_root": 41, "unshare": 97, "setns": 268, "chroot": 51, "move_mount": 429,
    "open_tree": 428, "fsopen": 430, "fsmount": 432, "mount_setattr": 442, "personality": 92,
    "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "setpriority": 140, "sched_setscheduler": 119,
    "sched_setparam": 118, "sched_setaffinity": 122, "sched_setattr": 274, "ioprio_set": 30,
    "open_by_handle_at": 265, "name_to_handle_at": 264, "quotactl": 60, "init_module": 105,
    "finit_module": 273, "delete_module": 106, "kexec_load": 104, "kexec_file_load": 294,
    "swapon": 224, "swapoff": 225, "reboot": 142, "acct": 89, "syslog": 116, "lookup_dcookie": 18,
    "move_pages": 239, "migrate_pages": 238, "process_madvise": 440, "process_mrelease": 448,
    "fanotify_init": 262, "fspick": 433,
}  # fmt: skip
# Calls that are judged by their first argument.
_ON_ITSELF = {"x86_64": 302, "aarch64": 261}  # prlimit64: a pid, 0 for the caller
_FAMILIES = {"x86_64": 41, "aarch64": 198}  # socket: an address family

_FIRST_UNKNOWN = 463
"""Calls from this number on came after Linux 6.12, and what they can do was not considered here."""

_ARCHITECTURES: dict[str, tuple[int, dict[str, int]]] = {
    # machine: (AUDIT_ARCH, denied calls)
    "x86_64": (0xC000003E, _DENIED_X86_64),
    "aarch64": (0xC00000B7, _DENIED_AARCH64),
}

_BPF_LD_W_ABS, _BPF_JEQ, _BPF_JGE, _BPF_RET = 0x20, 0x15, 0x35, 0x06
_AT_NUMBER, _AT_ARCHITECTURE, _AT_FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_AF_UNIX = 1
_X32_BIT = 0x40000000


def seccomp_filter(machine: str | None = None, *, internet: bool = False) -> bytes | None:
    """Give a compiled filter for ``bwrap --seccomp``; None for an architecture without one.

    Denied calls fail with EPERM, calls that are too new to be judged with ENOSYS. ``prlimit64`` is
    allowed on the caller itself only, so that a process can lower its own limits but not another's.
    Sockets are Unix sockets only, unless ``internet`` allows the other families too.
    """
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        return None
    audit_arch, denied = _ARCHITECTURES[machine]
    program: list[tuple[int, int, int, int]] = [
        (_BPF_LD_W_ABS, 0, 0, _AT_ARCHITECTURE),
        (_BPF_JEQ, 1, 0, audit_arch),
        (_BPF_RET, 0, 0, _KILL),
        (_BPF_LD_W_ABS, 0, 0, _AT_NUMBER),
        (_BPF_JGE, 0, 1, _X32_BIT),
        (_BPF_RET, 0, 0, _KILL),
        (_BPF_JGE, 0, 1, _FIRST_UNKNOWN),
        (_BPF_RET, 0, 0, _FAIL | _ENOSYS),
    ]
    for number in sorted(denied.values()):
        program += [(_BPF_JEQ, 0, 1, number), (_BPF_RET, 0, 0, _FAIL | _EPERM)]
    program += _only_with(_ON_ITSELF[machine], 0, _EPERM)
    if not internet:
        program += _only_with(_FAMILIES[machine], _AF_UNIX, _EAFNOSUPPORT)
    program.append((_BPF_RET, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


def _only_with(number: int, value: int, error: int) -> list[tuple[int, int, int, int]]:
    """Allow a call with this first argument (its low 32 bits: the kernel takes an int) and no other."""
    return [
        (_BPF_JEQ, 0, 4, number),
        (_BPF_LD_W_ABS, 0, 0, _AT_FIRST_ARGUMENT),
        (_BPF_JEQ, 0, 1, value),
        (_BPF_RET, 0, 0, _ALLOW),
        (_BPF_RET, 0, 0, _FAIL | error),
    ]


@dataclass(frozen=True, slots=True)
class Mount:
    """One place inside the sandbox: a host ``source`` (read-only unless ``writable``), or, without
    one, an empty tmpfs of ``size`` bytes. A later mount may lie inside an earlier one."""

    inside: str
    source: Path | None = None
    writable: bool = False
    size: int = 0

    def arguments(self, staged: str | None = None) -> list[str]:
        """Give bubblewrap's arguments for this mount; ``staged`` is where its tmpfs was made already."""
        if staged is not None:
            return ["--bind", staged, self.inside]
        if self.source is None:
            return ["--size", str(self.size), "--tmpfs", self.inside]
        return ["--bind" if self.writable else "--ro-bind", str(self.source), self.inside]


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What a sandboxed process sees: system files, ``mounts`` in their order, ``environment``.

    Every other path is absent, and what is not a writable mount or a tmpfs is read-only. There is
    a loopback interface of its own, on which ``internet`` sockets can be made, and nothing beyond.
    ``first`` makes the command the sandbox's first process, which nothing inside can kill or stop,
    instead of the child of one that reaps whatever loses its parent.
    ``more`` are arguments of bubblewrap that come after the mounts, while /dev and / can still be written.
    """

    mounts: tuple[Mount, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = "/"
    proc: bool = False
    internet: bool = False
    first: bool = False
    more: tuple[str, ...] = ()

    def arguments(self, seccomp_fd: int | None = None, *, staged: bool = False) -> list[str]:
        """Give the command line up to and with the ``--`` before the command.

        ``staged`` says that the tmpfs of each mount lies at its number below ``STAGE`` already.
        """
        line = [
            bubblewrap(), "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc",
            "--unshare-uts", "--unshare-cgroup-try", "--disable-userns", "--uid", "1000", "--gid",
            "1000", "--hostname", "sandbox", "--cap-drop", "ALL", "--die-with-parent",
            "--new-session", "--clearenv", *(["--as-pid-1"] if self.first else []),
        ]  # fmt: skip
        for name, value in self.environment.items():
            line += ["--setenv", name, value]
        line += _system_mounts()
        if self.proc:
            line += ["--proc", "/proc"]
            for masked in ("sys", "irq", "bus", "fs", "acpi"):
                line += ["--ro-bind-try", f"/proc/{masked}", f"/proc/{masked}"]
        for number, mount in enumerate(self.mounts):
            made = staged and mount.source is None
            line += mount.arguments(f"{STAGE}/{number}" if made else None)
        line += self.more
        line += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", self.directory]
        if seccomp_fd is not None:
            line += ["--seccomp", str(seccomp_fd)]
        return [*line, "--"]

    def start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a command inside, with pipes on its three standard streams.

        The process ends with the calling thread. As root, the sandbox runs as an unprivileged uid.
        Raises EnvironmentFailure where bubblewrap is missing.
        """
        sizes = {str(number): mount.size for number, mount in enumerate(self.mounts) if not mount.source}
        staged = bool(sizes) and can_forbid_execution()
        with _filter_descriptor(self.internet) as descriptor:
            line = [*self.arguments(descriptor, staged=staged), *command]
            return subprocess.Popen(
                [*_stage(sizes), *line] if staged else line,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=() if descriptor is None else (descriptor,),
                **_unprivileged(),
            )


def _unprivileged() -> dict[str, Any]:
    """How a sandbox is started: with no environment, and never with the host's uid 0.

    Some files below /proc/sys answer to uid 0 of the host, whatever the uid inside.
    """
    settings: dict[str, Any] = {"env": {}, "close_fds": True}
    if os.geteuid() == 0:
        settings |= {"user": UNPRIVILEGED_ID, "group": UNPRIVILEGED_ID, "extra_groups": ()}
    return settings


STAGE = "/sys"
"""Where writable places are made before a sandbox takes them: a directory that every Linux has and
no mount has its source in. Only the sandbox's own first namespace sees them there."""

# bubblewrap makes no tmpfs on which nothing can be executed, but it keeps the flags of what it binds.
# So an outer one, which hides nothing, makes them with mount(8) and then becomes the inner one.
_STAGE_SCRIPT = f"""
set -e
PATH=/usr/sbin:/usr/bin:/sbin:/bin
options=noexec,nosuid,nodev,mode=0755
mount -t tmpfs -o $options,size=64k tmpfs {STAGE}
while [ "$1" != -- ]; do
    mkdir "{STAGE}/$1"
    mount -t tmpfs -o "$options,nr_inodes={_FILES},size=$2" tmpfs "{STAGE}/$1"
    shift 2
done
shift
exec "$@"
"""


def _stage(sizes: Mapping[str, int]) -> list[str]:
    """Give the command that makes a tmpfs of so many bytes for each name, up to the inner command."""
    pairs = [text for name, size in sizes.items() for text in (name, str(size))]
    return [
        bubblewrap(), "--unshare-user", "--uid", "0", "--gid", "0", "--die-with-parent",
        # To mount, and to map the uid that is 0 here into the inner namespace.
        "--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETFCAP", "--dev-bind", "/", "/",
        "--", "/bin/sh", "-c", _STAGE_SCRIPT, "sh", *pairs, "--",
    ]  # fmt: skip


@functools.cache
def can_forbid_execution() -> bool:
    """Whether what a sandboxed process writes can be kept from being executed here, found out by trying.

    Some systems let bubblewrap make a namespace and deny what it starts therein to mount anything.
    """
    try:
        tried = subprocess.run(
            [*_stage({"0": 4096}), *Sandbox((Mount("/tmp", size=4096),)).arguments(staged=True), "/bin/true"],  # noqa: S108
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
            **_unprivileged(),
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return tried.returncode == 0


def _system_mounts() -> list[str]:
    """The host's programs and libraries, read-only, and the five devices that any program needs."""
    line = ["--ro-bind", "/usr", "/usr"]
    for link in map(Path, SYSTEM_LINKS):
        if link.is_symlink():
            line += ["--symlink", str(link.readlink()), str(link)]
        elif link.is_dir():
            line += ["--ro-bind", str(link), str(link)]
    for file in SYSTEM_FILES:
        line += ["--ro-bind-try", file, file]
    line += ["--tmpfs", "/dev"]
    for device in _DEVICES:
        line += ["--dev-bind", device, device]
    for hidden in hidden_directories():
        line += ["--tmpfs", hidden, "--remount-ro", hidden]
    return line


def hidden_directories() -> list[str]:
    """Give what below /usr holds no system files: checkouts, and this program with its tests."""
    here = [Path(path) for path in (*_SOURCES, os.path.realpath(refcompare.__path__[0]))]
    with suppress(FileNotFoundError):  # a working directory that has been removed
        here.append(Path.cwd())
    inside = [path for path in here if path.is_dir() and Path("/usr") in path.parents]
    return sorted({str(path) for path in inside if not any(other in path.parents for other in inside)})


@contextmanager
def _filter_descriptor(internet: bool) -> Iterator[int | None]:
    program = seccomp_filter(internet=internet)
    if program is None:
        yield None
        return
    with tempfile.TemporaryFile() as file:
        file.write(program)
        file.flush()
        file.seek(0)
        yield file.fileno()


def bubblewrap() -> str:
    """Give the path of ``bwrap``. Raises EnvironmentFailure with the command that installs it."""
    found = shutil.which("bwrap")
    if found is None:
        raise EnvironmentFailure(
            "bubblewrap (bwrap) is not installed: install it with `apt-get install bubblewrap`, "
            "or use `--runtime docker`"
        )
    return found


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Whether a sandbox can be had here; where not, ``message`` says why and what mends it."""

    works: bool
    message: str


def probe() -> ProbeResult:
    """Start a sandbox around ``true`` and say how that went."""
    try:
        process = Sandbox(environment={"PATH": "/usr/bin:/bin"}).start(["/bin/true"])
        _, error = process.communicate(timeout=20)
    except EnvironmentFailure as failure:
        return ProbeResult(False, str(failure))
    except (OSError, subprocess.SubprocessError) as failure:
        return ProbeResult(False, f"bubblewrap could not be started: {failure}")
    if process.returncode == 0:
        return ProbeResult(True, "bubblewrap works")
    text = error.decode("utf-8", "replace").strip()
    if "uid map" in text or "Operation not permitted" in text or "Permission denied" in text:
        text += (
            "; unprivileged user namespaces look restricted: on Ubuntu 24.04 run "
            "`sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, "
            "elsewhere `sudo sysctl -w kernel.unprivileged_userns_clone=1`, or use `--runtime docker`"
        )
    return ProbeResult(False, text or f"bubblewrap ended with status {process.returncode}")
