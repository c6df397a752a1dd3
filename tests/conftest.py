"""What the tests that need a real WordPress share: one PHP, one release, one installed site."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from refcompare.errors import EnvironmentFailure
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
