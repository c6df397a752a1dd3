"""What the tests that need a real WordPress share: one PHP, one release, one installed site, two runtimes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from refcompare.errors import EnvironmentFailure
from refcompare.wordpress.docker import DockerRuntime
from refcompare.wordpress.engine import docker_available
from refcompare.wordpress.graders import Grader, installed_grader
from refcompare.wordpress.image import Image, ensure_image
from refcompare.wordpress.native import NativeRuntime
from refcompare.wordpress.php import Php, find_php
from refcompare.wordpress.releases import Release, ensure_release
from refcompare.wordpress.site import Site, ensure_site

REQUIRED = os.environ.get("REFCOMPARE_REQUIRE_WORDPRESS") == "1"


@contextmanager
def skipped_without_wordpress() -> Iterator[None]:
    """Skip what this machine cannot run, unless REFCOMPARE_REQUIRE_WORDPRESS=1 makes that an error."""
    try:
        yield
    except EnvironmentFailure as failure:
        if REQUIRED:
            raise
        pytest.skip(f"no real WordPress here: {failure}")


@pytest.fixture(scope="session")
def php() -> Php:
    """The PHP that grades."""
    with skipped_without_wordpress():
        return find_php()


@pytest.fixture(scope="session")
def release() -> Release:
    """The default release of WordPress, in the user's cache."""
    with skipped_without_wordpress():
        return ensure_release()


@pytest.fixture(scope="session")
def site(release: Release, php: Php) -> Site:
    """The default release installed, in the user's cache; never to be written to."""
    with skipped_without_wordpress():
        return ensure_site(release, php)


@pytest.fixture(scope="session")
def grader() -> Grader:
    """The grader that ships."""
    return installed_grader()


@pytest.fixture(scope="session")
def native_runtime(site: Site, php: Php, grader: Grader) -> NativeRuntime:
    """Workers in bubblewrap, on the machine's PHP."""
    return NativeRuntime(site, php, grader)


@pytest.fixture(scope="session")
def engine() -> Iterator[None]:
    """Skip where no engine answers, unless REFCOMPARE_REQUIRE_DOCKER=1 makes that a failure.

    Tests look at everything that refcompare has in an engine, so one run at a time.
    """
    answer = docker_available()
    if not answer.works and os.environ.get("REFCOMPARE_REQUIRE_DOCKER") == "1":
        pytest.fail(answer.message)
    if not answer.works:
        pytest.skip(answer.message)
    with FileLock(Path(tempfile.gettempdir()) / "refcompare-docker-tests.lock"):
        yield


@pytest.fixture(scope="session")
def image(engine: None, site: Site, grader: Grader) -> Image:
    """The default image. It stays in the engine, as WordPress stays in the cache."""
    return ensure_image(site, grader, progress=print)


@pytest.fixture(scope="session")
def docker_runtime(image: Image) -> DockerRuntime:
    """Workers in containers."""
    return DockerRuntime(image)
