"""No container, volume, network or file stays, however a worker or refcompare itself ends."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from refcompare.demo import build_repository
from refcompare.errors import EnvironmentFailure
from refcompare.execution.model import Candidate, Limits
from refcompare.results import ErrorKind, Verdict
from refcompare.wordpress import engine
from refcompare.wordpress.docker import DockerRuntime
from refcompare.wordpress.engine import docker, docker_available, reap
from refcompare.wordpress.image import Image
from refcompare.wordpress.owners import this_process
from tests.docker.support import PASSES, grading, python, until

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


def my_containers() -> list[str]:
    return docker("ps", "--all", "--quiet", "--filter", f"label=refcompare.owner={this_process()}").split()


def test_a_closed_worker_leaves_nothing(runtime: DockerRuntime, tidy: None) -> None:
    before = set(my_containers())
    with grading(runtime) as thread:
        assert thread.grade(PASSES, Candidate("reference"), Limits()).verdict is Verdict.PASS
        assert len(set(my_containers()) - before) == 1
    assert set(my_containers()) == before


def test_a_worker_may_be_stopped_twice_and_before_it_has_booted(runtime: DockerRuntime, tidy: None) -> None:
    process = runtime.start()
    runtime.stop(process)
    runtime.stop(process)
    assert process.poll() is not None


def test_a_container_killed_under_a_candidate_costs_a_second_try_only(
    runtime: DockerRuntime, tidy: None
) -> None:
    before = set(my_containers())

    def kill() -> None:
        time.sleep(0.5)
        docker("kill", *(set(my_containers()) - before))

    with grading(runtime) as thread:
        assert thread.grade(PASSES, Candidate("reference"), Limits()).verdict is Verdict.PASS
        (first,) = set(my_containers()) - before
        killer = threading.Thread(target=kill)
        killer.start()
        record = thread.grade(PASSES, Candidate("reference", "sleep( 3 );"), Limits())
        killer.join()
        assert record.verdict is Verdict.PASS, record
        assert first not in my_containers()


CHILD = """
import sys
from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, Limits
from refcompare.wordpress.docker import DockerRuntime
from refcompare.wordpress.image import find_image
from tests.docker.support import PASSES
thread = GradingThread(DockerRuntime(find_image(sys.argv[1])))
try:
    thread.grade(PASSES, Candidate("reference"), Limits())
    print("graded", flush=True)
    thread.grade(PASSES, Candidate("reference", sys.argv[2]), Limits(seconds=60))
    print("ended", flush=True)
    sys.stdin.read()
finally:
    thread.close()
"""


@contextlib.contextmanager
def another_refcompare(image: Image, code: str) -> Iterator[subprocess.Popen[str]]:
    """A refcompare process that has graded one candidate and works on the next one."""
    with python(CHILD, image.reference, code) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "graded\n"
        yield process


def containers_of(process: subprocess.Popen[str]) -> list[str]:
    form = '{{.ID}} {{.Label "refcompare.owner"}}'
    listed = docker("ps", "--all", "--filter", "label=refcompare=worker", "--format", form)
    return [line.split()[0] for line in listed.splitlines() if line.split("/")[1] == str(process.pid)]


def test_what_a_killed_refcompare_leaves_running_is_reaped(image: Image, tidy: None) -> None:
    with another_refcompare(image, "while ( true ) {}") as process:
        time.sleep(0.5)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len(containers_of(process)) == 1
    assert reap() >= 1
    assert containers_of(process) == []


def test_an_idle_worker_of_a_killed_refcompare_ends_by_itself(image: Image, tidy: None) -> None:
    with another_refcompare(image, "") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ended\n"
        assert len(containers_of(process)) == 1
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert until(lambda: containers_of(process) == [])


def test_ctrl_c_ends_the_worker_in_the_middle_of_a_candidate(image: Image, tidy: None) -> None:
    with another_refcompare(image, "while ( true ) {}") as process:
        time.sleep(0.5)
        assert len(containers_of(process)) == 1
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)
        assert containers_of(process) == []


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_run_that_is_interrupted_or_killed_leaves_nothing_that_is_not_reaped(
    number: signal.Signals, status: int, image: Image, tidy: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    demo = tmp_path_factory.mktemp("leftovers") / "demo"
    build_repository(demo)
    command = [
        sys.executable,
        "-m",
        "refcompare",
        "audit",
        "head",
        "--runtime",
        "docker",
        "--fresh",
        "--quiet",
    ]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        command, cwd=demo, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert until(lambda: containers_of(process) != [])
        time.sleep(1.5)
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(timeout=60) == status
    finally:
        process.kill()
        process.wait()
    if number == signal.SIGKILL:
        reap()
    assert until(lambda: containers_of(process) == [], seconds=5)


def test_workers_of_a_living_refcompare_are_not_reaped(image: Image, tidy: None) -> None:
    with another_refcompare(image, "sleep( 60 );") as process:
        reap()
        assert len(containers_of(process)) == 1
    reap()


def test_an_engine_that_does_not_answer_is_said_with_the_command_that_starts_it(
    image: Image, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
        patch.setattr(engine._Patience, "left", False)
        answer = docker_available()
        with grading(DockerRuntime(image)) as thread:
            record = thread.grade(PASSES, Candidate("reference"), Limits())
    assert not answer.works
    assert "start it with `sudo " in answer.message or "Docker Desktop" in answer.message
    assert (record.verdict, record.error_kind) == (Verdict.ERROR, ErrorKind.INFRASTRUCTURE)
    assert "No Docker engine answers" in str(record.message)


def test_a_machine_without_docker_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        assert "Docker is not installed" in docker_available().message


def test_an_image_that_was_removed_since_is_named_in_the_error(image: Image, tidy: None) -> None:
    gone = dataclasses.replace(image, id="sha256:" + "0" * 64)
    with pytest.raises(EnvironmentFailure, match="is no longer there: build it with"):
        DockerRuntime(gone).start()
