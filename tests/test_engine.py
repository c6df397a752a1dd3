"""What the docker command says becomes one sentence with what to do. Needs no engine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from refcompare.errors import UsageError
from refcompare.wordpress import engine
from refcompare.wordpress.engine import (
    EngineRefused,
    EngineUnreachable,
    docker,
    docker_after_restart,
    docker_available,
    failure_of,
)
from refcompare.wordpress.graders import Grader
from refcompare.wordpress.image import image_reference
from refcompare.wordpress.releases import Release
from refcompare.wordpress.site import Site

NO_DAEMON = (
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
)


@pytest.fixture
def fake_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A docker command whose script the test writes; it stands for engines that cannot be had here."""
    command = tmp_path / "docker"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(engine._Patience, "left", False)
    return command


def write(command: Path, script: str) -> None:
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (NO_DAEMON, "No Docker engine answers: start "),
        (
            "permission denied while trying to connect to the Docker daemon socket at unix:///x: Get y",
            "No Docker engine answers: this user may not use it; run `sudo usermod -aG docker",
        ),
        ('error during connect: Get "http://host:2375/v1.41/ping": EOF', "No Docker engine answers"),
    ],
)
def test_an_engine_that_cannot_be_reached_is_told_from_one_that_refuses(said: str, message: str) -> None:
    failure = failure_of("docker create", f"{said}\nSee 'docker create --help'.\n")
    assert isinstance(failure, EngineUnreachable)
    assert message in str(failure)


def test_a_full_disk_is_called_one() -> None:
    said = "write /var/lib/docker/tmp/x: no space left on device"
    failure = failure_of("docker build", f"Sending build context\n{said}\n")
    assert isinstance(failure, EngineRefused)
    assert "The disk of the Docker engine is full" in str(failure)
    assert failure.said == said


def test_a_refusal_tells_the_engines_last_word_and_not_the_usage() -> None:
    failure = failure_of("docker create", "Error: No such image: x\nSee 'docker create --help'.\n")
    assert str(failure) == "The Docker engine refused `docker create`: Error: No such image: x"
    assert "it gave no reason" in str(failure_of("docker rm", ""))


def test_an_engine_that_hangs_is_unreachable(fake_docker: Path) -> None:
    write(fake_docker, "exec sleep 30")
    with pytest.raises(EngineUnreachable, match=r"did not answer `docker ps` within 0\.2 s"):
        docker("ps", timeout=0.2)


def test_windows_containers_are_refused(fake_docker: Path) -> None:
    write(fake_docker, "echo 28.0.1 windows")
    answer = docker_available()
    assert (answer.works, "switch it to Linux containers" in answer.message) == (False, True)
    write(fake_docker, "echo 28.0.1 linux")
    assert docker_available().works


def test_an_engine_that_restarts_is_waited_for_and_one_that_never_answered_is_not(
    fake_docker: Path, tmp_path: Path
) -> None:
    away = f"[ -e {tmp_path}/back ] && exec echo here; touch {tmp_path}/back; echo '{NO_DAEMON}' >&2; exit 1"
    write(fake_docker, away)
    with pytest.raises(EngineUnreachable):
        docker_after_restart("ps")
    assert docker_after_restart("ps") == "here"
    (tmp_path / "back").unlink()
    assert docker_after_restart("ps") == "here"


def site_of(digest: str) -> Site:
    nowhere = Path("nowhere")
    release = Release("7.1.1", nowhere, nowhere, nowhere, "a" * 64, "test")
    return Site(release, nowhere, nowhere, digest)


def test_an_images_name_tells_everything_that_went_into_it() -> None:
    site, grader = site_of("b" * 64), Grader(Path("nowhere"), "c" * 64)
    names = {
        image_reference(site, grader),
        image_reference(site_of("d" * 64), grader),
        image_reference(site, Grader(Path("nowhere"), "e" * 64)),
        image_reference(site, grader, base="debian:trixie-slim"),
        image_reference(site, grader, php="8.3"),
    }
    assert len(names) == 5
    assert image_reference(site, Grader(Path("elsewhere"), "c" * 64)) in names
    assert all(name.startswith("refcompare-worker:") for name in names)


@pytest.mark.parametrize("base", ["", "-v /:/host", "a b", "a\nRUN true", "x" * 300])
def test_a_base_that_is_no_image_name_is_a_usage_error(base: str) -> None:
    with pytest.raises(UsageError, match="is not the name of an image"):
        image_reference(site_of("b" * 64), Grader(Path("nowhere"), "c" * 64), base=base)


@pytest.mark.parametrize("series", ["8", "latest", "8.2.1", "8.2; rm -rf /"])
def test_a_php_that_is_no_series_is_a_usage_error(series: str) -> None:
    with pytest.raises(UsageError, match="is not a series of PHP"):
        image_reference(site_of("b" * 64), Grader(Path("nowhere"), "c" * 64), php=series)
