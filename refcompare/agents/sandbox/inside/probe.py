"""Tries to get out of an agent's boundary, and to work in it; prints what came of it as JSON.

It is told on its standard input what there is outside, as a JSON object. Every probe gives whether
it could do what it tried, and a word on how; what that means is judged outside.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import json
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any, Callable, Dict, Iterable, Tuple

Outside = Dict[str, Any]
Finding = Tuple[bool, str]
Attempt = Tuple[str, Callable[[], object]]

_CLONE = {"x86_64": 56, "aarch64": 220}
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_CLONE_NEWUSER = 0x10000000
_TIMEOUT = 3


def main() -> None:
    """Run every probe; one that breaks has failed to do what it tried."""
    outside = json.load(sys.stdin)
    found = {}
    for name, probe in sorted(globals().items()):
        if not name.startswith("probe_"):
            continue
        try:
            could, how = probe(outside)
        except Exception as error:
            could, how = False, f"{type(error).__name__}: {error}"
        found[name[6:]] = [bool(could), str(how)[:300]]
    json.dump(found, sys.stdout)


def status_of(field: str) -> str:
    """Give a field of what the kernel says of this process."""
    with open("/proc/self/status") as file:
        lines = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    return lines.get(field, "").strip()


def first_that(attempts: Iterable[Attempt]) -> Finding:
    """Give the first attempt that succeeds, as (could, how)."""
    errors: list[str] = []
    for what, attempt in attempts:
        try:
            attempt()
        except Exception as error:
            errors.append(f"{what}: {error}")
        else:
            return True, what
    return False, errors[-1] if errors else "nothing to try"


# What must not be possible.


def probe_secret_in_environment(outside: Outside) -> Finding:
    for path in [*glob.glob("/proc/[0-9]*/environ"), "/proc/self/environ"]:
        with contextlib.suppress(OSError), open(path, "rb") as file:
            if outside["secret"].encode() in file.read():
                return True, path
    return False, "in no environment"


def probe_read_host_files(outside: Outside) -> Finding:
    def reader(path: str) -> Callable[[], None]:
        def read() -> None:
            with open(path, "rb") as file:
                file.read(1)

        return read

    link = "/workspace/.probe-link"
    attempts: list[Attempt] = []
    for path in outside["files"]:
        attempts += [(path, reader(path)), ("/proc/1/root" + path, reader("/proc/1/root" + path))]
        attempts.append(("..", reader("/workspace/" + "../" * 20 + path.lstrip("/"))))
        with contextlib.suppress(OSError):
            os.symlink(path, link)
            try:
                reader(link)()
                return True, "through a symlink to " + path
            except OSError:
                continue
            finally:
                os.unlink(link)
    return first_that(attempts)


def probe_see_other_workspaces(outside: Outside) -> Finding:
    listed = [path for path in outside["directories"] if os.path.exists(path)]
    return bool(listed), ", ".join(listed) or "none is there"


def probe_docker_socket(outside: Outside) -> Finding:
    found = [path for path in ("/var/run/docker.sock", "/run/docker.sock") if os.path.exists(path)]
    return bool(found), ", ".join(found) or "none is there"


def probe_connect_host_loopback(outside: Outside) -> Finding:
    def connector(address: Any) -> Callable[[], None]:
        return lambda: socket.create_connection(tuple(address), timeout=_TIMEOUT).close()

    return first_that((f"{address[0]}:{address[1]}", connector(address)) for address in outside["tcp"])


def probe_connect_network(outside: Outside) -> Finding:
    def reach() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
            tried.connect(("192.0.2.1", 9))  # for documentation: needs a route, sends nothing

    def resolve() -> None:
        socket.getaddrinfo("example.com", 443)

    return first_that((("a route", reach), ("a name", resolve)))


def probe_connect_host_sockets(outside: Outside) -> Finding:
    def connector(address: str) -> Callable[[], None]:
        def connect() -> None:
            with socket.socket(socket.AF_UNIX) as tried:
                tried.settimeout(_TIMEOUT)
                tried.connect(address)

        return connect

    abstract = "\0" + outside["abstract"]
    return first_that((("abstract", connector(abstract)), ("path", connector(outside["unix"]))))


def probe_write_system(outside: Outside) -> Finding:
    def writer(path: str) -> Callable[[], None]:
        def write() -> None:
            with open(path, "w"):
                pass
            os.unlink(path)

        return write

    if not os.statvfs("/").f_flag & os.ST_RDONLY:
        return True, "/ is not read-only"
    places = ("/", "/usr/", "/usr/local/", "/etc/", "/dev/", "/run/", "/var/", "/home/", "/opt/")
    return first_that((place, writer(place + ".probe")) for place in places)


def probe_write_kernel_settings(outside: Outside) -> Finding:
    if not os.statvfs("/proc/sys").f_flag & os.ST_RDONLY:
        return True, "/proc/sys is not read-only"

    def write() -> None:
        with open("/proc/sys/kernel/core_pattern", "r+") as file:
            file.read()

    return first_that((("core_pattern", write),))


def probe_make_user_namespace(outside: Outside) -> Finding:
    libc = ctypes.CDLL(None, use_errno=True)
    child = libc.syscall(_CLONE[platform.machine()], _CLONE_NEWUSER | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    if child > 0:
        os.waitpid(child, 0)
    return child > 0, os.strerror(ctypes.get_errno())


def probe_have_capabilities(outside: Outside) -> Finding:
    held = {name: status_of(name) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")}
    if status_of("NoNewPrivs") != "1":
        return True, "new privileges can be gained"
    return any(int(value, 16) for value in held.values()), str(held)


def probe_make_any_system_call(outside: Outside) -> Finding:
    if status_of("Seccomp") != "2":
        return True, "system calls are not filtered"
    libc = ctypes.CDLL(None, use_errno=True)
    got = libc.syscall(_KEYCTL[platform.machine()], 0, -3, 0, 0, 0)
    return got >= 0, "keyctl: " + os.strerror(ctypes.get_errno())


def probe_share_namespaces(outside: Outside) -> Finding:
    shared = [
        name
        for name, known in outside["namespaces"].items()
        if os.path.exists("/proc/self/ns/" + name) and os.readlink("/proc/self/ns/" + name) == known
    ]
    return bool(shared), ", ".join(shared) or "none is shared"


def probe_see_host_processes(outside: Outside) -> Finding:
    seen = [path for path in glob.glob("/proc/[0-9]*/cmdline") if holds(path, outside["process"])]
    return bool(seen), ", ".join(seen) or "none is seen"


def holds(path: str, text: str) -> bool:
    try:
        with open(path, "rb") as file:
            return text.encode() in file.read()
    except OSError:
        return False


def probe_reach_terminal(outside: Outside) -> Finding:
    if os.getsid(0) == 0:
        return True, "the session is the host's"
    return first_that((("/dev/tty", lambda: open("/dev/tty").close()),))


def probe_inherit_descriptors(outside: Outside) -> Finding:
    left: list[str] = []
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink("/proc/self/fd/" + entry)
            if int(entry) > 2 and not target.startswith("/proc/"):
                left.append(entry + " -> " + target)
    return bool(left), ", ".join(left) or "none is left"


def probe_fill_memory(outside: Outside) -> Finding:
    for path in outside["sized"]:
        room = os.statvfs(path)
        if room.f_blocks * room.f_frsize > outside["bytes"]:
            return True, f"{path} has room for {room.f_blocks * room.f_frsize} bytes"
    return False, "every place in memory is bounded"


def probe_exceed_limits(outside: Outside) -> Finding:
    for name in ("RLIMIT_NPROC", "RLIMIT_FSIZE", "RLIMIT_CORE"):
        if resource.getrlimit(getattr(resource, name))[1] == resource.RLIM_INFINITY:
            return True, name + " is unlimited"
    return False, "processes, files and core dumps are limited"


def probe_write_read_only_workspace(outside: Outside) -> Finding:
    if not outside["read_only"]:
        return False, "the workspace is not read-only this time"

    def write() -> None:
        with open("/workspace/.probe", "w"):
            pass

    def remount() -> None:
        subprocess.run(["mount", "-o", "remount,rw", "/workspace"], check=True, capture_output=True)

    def change() -> None:
        os.chmod("/workspace/given", 0o777)

    return first_that((("writing", write), ("remounting", remount), ("changing modes", change)))


# What must be possible.


def probe_can_read_workspace(outside: Outside) -> Finding:
    with open("/workspace/given") as file:
        return file.read() == "given", "reading"


def probe_can_write_workspace(outside: Outside) -> Finding:
    if outside["read_only"]:
        return True, "the workspace is read-only this time"
    with open("/workspace/left", "w"):
        pass
    path = "/workspace/.probe.sh"
    with open(path, "w") as file:
        file.write("#!/bin/sh\necho ran\n")
    os.chmod(path, 0o755)
    try:
        return subprocess.run(
            [path], capture_output=True, check=True
        ).stdout == b"ran\n", "writing and running"
    finally:
        os.unlink(path)


def probe_can_use_home_and_tmp(outside: Outside) -> Finding:
    for place in (os.environ["HOME"], "/tmp", "/var/tmp", "/dev/shm"):
        path = os.path.join(place, ".probe")
        with open(path, "w") as file:
            file.write("x")
        os.unlink(path)
    return True, "writing"


def probe_can_use_shell(outside: Outside) -> Finding:
    line = 'cat <(echo one) && id -un && echo two > /dev/stdout && test -d "$HOME"'
    done = subprocess.run(["bash", "-c", line], capture_output=True, timeout=30)
    return done.stdout.split()[:2] == [b"one", b"agent"] and done.returncode == 0, done.stderr.decode()


def probe_can_use_git(outside: Outside) -> Finding:
    done = subprocess.run(["git", "--version"], capture_output=True, timeout=30)
    return done.returncode == 0, done.stdout.decode().strip()


def probe_can_ask_model(outside: Outside) -> Finding:
    request = urllib.request.Request(outside["model"] + "/v1/models")
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return False, f"answered with {response.status}"
    except urllib.error.HTTPError as error:
        # The gateway's own no, since this is no request to a model.
        return error.code == 404 and "gateway" in error.read().decode(), f"status {error.code}"


if __name__ == "__main__":
    main()
