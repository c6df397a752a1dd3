# ruff: noqa: E501 (shell scripts in one line)
"""What the sandbox denies, what works inside it, and the shape of its system call filter."""

from __future__ import annotations

import errno
import os
import platform
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import refcompare.sandbox
from refcompare.errors import EnvironmentFailure
from refcompare.sandbox import (
    UNPRIVILEGED_ID,
    Mount,
    Sandbox,
    bubblewrap,
    can_forbid_execution,
    probe,
    seccomp_filter,
)

MIB = 1024 * 1024
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


@pytest.fixture(scope="module", autouse=True)
def _needs_a_sandbox() -> None:
    tried = probe()
    if not tried.works:
        if os.environ.get("REFCOMPARE_REQUIRE_WORDPRESS") == "1":
            pytest.fail(tried.message)
        pytest.skip(tried.message)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory of the host with a secret in it, readable by everybody."""
    tmp_path.chmod(0o755)
    (tmp_path / "secret").write_text("a secret of the host")
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.geteuid() and parent.name.startswith("pytest"):
            parent.chmod(0o755)
    return tmp_path


def run(script: str, sandbox: Sandbox | None = None, *arguments: str) -> tuple[int, str]:
    """Run a shell script inside; give its status and all that it printed."""
    sandbox = sandbox or Sandbox((Mount("/room", size=8 * MIB),), ENVIRONMENT, "/room")
    process = sandbox.start(["/bin/sh", "-c", script, "sh", *arguments])
    output, error = process.communicate(timeout=30)
    return process.returncode, (output + error).decode("utf-8", "replace")


# --- controls: what must work --------------------------------------------------------------


def test_programs_of_the_system_run_and_write_where_they_may() -> None:
    assert run("echo hello > /room/file; cat /room/file; ls /usr/bin/env") == (0, "hello\n/usr/bin/env\n")


def test_what_is_mounted_can_be_read_and_with_permission_written(outside: Path) -> None:
    (outside / "open").mkdir(mode=0o777)
    (outside / "open").chmod(0o777)
    mounts = (Mount("/closed", outside), Mount("/open", outside / "open", writable=True))
    status, said = run(
        "cat /closed/secret; echo x > /open/new; echo x > /closed/new", Sandbox(mounts, ENVIRONMENT)
    )
    assert said.startswith("a secret of the host")
    assert status != 0
    assert (outside / "open" / "new").exists()
    assert not (outside / "new").exists()


def test_a_later_mount_lies_inside_an_earlier_one(outside: Path) -> None:
    mounts = (Mount("/room", size=MIB), Mount("/room/in", outside), Mount("/room/in/deep", size=MIB))
    (outside / "deep").mkdir()
    assert (
        run("cat in/secret; touch in/deep/x && echo written", Sandbox(mounts, ENVIRONMENT, "/room"))[0] == 0
    )


def test_streams_are_pipes_and_the_status_comes_back() -> None:
    process = Sandbox(environment=ENVIRONMENT).start(["/bin/sh", "-c", "cat; exit 7"])
    assert process.communicate(b"through", timeout=20)[0] == b"through"
    assert process.returncode == 7


def test_the_devices_that_any_program_needs_are_there() -> None:
    script = "head -c 4 /dev/urandom | wc -c; head -c 2 /dev/zero | wc -c; echo x > /dev/null; ls -m /dev"
    assert run(script) == (0, "4\n2\nfull, null, random, urandom, zero\n")


def test_proc_is_there_for_those_who_ask_and_shows_nobody_else() -> None:
    sandbox = Sandbox(environment=ENVIRONMENT, proc=True)
    status, said = run(
        "ls -d /proc/[0-9]* | wc -l; cat /proc/1/environ /proc/self/environ | tr '\\0' '\\n'", sandbox
    )
    assert status == 0
    assert int(said.split()[0]) < 8
    assert "HOME=" not in said


# --- probes: what must be denied -----------------------------------------------------------

DENIED = [
    "ls /home /root",
    "cat /etc/passwd",
    "cat /etc/shadow",
    "cat /etc/resolv.conf",
    "ls /var/cache",
    "ls /run /var/run",
    "ls /sys",
    "ls /proc",
    "ls /dev/shm",
    "ls /dev/pts",
    "cat /dev/tty",
    "cat /dev/kmsg",
    "touch /new",
    "touch /usr/new",
    "touch /usr/bin/env",
    "touch /etc/new",
    "touch /dev/new",
    "mkdir /tmp",
    "mount -t tmpfs x /room",
    "mount -o remount,rw /usr",
    "mount -o remount,exec /room",
    "umount /room",
    "unshare --user true",
    "unshare --mount true",
    "unshare --net true",
    "chroot /room /bin/true",
    "mknod /room/null c 1 3",
    "renice -n -5 $$",
    "ionice -c 1 true",
    "taskset -c 0 true",
    "chrt -f 1 true",
    "prlimit --pid 1 --nofile=10",
    "prlimit --pid $PPID --cpu=1",
    "setpriv --reuid 0 true",
    "su root -c true",
    "kill -9 1 && sleep 1 && false",
    "ipcmk -M 100",
    "ipcmk -Q",
    "ipcmk -S 1",
    "keyctl show",
    "dmesg",
    "cp /bin/true /room/true && chmod 755 /room/true && /room/true",
    "printf '#!/bin/sh\\n' > /room/script && chmod 755 /room/script && /room/script",
    "cp /bin/true /room/true && $(ls /lib64/ld-linux-*.so.2 /lib/ld-linux-*.so.1 2>/dev/null | head -1) /room/true",
]  # fmt: skip


@pytest.mark.parametrize("script", DENIED)
def test_denied(script: str) -> None:
    if script.startswith("kill"):
        # The first process of the namespace does not die by the hand of another.
        assert run("kill -9 1; sleep 0.2; echo alive")[1].endswith("alive\n")
        return
    status, said = run(script)
    assert status != 0, said
    if "not found" in said and "command" not in said:
        pytest.skip(said)


def test_files_of_the_host_are_not_there(outside: Path) -> None:
    for path in (outside / "secret", Path(__file__), Path.home(), Path.cwd()):
        if not path.is_relative_to("/usr"):
            assert run(f"ls '{path}'")[0] != 0
    mounts = (Mount("/in", outside / "in"),)
    (outside / "in").mkdir()
    (outside / "in" / "link").symlink_to(outside / "secret")
    assert run("cat /in/link", Sandbox(mounts, ENVIRONMENT))[0] != 0
    assert run("cat /in/../secret", Sandbox(mounts, ENVIRONMENT))[0] != 0


def test_a_checkout_below_usr_and_this_program_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/usr/share")
    monkeypatch.setattr(refcompare, "__path__", ["/usr/lib"])
    hidden = refcompare.sandbox.hidden_directories()
    assert {"/usr/lib", "/usr/share"} <= set(hidden)
    monkeypatch.setattr(refcompare, "__path__", ["/usr/share/doc"])
    assert "/usr/share/doc" not in refcompare.sandbox.hidden_directories()
    status, said = run("ls -A /usr/share /usr/src | grep -v : ; touch /usr/share/x")
    assert status != 0 and said.split("touch")[0].strip() == ""


def test_there_is_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFCOMPARE_TEST_TOKEN", "a secret of the environment")
    assert sorted(run("env")[1].split()) == ["LANG=C.UTF-8", "PATH=/usr/bin:/bin", "PWD=/room"]
    _status, said = run("cat /proc/*/environ", Sandbox(environment=ENVIRONMENT, proc=True))
    assert "secret" not in said


def test_descriptors_of_the_host_are_not_inherited() -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        status, said = run(f"echo x >&{writing}")
        assert status != 0, said
        listed = run("ls /proc/self/fd | tr '\\n' ' '", Sandbox(environment=ENVIRONMENT, proc=True))[1]
        assert listed.split() == ["0", "1", "2", "3"]  # the last one is the listing itself
    finally:
        os.close(reading)
        os.close(writing)


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def python(code: str, *, internet: bool = False) -> tuple[int, str]:
    python = next(
        (path for path in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(path).exists()), None
    )
    if python is None:
        pytest.skip("no system Python to ask from inside")
    sandbox = Sandbox((Mount("/room", size=MIB),), ENVIRONMENT, "/room", internet=internet)
    process = sandbox.start([python, "-I", "-S", "-c", code])
    output, error = process.communicate(timeout=30)
    return process.returncode, (output + error).decode("utf-8", "replace")


def test_no_network_and_not_even_loopback(listener: int) -> None:
    connect = f"import socket; socket.create_connection(('127.0.0.1', {listener}), 2)"
    assert "Address family not supported" in python(connect)[1]
    assert "Address family not supported" in python("import socket; socket.socket(socket.AF_NETLINK)")[1]
    assert python("import socket; socket.socketpair(); socket.socket(socket.AF_UNIX)")[0] == 0


def test_internet_sockets_reach_a_loopback_of_their_own_and_no_further(listener: int) -> None:
    own = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); "
        "socket.create_connection(s.getsockname(), 2); print('connected')"
    )
    assert python(own, internet=True) == (0, "connected\n")
    host = f"import socket; socket.create_connection(('127.0.0.1', {listener}), 2)"
    assert "refused" in python(host, internet=True)[1]
    assert (
        "unreachable"
        in python("import socket; socket.create_connection(('8.8.8.8', 53), 2)", internet=True)[1]
    )


CALLS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    function = getattr(libc, name)
    done = function(*arguments)
    return ctypes.get_errno() if done == -1 else 0
parent = os.getppid()
buffer = ctypes.create_string_buffer(8)
limits = ctypes.create_string_buffer(16)
print(*(
    call('ptrace', 16, parent, 0, 0),
    call('ptrace', 0, 0, 0, 0),
    call('prlimit', parent, 7, limits, 0),
    call('prlimit', 0, 7, 0, limits),
    call('setpriority', 0, 0, 5),
    call('unshare', 0x10000000),
    call('personality', 0x0040000),
    call('shmget', 1, 100, 0o1600),
    call('setxattr', b'/room', b'user.x', b'1', 1, 0),
))
"""


