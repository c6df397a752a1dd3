"""Images are built once, from any base that can grade, and a build leaves nothing but its image."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from refcompare.errors import EnvironmentFailure
from refcompare.execution.model import Limits
from refcompare.results import Verdict
from refcompare.wordpress.docker import DockerRuntime
from refcompare.wordpress.engine import docker, reap
from refcompare.wordpress.graders import Grader, installed_grader
from refcompare.wordpress.image import Image, ensure_image, find_image, list_images, remove_image
from refcompare.wordpress.php import find_php
from refcompare.wordpress.releases import ensure_release
from refcompare.wordpress.site import Site, ensure_site
from tests.docker.suite import SUITE, reference_of
from tests.docker.support import derived, grading, python

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


def test_an_image_is_built_once(site: Site, grader: Grader, image: Image) -> None:
    said: list[str] = []
    assert ensure_image(site, grader, progress=said.append) == image
    assert said == []
    assert image in list_images()


def test_an_image_of_that_name_that_refcompare_did_not_build_is_not_used(image: Image, tidy: None) -> None:
    with derived(image, "LABEL refcompare.image=nonsense") as other:
        assert find_image(other.reference) is None
    assert find_image("refcompare-worker:none") is None


def test_a_base_may_bring_its_own_php(site: Site, grader: Grader, image: Image, tidy: None) -> None:
    with derived(image, "RUN rm -rf /site /site-content /grader") as base:
        built = ensure_image(site, grader, base=base.reference)
        try:
            assert built.environment == image.environment
            with grading(DockerRuntime(built)) as thread:
                assert thread.grade(SUITE[0], reference_of(SUITE[0]), Limits()).verdict is Verdict.PASS
        finally:
            remove_image(built)
            remove_image(built)  # twice is no error


@pytest.mark.parametrize(
    ("instruction", "series", "message"),
    [
        ("RUN true", "7.4", r"the base image has PHP 8\.\d+\.\d+, not 7\.4; choose another base image"),
        (
            "RUN rm $(command -v php) $(command -v apt-get)",
            None,
            "the base image has neither PHP nor apt-get; choose another base image",
        ),
        (
            "RUN rm /etc/php/*/cli/conf.d/*-pdo_sqlite.ini",
            None,
            r"PHP 8\.\d+\.\d+ of the base image .* lacks the extension pdo_sqlite; choose another image",
        ),
        (
            "RUN rm $(command -v php) && rm -rf /etc/apt/sources.list* && "
            "echo 'deb http://127.0.0.1:9/debian stable main' >/etc/apt/sources.list",
            None,
            "The distribution's packages could not be reached",
        ),
    ],
)
def test_a_base_that_cannot_grade_is_refused_and_leaves_nothing(
    instruction: str, series: str | None, message: str, site: Site, grader: Grader, image: Image, tidy: None
) -> None:
    with (
        derived(image, instruction) as base,
        pytest.raises(EnvironmentFailure, match=message),
    ):
        ensure_image(site, grader, base=base.reference, php=series)


def test_a_base_that_is_nowhere_is_said_to_be(site: Site, grader: Grader, image: Image, tidy: None) -> None:
    with pytest.raises(EnvironmentFailure, match="is not in the engine and cannot be pulled"):
        ensure_image(site, grader, base="refcompare-no-such-base:1")


BUILD = """
import sys
from tests.docker.test_images import build_again
build_again(sys.argv[1])
"""


def build_again(base: str) -> None:
    php = find_php()
    site = ensure_site(ensure_release(), php)
    ensure_image(site, installed_grader(), base=base, progress=lambda line: print(line, flush=True))


def wait_for_quiet(seconds: float = 5) -> None:
    """Wait until no layer comes any more: an engine goes on with the step it is at when its client goes."""
    layers, since = set[str](), time.monotonic()
    while time.monotonic() - since < seconds:
        now = set(docker("images", "--all", "--quiet").split())
        if now != layers:
            layers, since = now, time.monotonic()
        time.sleep(0.5)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_build_leaves_nothing_that_is_not_reaped(
    number: int, image: Image, tidy: None
) -> None:
    with derived(image, f"RUN echo {number} >/number") as base:
        with python(BUILD, base.reference) as process:
            assert process.stdout is not None
            assert any(line.startswith("Adding WordPress") for line in process.stdout)
            time.sleep(1)
            process.send_signal(number)
            process.wait(timeout=60)
        wait_for_quiet()
        reap()


SCRIPT = Path(__file__).parents[2] / "scripts" / "docker-engine"


@pytest.mark.skipif(shutil.which("flock") is None, reason="the script is for Linux")
def test_the_set_up_script_does_nothing_where_an_engine_and_the_image_are_there(
    image: Image, tidy: None
) -> None:
    with derived(image, "RUN true") as base:
        said = subprocess.run(
            ["bash", SCRIPT, base.reference], check=True, capture_output=True, text=True, timeout=120
        ).stdout
    assert "A Docker engine answers already" in said
    assert f"The image {base.reference} is there already" in said
    assert len(said.splitlines()) == 3
