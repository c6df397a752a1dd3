"""Docker and Python are all that grading needs: a machine without PHP, bubblewrap and npm."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from refcompare.demo import build_repository
from refcompare.wordpress.graders import Grader
from refcompare.wordpress.image import Image, find_image, image_reference, remove_image
from refcompare.wordpress.releases import Release
from refcompare.wordpress.site import Site
from tests.docker.support import derived

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


@pytest.fixture
def bare(tmp_path_factory: pytest.TempPathFactory, release: Release, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with git and docker alone, and a cache that holds a release of WordPress and no site."""
    place = tmp_path_factory.mktemp("bare")
    programs = place / "bin"
    programs.mkdir()
    for name in ("git", "docker"):
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    releases = release.core.parent.parent
    shutil.copytree(releases, place / "cache" / releases.name)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("REFCOMPARE_CACHE_DIR", str(place / "cache"))
    return place


def refcompare(*arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "refcompare", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=500, check=False
    )


def test_a_machine_without_php_builds_an_image_with_a_site_of_its_own(
    bare: Path, image: Image, release: Release, site: Site, grader: Grader, tidy: None
) -> None:
    with derived(image, "RUN rm -rf /site /site-content /grader /snapshot.sqlite") as base:
        done = refcompare("wordpress", "image", "build", "--base", base.reference, directory=bare)
        assert done.returncode == 0, done.stderr
        assert f"Installing WordPress {release.version}" in done.stderr
        built = find_image(image_reference(release, grader, base=base.reference))
        assert built is not None
        remove_image(built)
    assert built.environment == image.environment
    (made,) = (bare / "cache" / "sites").glob("*/database/wordpress.sqlite")
    assert contents(made) == contents(site.database)


def contents(database: Path) -> list[object]:
    """All rows of a site, but for what depends on when and by which hash salt it was made."""
    connection = sqlite3.connect(f"file:{database}?mode=ro&immutable=1", uri=True)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    rows = [
        (name, connection.execute(f'SELECT count(*) FROM "{name}"').fetchall()) for name in sorted(tables)
    ]
    options = "SELECT option_name, option_value FROM wp_options WHERE option_name NOT IN (?, ?) ORDER BY 1"
    rows += connection.execute(options, ("admin_email_lifespan", "cron")).fetchall()
    schema = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY 1").fetchall()
    connection.close()
    return [*rows, *schema]


def test_a_machine_without_php_grades_and_its_doctor_says_that_it_can(bare: Path, image: Image) -> None:
    build_repository(bare / "demo")
    for runtime in ("docker", "auto"):
        done = refcompare(
            "run", "base", "--runtime", runtime, "--limit", "2", "--json", directory=bare / "demo"
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["environment"]["runtime"] == "docker"
    assert not (bare / "cache" / "sites").exists()
    said = refcompare("doctor", directory=bare)
    assert said.returncode == 0, said.stdout
    assert "only --runtime native needs it" in said.stdout