def test_system_calls_that_reach_beyond_the_process_are_denied() -> None:
    status, said = python(CALLS)
    assert status == 0, said
    denied = str(errno.EPERM)
    assert said.split() == [denied, denied, denied, "0", denied, denied, denied, denied, denied]


def test_nothing_outlives_the_first_process() -> None:
    script = "(sleep 30; echo x > /room/late) & echo started"
    status, said = run(script)
    assert (status, said) == (0, "started\n")
    marker = f"sleep {30.0 + os.getpid() / 1e6}"
    process = Sandbox(environment=ENVIRONMENT).start(["/bin/sh", "-c", f"{marker} & {marker}"])
    wait_until(lambda: running(marker) >= 1)
    process.kill()
    process.communicate()
    wait_until(lambda: running(marker) == 0)


def test_a_sandbox_ends_with_the_thread_that_started_it() -> None:
    marker = f"sleep {31.0 + os.getpid() / 1e6}"
    kept: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        kept.append(Sandbox((Mount("/room", size=MIB),), ENVIRONMENT).start(["/bin/sh", "-c", marker]))
        wait_until(lambda: running(marker) >= 1)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    wait_until(lambda: running(marker) == 0)
    kept[0].communicate()


def running(command: str) -> int:
    wanted = command.replace(" ", "\0").encode() + b"\0"
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                count += (entry / "cmdline").read_bytes() == wanted
            except OSError:
                continue
    return count


