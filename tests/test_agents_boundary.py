"""What keeps an agent away from everything but its workspace, and how its absence is noticed."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from refcompare.agents.sandbox import boundary as boundary_module
from refcompare.agents.sandbox import probes as probes_module
from refcompare.agents.sandbox.boundary import (
    MODEL_URL,
    Boundary,
    Layer,
    View,
    check_view,
    find_boundary,
    workspace_owner,
)
from refcompare.agents.sandbox.bubblewrap import BubblewrapBoundary
from refcompare.agents.sandbox.container import ContainerBoundary
from refcompare.agents.sandbox.probes import Probe, holds, probes, probes_value, render_probes
from refcompare.cli import cli
from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.sandbox import Mount, ProbeResult
from refcompare.wordpress.engine import docker_available
from tests.support_agents import boundary_or_skip, model_behind_gateway, says, workspace_of

MARKER = "marker-5c9e21d4-of-the-host"


@pytest.fixture(scope="session")
def bubblewrap() -> BubblewrapBoundary:
    found = boundary_or_skip()
    assert isinstance(found, BubblewrapBoundary)
    return found


@pytest.fixture(scope="session")
def container() -> ContainerBoundary:
    engine = docker_available()
    if not engine.works:
        if os.environ.get("REFCOMPARE_REQUIRE_DOCKER") == "1":
            pytest.fail(engine.message)
        pytest.skip(engine.message)
    return ContainerBoundary()


@pytest.fixture
def workspace() -> Iterator[Path]:
    with workspace_of({}) as made:
        yield made


def run(boundary: Boundary, view: View, line: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    process = boundary.start(["bash", "-c", line], view)
    try:
        output, errors = process.communicate(stdin, timeout=60)
    finally:
        boundary.stop(process)
    return subprocess.CompletedProcess(line, process.returncode, output, errors)


# The probes that `refcompare doctor --sandbox` runs.


def test_the_boundary_holds(bubblewrap: BubblewrapBoundary):
    results = probes(bubblewrap)
    assert [result for result in results if not result.passed] == []
    assert len([result for result in results if result.denied]) == 22
    assert len([result for result in results if not result.denied]) == 6


RED: Mapping[Layer, str] = {
    Layer.HOST_USER: "host_root",
    Layer.ENVIRONMENT: "secret_in_environment",
    Layer.FILES: "read_host_files",
    Layer.NETWORK: "connect_host_loopback",
    Layer.PROCESSES: "see_host_processes",
    Layer.IPC: "share_namespaces",
    Layer.HOSTNAME: "share_namespaces",
    Layer.CONTROL_GROUPS: "share_namespaces",
    Layer.USER_NAMESPACES: "make_user_namespace",
    Layer.CAPABILITIES: "have_capabilities",
    Layer.SYSTEM_CALLS: "make_any_system_call",
    Layer.KERNEL_SETTINGS: "write_kernel_settings",
    Layer.SYSTEM_READ_ONLY: "write_system",
    Layer.TERMINAL: "reach_terminal",
    Layer.DESCRIPTORS: "inherit_descriptors",
    Layer.LIFETIME: "outlive_refcompare",
    Layer.MEMORY: "fill_memory",
    Layer.LIMITS: "exceed_limits",
}


def test_every_wall_has_a_probe_that_misses_it():
    assert set(RED) == set(Layer)


@pytest.mark.parametrize("layer", list(Layer))
def test_a_wall_that_is_left_out_is_noticed(layer: Layer, bubblewrap: BubblewrapBoundary):
    if layer is Layer.HOST_USER and os.geteuid() != 0:
        pytest.skip("only root could be root on the host")
    results = probes(BubblewrapBoundary(frozenset({layer})), only={RED[layer], "can_ask_model"})
    failed = {result.name for result in results if not result.passed}
    assert RED[layer] in failed
    assert not holds(results)
    assert "does not hold" in render_probes(results)


@pytest.mark.parametrize("layer", [Layer.PROCESSES, Layer.LIFETIME])
def test_what_outlives_its_agent_is_noticed_and_ended(
    layer: Layer, bubblewrap: BubblewrapBoundary, monkeypatch: pytest.MonkeyPatch
):
    marks: list[str] = []
    leave = probes_module._leave

    def noted(mark: str, seconds: int) -> list[str]:
        marks.append(mark)
        return leave(mark, seconds)

    monkeypatch.setattr(probes_module, "_leave", noted)
    results = probes(BubblewrapBoundary(frozenset({layer})), only={"outlive", "outlive_refcompare"})
    assert not holds(results)
    time.sleep(0.1)
    assert marks and not [pid for mark in marks for pid in probes_module._naming(mark)]


def test_the_doctor_shows_the_probes_and_its_status_is_theirs(
    bubblewrap: BubblewrapBoundary, monkeypatch: pytest.MonkeyPatch
):
    done = CliRunner().invoke(cli, ["doctor", "--sandbox"])
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "The sandbox holds.")
    for layer in (Layer.FILES, Layer.NETWORK, Layer.PROCESSES):
        open_boundary = BubblewrapBoundary(frozenset({layer}))
        monkeypatch.setattr(boundary_module, "find_boundary", lambda found=open_boundary: found)
        done = CliRunner().invoke(cli, ["doctor", "--sandbox", "--json"])
        told = json.loads(done.stdout)
        assert (done.exit_code, told["holds"]) == (3, False)
        assert RED[layer] in [probe["name"] for probe in told["probes"] if not probe["passed"]]


@pytest.mark.docker
def test_the_boundary_of_docker_holds(container: ContainerBoundary):
    assert [result for result in probes(container) if not result.passed] == []


@pytest.mark.docker
@pytest.mark.parametrize("layer", sorted(set(Layer) - {Layer.DESCRIPTORS}))  # an engine passes none on
def test_a_wall_of_docker_that_is_left_out_is_noticed(layer: Layer, container: ContainerBoundary):
    (result,) = probes(ContainerBoundary(frozenset({layer})), only={RED[layer]})
    assert not result.passed


@pytest.mark.docker
def test_what_is_in_a_place_in_memory_belongs_to_the_agent(container: ContainerBoundary, workspace: Path):
    (workspace.parent / "given").write_text("given")
    mounts = (
        Mount("/home/agent/.tool", size=4096 * 16),
        Mount("/home/agent/.tool/a", workspace.parent / "given"),
    )
    done = run(
        container, View(workspace, mounts=mounts), "cat ~/.tool/a; echo made > ~/.tool/b; cat ~/.tool/b"
    )
    assert done.stdout == b"givenmade\n"


def test_a_boundary_that_starts_nothing_is_red():
    class Broken:
        name = "broken"

        def start(self, command: object, view: object) -> subprocess.Popen[bytes]:
            raise EnvironmentFailure("no sandbox today")

        def stop(self, process: object) -> None:
            raise AssertionError

    results = probes(Broken())
    assert not any(result.passed for result in results), "what could not be tried has not been denied"


def test_the_report_says_what_failed_and_how():
    good = Probe("a", "read the workspace", False, True, "reading")
    bad = Probe("b", "reach the network", True, False, "a route\x1b[31m")
    report = render_probes((good, bad))
    assert "ok    an agent can read the workspace\n" in report
    assert "FAIL  an agent cannot reach the network: a route [31m" in report
    assert report.endswith("The sandbox does not hold: 1 probes failed.")
    assert render_probes((good,)).endswith("The sandbox holds.")
    assert probes_value((good, bad))["holds"] is False
    assert probes_value((good,))["probes"] == [
        {"name": "a", "what": "read the workspace", "denied": False, "passed": True, "how": "reading"}
    ]


# What a program sees.


def test_no_secret_is_visible_inside(
    bubblewrap: BubblewrapBoundary, workspace: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REFCOMPARE_TEST_SECRET", MARKER)
    neighbour = workspace.parent / "other-trial"
    neighbour.mkdir()
    (neighbour / "secret").write_text(MARKER)
    line = (
        "env; cat /proc/*/environ /proc/*/cmdline; ls -laR /home /root /tmp /var /run /opt /srv; ls /etc;"
        " grep -rs marker-5c9e /etc/passwd /run /home /var /tmp; cat /proc/self/mountinfo; true"
    )
    done = run(bubblewrap, View(workspace), line)
    assert done.returncode == 0
    assert MARKER.encode() not in done.stdout + done.stderr
    assert b"other-trial" not in done.stdout


def test_no_command_line_tells_where_the_workspace_lies_on_this_machine(
    bubblewrap: BubblewrapBoundary, workspace: Path
):
    done = run(bubblewrap, View(workspace), "cat /proc/1/cmdline /proc/*/cmdline | tr '\\0' ' '")
    assert b"launcher.py" in done.stdout
    assert os.fsencode(workspace.parent) not in done.stdout


def test_a_program_sees_its_view_and_nothing_else(bubblewrap: BubblewrapBoundary, workspace: Path):
    (workspace / "AGENTS.md").write_text("Be kind.\n")
    done = run(
        bubblewrap,
        View(workspace, environment={"MODEL": "m"}),
        'pwd; cat AGENTS.md; echo "$MODEL $HOME"; ls /',
    )
    assert done.stdout.decode().splitlines()[:3] == ["/workspace", "Be kind.", "m /home/agent"]
    roots = set(done.stdout.decode().splitlines()[3:])
    assert roots <= {"bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin",
                     "tmp", "usr", "var", "workspace"}  # fmt: skip


def test_what_is_written_in_the_workspace_belongs_to_its_owner(
    bubblewrap: BubblewrapBoundary, workspace: Path
):
    assert run(bubblewrap, View(workspace), "mkdir -p a && echo x > a/b").returncode == 0
    assert (workspace / "a" / "b").stat().st_uid == workspace_owner()[0]


def test_a_read_only_workspace_cannot_be_changed(bubblewrap: BubblewrapBoundary, workspace: Path):
    (workspace / "file").write_text("as it was")
    line = "echo x > file; rm -f file; mv file other; chmod 777 .; mount -o remount,rw /workspace; ls"
    done = run(bubblewrap, View(workspace, read_only=True), line)
    assert done.stdout == b"file\n"
    assert (workspace / "file").read_text() == "as it was"


def test_mounts_may_lie_in_the_workspace(bubblewrap: BubblewrapBoundary, workspace: Path):
    (workspace / "settings.json").write_text('{"hooks": "of the ref"}')
    empty = workspace.parent / "empty.json"
    empty.write_text("{}")
    view = View(workspace, mounts=(Mount("/workspace/settings.json", empty),))
    done = run(bubblewrap, view, "cat settings.json; echo x > settings.json")
    assert done.stdout == b"{}"
    assert done.returncode != 0
    assert "hooks" in (workspace / "settings.json").read_text()


def test_standard_input_output_and_status_are_the_programs_own(
    bubblewrap: BubblewrapBoundary, workspace: Path
):
    done = run(bubblewrap, View(workspace), "cat; echo err >&2; echo out > /dev/stdout; exit 7", b"in\n")
    assert (done.stdout, done.stderr, done.returncode) == (b"in\nout\n", b"err\n", 7)


def test_a_program_that_a_signal_ended_says_so(bubblewrap: BubblewrapBoundary, workspace: Path):
    assert run(bubblewrap, View(workspace), "kill -9 $$").returncode == 137


def test_a_program_that_is_not_there_is_told(bubblewrap: BubblewrapBoundary, workspace: Path):
    process = bubblewrap.start(["no-such-program"], View(workspace))
    try:
        _, errors = process.communicate(timeout=30)
    finally:
        bubblewrap.stop(process)
    assert process.returncode == 127
    assert errors == b"no-such-program cannot be started: No such file or directory\n"


def test_the_model_is_reached_through_the_gateway_alone(bubblewrap: BubblewrapBoundary, workspace: Path):
    ask = (
        "import json, sys, urllib.request as u\n"
        "body = json.dumps({'model': 'scripted-1', 'messages': [{'role': 'user', 'content': 'Go.'}],\n"
        "                   'tools': [{'name': 'Read'}]}).encode()\n"
        f"request = u.Request('{MODEL_URL}/v1/messages', body, {{'content-type': 'application/json'}})\n"
        "print(json.load(u.urlopen(request))['content'][0]['text'])\n"
    )
    (workspace / "ask.py").write_text(ask)
    with model_behind_gateway(says("Hello inside.")) as (gateway, _):
        handle = gateway.open()
        done = run(bubblewrap, View(workspace, socket=handle.socket), "python3 ask.py && python3 ask.py")
        assert done.stdout == b"Hello inside.\n" * 2
        assert handle.usage.requests == 2
        without = run(bubblewrap, View(workspace), "python3 ask.py")
        assert b"Connection refused" in without.stderr


def test_processes_are_counted_for_each_boundary_alone(bubblewrap: BubblewrapBoundary, workspace: Path):
    bomb = (
        "import os, time\nfor n in range(99):\n    try:\n        os.fork() or time.sleep(5) or os._exit(0)\n"
    )
    bomb += "    except BlockingIOError:\n        break\nprint(n, flush=True)\nos.kill(0, 9)\n"
    (workspace / "bomb.py").write_text(bomb)
    counts: list[int] = []

    def one() -> None:
        done = run(bubblewrap, View(workspace), "ulimit -u 40; exec python3 bomb.py")
        counts.append(int(done.stdout))

    threads = [threading.Thread(target=one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counts) == 3
    assert all(30 <= count < 40 for count in counts)


def test_a_huge_file_is_bounded(bubblewrap: BubblewrapBoundary, workspace: Path):
    done = run(bubblewrap, View(workspace), "truncate -s 10G sparse; truncate -s 1G small; ls")
    assert done.stdout == b"small\nsparse\n" or done.stdout == b"small\n"
    assert not (workspace / "sparse").exists() or (workspace / "sparse").stat().st_size == 0


# How it ends.


def test_nothing_changes_the_workspace_after_stop(bubblewrap: BubblewrapBoundary, workspace: Path):
    beats = "setsid bash -c 'while :; do date +%N > beat; done' >/dev/null 2>&1 &"
    line = f"for i in 1 2 3 4; do ({beats}); done; echo up; sleep 60"
    process = bubblewrap.start(["bash", "-c", line], View(workspace))
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    while not (workspace / "beat").exists():
        time.sleep(0.01)
    bubblewrap.stop(process)
    before = (workspace / "beat").stat().st_mtime_ns
    time.sleep(0.1)
    assert (workspace / "beat").stat().st_mtime_ns == before


def test_stop_can_be_called_twice_and_after_the_end(bubblewrap: BubblewrapBoundary, workspace: Path):
    process = bubblewrap.start(["true"], View(workspace))
    assert process.wait(30) == 0
    bubblewrap.stop(process)
    bubblewrap.stop(process)


def test_eight_programs_at_once_share_nothing(bubblewrap: BubblewrapBoundary, workspace: Path):
    seen: list[bytes] = []

    def one(number: int) -> None:
        own = workspace.parent / f"trial-{number}"
        own.mkdir()
        os.chown(own, *workspace_owner())
        line = f"echo {number} > /tmp/mine; echo {number} > mine; sleep 0.3; cat /tmp/* mine; ls /workspace"
        seen.append(run(bubblewrap, View(own), line).stdout)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [f"{number}\n{number}\nmine\n".encode() for number in range(8)]


def test_starting_and_stopping_is_quick(bubblewrap: BubblewrapBoundary, workspace: Path):
    times = []
    for _ in range(5):
        started = time.perf_counter()
        run(bubblewrap, View(workspace), "true")
        times.append(time.perf_counter() - started)
    assert sorted(times)[1] < 0.5


# What it says where it cannot be had.


def test_a_workspace_that_is_not_the_agents_own_is_told(workspace: Path):
    if os.geteuid() == 0:
        os.chown(workspace, 0, 0)
        with pytest.raises(EnvironmentFailure, match="chown -R"):
            check_view(View(workspace))
        check_view(View(workspace, read_only=True))
    with pytest.raises(EnvironmentFailure, match="No such file"):
        check_view(View(workspace / "none"))
    (workspace / "file").write_text("")
    with pytest.raises(EnvironmentFailure, match="not a directory"):
        check_view(View(workspace / "file"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs agents as another uid")
def test_a_place_that_agents_cannot_enter_is_told(workspace: Path):
    workspace.parent.chmod(0o700)
    with pytest.raises(EnvironmentFailure, match=f"chmod o\\+x {workspace.parent}"):
        check_view(View(workspace))


def test_where_there_is_no_sandbox_both_reasons_are_given(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(boundary_module, "probe", lambda: ProbeResult(False, "Operation not permitted"))
    monkeypatch.setattr(
        "refcompare.doctor.namespace_cause", lambda: ("AppArmor forbids it", "sudo apparmor_parser -r x")
    )
    monkeypatch.setattr(
        "refcompare.wordpress.engine.docker_available", lambda: ProbeResult(False, "Docker is not installed.")
    )
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(EnvironmentFailure) as caught:
        find_boundary()
    for part in ("AppArmor forbids it", "`sudo apparmor_parser -r x`", "Docker is not installed."):
        assert part in str(caught.value)
    with pytest.raises(EnvironmentFailure, match="AppArmor"):
        find_boundary("bubblewrap")


def test_docker_is_taken_where_bubblewrap_cannot_be_had(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(
        "refcompare.wordpress.engine.docker_available", lambda: ProbeResult(True, "Docker works")
    )
    assert find_boundary().name == "docker"
    with pytest.raises(UsageError, match="no sandbox 'none'"):
        find_boundary("none")
