"""What an engine can do to a run: it goes away, comes back, kills containers, has no space left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from refcompare.errors import EnvironmentFailure
from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, Limits
from refcompare.results import ErrorKind, Verdict
from refcompare.wordpress import engine as engine_module
from refcompare.wordpress.docker import DockerRuntime
from refcompare.wordpress.engine import docker, reap
from refcompare.wordpress.graders import Grader
from refcompare.wordpress.image import Image, ensure_image
from refcompare.wordpress.site import Site
from tests.docker.private_engine import PrivateEngine, private_engine
from tests.docker.support import PASSES, grading, until

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def private(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateEngine]:
    with private_engine(tmp_path_factory.mktemp("engine"), "2g") as engine:
        engine.load(image.reference)
        yield engine


@pytest.fixture
def thread(private: PrivateEngine, image: Image, monkeypatch: pytest.MonkeyPatch) -> Iterator[GradingThread]:
    """Workers in the private engine, one of which has graded already."""
    monkeypatch.setenv("DOCKER_HOST", private.host)
    with grading(DockerRuntime(image)) as thread:
        assert thread.grade(PASSES, Candidate("reference"), Limits()).verdict is Verdict.PASS
        yield thread


@contextmanager
def meanwhile(act: Callable[[], None], after: float = 1.0) -> Iterator[None]:
    """Do something while a candidate runs."""

    def wait_and_act() -> None:
        time.sleep(after)
        act()

    actor = threading.Thread(target=wait_and_act)
    actor.start()
    try:
        yield
    finally:
        actor.join()


def left() -> list[str]:
    """Containers and volumes, whoever they belong to: nobody else uses this engine."""
    return docker("ps", "--all", "--quiet").split() + docker("volume", "ls", "--quiet").split()


def test_a_candidate_is_graded_anew_when_the_engine_was_restarted_under_it(
    thread: GradingThread, private: PrivateEngine
) -> None:
    def restart() -> None:
        private.kill()
        time.sleep(1)
        private.start()

    with meanwhile(restart):
        record = thread.grade(PASSES, Candidate("reference", "sleep( 3 );"), Limits())
    assert record.verdict is Verdict.PASS, record
    thread.close()
    # An engine that was restarted forgets the volumes of what it removes.
    assert until(lambda: bool(reap() or not left()), seconds=20), left()
    reap()
    assert left() == []


def test_an_engine_that_stays_away_is_named_and_nobodys_verdict(
    thread: GradingThread, private: PrivateEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "_RESTART_SECONDS", 2.0)
    with meanwhile(private.kill):
        record = thread.grade(PASSES, Candidate("reference", "sleep( 3 );"), Limits())
    assert (record.verdict, record.error_kind) == (Verdict.ERROR, ErrorKind.INFRASTRUCTURE)
    assert "No Docker engine answers" in str(record.message)
    private.start()
    record = thread.grade(PASSES, Candidate("reference"), Limits())
    assert record.verdict is Verdict.PASS, record


def test_a_container_that_is_killed_twice_is_nobodys_verdict(thread: GradingThread) -> None:
    done = threading.Event()

    def kill() -> None:
        while not done.wait(0.5):
            for container in docker("ps", "--quiet").split():
                try:
                    docker("kill", container)
                except EnvironmentFailure:
                    continue

    with meanwhile(kill):
        record = thread.grade(PASSES, Candidate("reference", "sleep( 8 );"), Limits())
        done.set()
    assert (record.verdict, record.error_kind) == (Verdict.ERROR, ErrorKind.INFRASTRUCTURE), record
    assert thread.grade(PASSES, Candidate("reference"), Limits()).verdict is Verdict.PASS


def test_a_paused_container_is_replaced(thread: GradingThread) -> None:
    def pause() -> None:
        docker("pause", *docker("ps", "--quiet").split())

    with meanwhile(pause):
        record = thread.grade(PASSES, Candidate("reference", "sleep( 2 );"), Limits(seconds=4))
    assert record.verdict is Verdict.PASS, record


def test_a_full_disk_is_named_with_what_to_do(
    image: Image, site: Site, grader: Grader, tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    with private_engine(tmp_path_factory.mktemp("full"), "2g") as engine:
        engine.load(image.reference)
        monkeypatch.setenv("DOCKER_HOST", engine.host)
        engine.fill()
        with grading(DockerRuntime(image)) as thread:
            record = thread.grade(PASSES, Candidate("reference"), Limits())
        assert (record.verdict, record.error_kind) == (Verdict.ERROR, ErrorKind.INFRASTRUCTURE)
        assert "The disk of the Docker engine is full" in str(record.message), record.message
        with pytest.raises(EnvironmentFailure, match="The disk of the Docker engine is full"):
            ensure_image(site, grader, base=image.reference)