def wait_until(condition: object) -> None:
    assert callable(condition)
    for _ in range(200):
        if condition():
            return
        threading.Event().wait(0.05)
    raise AssertionError("it did not happen within ten seconds")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a uid to give up")
def test_as_root_nothing_inside_has_the_hosts_uid_0() -> None:
    process = Sandbox((Mount("/room", size=MIB),), ENVIRONMENT).start(["/bin/sh", "-c", "id -u; sleep 20"])
    assert process.stdout is not None
    assert process.stdout.readline() == b"1000\n"
    try:
        uids = set()
        for status in descendants(process.pid):
            uids |= set(status["Uid"].split()) | set(status["Gid"].split())
            assert status["Groups"].split() in ([], [str(UNPRIVILEGED_ID)])
            assert status["NoNewPrivs"].strip() == "1"
        assert uids == {str(UNPRIVILEGED_ID)}
    finally:
        process.kill()
        process.communicate()


def descendants(pid: int) -> Iterator[dict[str, str]]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    yield dict(line.split(":", 1) for line in lines)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == pid:
                yield from descendants(int(entry.name))


def test_core_pattern_cannot_be_written_even_with_proc() -> None:
    sandbox = Sandbox(environment=ENVIRONMENT, proc=True)
    before = Path("/proc/sys/kernel/core_pattern").read_text()
    status, said = run("echo '|/bin/true' > /proc/sys/kernel/core_pattern", sandbox)
    assert status != 0, said
    assert Path("/proc/sys/kernel/core_pattern").read_text() == before


def test_a_writable_place_holds_no_more_than_its_size_and_number_of_files() -> None:
    _status, said = run("head -c 9000000 /dev/zero > /room/big; stat -c %s /room/big")
    assert "No space left" in said and f"\n{8 * MIB}\n" in f"\n{said}"
    assert can_forbid_execution()
    script = "i=0; while [ $i -lt 66 ]; do mkdir /room/$i && (cd /room/$i && seq 1000 | xargs touch) || exit 3; i=$((i+1)); done"
    big = Sandbox((Mount("/room", size=256 * MIB),), ENVIRONMENT, "/room")
    status, said = run(script, big)
    assert status != 0 and "No space left" in said


def test_a_system_that_does_not_let_it_forbid_execution_still_has_a_sandbox(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refcompare.sandbox, "can_forbid_execution", lambda: False)
    assert run("echo x > /room/y && cat /room/y") == (0, "x\n")


def test_without_bubblewrap_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EnvironmentFailure, match="apt-get install bubblewrap"):
        bubblewrap()
    tried = probe()
    assert not tried.works
    assert "bubblewrap" in tried.message


# --- the filter ----------------------------------------------------------------------------

ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
MACHINES = {
    # machine: AUDIT_ARCH; some allowed and some denied calls
    "x86_64": (0xC000003E, {"read": 0, "execve": 59, "kill": 62, "fork": 57}, {"ptrace": 101, "bpf": 321}),
    "aarch64": (0xC00000B7, {"read": 63, "execve": 221, "kill": 129}, {"ptrace": 117, "bpf": 280}),
}
PRLIMIT, SOCKET = {"x86_64": 302, "aarch64": 261}, {"x86_64": 41, "aarch64": 198}


def evaluate(program: bytes, architecture: int, number: int, first: int = 0) -> int:
    """Run a filter as the kernel would: struct seccomp_data in, an action out. Checks each jump."""
    data = struct.pack("<iIQ6Q", number, architecture, 0, first, 0, 0, 0, 0, 0)
    instructions = [struct.unpack_from("<HBBI", program, at) for at in range(0, len(program), 8)]
    accumulator, at = 0, 0
    while True:
        assert at < len(instructions), "a jump leads out of the program"
        code, if_true, if_false, value = instructions[at]
        at += 1
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif code == 0x15:
            at += if_true if accumulator == value else if_false
        elif code == 0x35:
            at += if_true if accumulator >= value else if_false
        else:
            assert code == 0x06
            return int(value)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_denies_what_it_names_and_allows_the_rest(machine: str) -> None:
    architecture, allowed, denied = MACHINES[machine]
    program = seccomp_filter(machine)
    assert program is not None and len(program) % 8 == 0 and len(program) // 8 < 4096
    for number in allowed.values():
        assert evaluate(program, architecture, number) == ALLOW
    for number in denied.values():
        assert evaluate(program, architecture, number) == FAIL | errno.EPERM
    table = refcompare.sandbox._ARCHITECTURES[machine][1]
    outcomes = {number: evaluate(program, architecture, number) for number in range(463)}
    assert {number for number, outcome in outcomes.items() if outcome == FAIL | errno.EPERM} == set(
        table.values()
    )
    assert len(table) == len(set(table.values()))


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_judges_some_calls_by_their_first_argument(machine: str) -> None:
    architecture, _, _ = MACHINES[machine]
    program = seccomp_filter(machine)
    assert program is not None
    for pid, action in (
        (0, ALLOW),
        (1, FAIL | errno.EPERM),
        (1 << 32, ALLOW),
        (2**64 - 1, FAIL | errno.EPERM),
    ):
        assert evaluate(program, architecture, PRLIMIT[machine], pid) == action
    for family in (socket.AF_INET, socket.AF_INET6, 16, 17, 38, 40):
        assert evaluate(program, architecture, SOCKET[machine], family) == FAIL | 97
    assert evaluate(program, architecture, SOCKET[machine], socket.AF_UNIX) == ALLOW
    open_program = seccomp_filter(machine, internet=True)
    assert open_program is not None
    assert evaluate(open_program, architecture, SOCKET[machine], socket.AF_INET) == ALLOW
    assert evaluate(open_program, architecture, PRLIMIT[machine], 1) == FAIL | errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_kills_what_speaks_for_another_architecture(machine: str) -> None:
    architecture, _, _ = MACHINES[machine]
    program = seccomp_filter(machine)
    assert program is not None
    for other in (0x40000003, 0x40000028, 0, 0xC000003E ^ 0xC00000B7 ^ architecture):
        assert evaluate(program, other, 0) == KILL
    assert evaluate(program, architecture, 0x40000000) == KILL  # x32
    assert evaluate(program, architecture, 0xFFFFFFFF - (1 << 32)) == KILL
    assert evaluate(program, architecture, 463) == FAIL | errno.ENOSYS
    assert evaluate(program, architecture, 5000) == FAIL | errno.ENOSYS


def test_an_unknown_architecture_has_no_filter_and_this_one_has() -> None:
    assert seccomp_filter("riscv64") is None
    assert seccomp_filter() == seccomp_filter(platform.machine())


def test_the_numbers_of_the_calls_are_those_of_this_machines_kernel_headers() -> None:
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if platform.machine() != "x86_64" or not header.exists():
        pytest.skip("no kernel headers to compare with")
    words = (line.split() for line in header.read_text().splitlines() if line.startswith("#define __NR_"))
    numbers = {word[1].removeprefix("__NR_"): int(word[2]) for word in words}
    for name, number in refcompare.sandbox._DENIED_X86_64.items():
        assert numbers.get(name, number) == number, name
    generic = Path("/usr/include/asm-generic/unistd.h").read_text().splitlines()
    arm = {
        line.split()[1].removeprefix("__NR_"): line.split()[2]
        for line in generic
        if line.startswith("#define __NR_")
    }
    for name, number in refcompare.sandbox._DENIED_AARCH64.items():
        assert arm.get(name, str(number)) == str(number), name
