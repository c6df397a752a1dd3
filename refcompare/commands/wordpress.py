"""``refcompare wordpress``: releases of WordPress, and the images of workers."""

from __future__ import annotations

import json
from typing import TextIO

from refcompare.errors import EnvironmentFailure
from refcompare.progress import Reporter


def fetch_wordpress(release: str | None, quiet: bool, out: TextIO) -> int:
    """Fetch a release, and install it once where this machine has a PHP (a worker image has its own)."""
    from refcompare.wordpress.php import find_php
    from refcompare.wordpress.releases import ensure_release
    from refcompare.wordpress.site import ensure_site

    with Reporter(quiet=quiet) as reporter:
        fetched = ensure_release(release, progress=reporter.say)
        try:
            php = find_php()
        except EnvironmentFailure as failure:
            reporter.say(f"It is not installed yet, but --runtime docker needs no more: {failure}")
        else:
            ensure_site(fetched, php, progress=reporter.say)
    described = f"WordPress {fetched.version} is ready; its files are in {fetched.core}"
    out.write(f"{fetched.core if quiet else described}\n")
    return 0


def list_wordpress(as_json: bool, out: TextIO) -> int:
    """List what has been fetched."""
    from refcompare.wordpress.releases import list_releases

    releases = list_releases()
    if as_json:
        shown = [
            {
                "version": release.version,
                "source": release.source,
                "path": str(release.core),
                "digest": release.digest,
            }
            for release in releases
        ]
        out.write(json.dumps({"releases": shown}, indent=2) + "\n")
    elif not releases:
        out.write("No release has been fetched: run `refcompare wordpress fetch`.\n")
    for release in () if as_json else releases:
        out.write(f"{release.version}  {release.source}  {release.core}\n")
    return 0


def wordpress_directory(release: str | None, out: TextIO) -> int:
    """Print where a release lies."""
    from refcompare.wordpress.releases import ensure_release

    with Reporter() as reporter:
        out.write(f"{ensure_release(release, progress=reporter.say).core}\n")
    return 0


def build_image(
    release: str | None, base: str | None, php: str | None, fresh: bool, quiet: bool, out: TextIO
) -> int:
    """Build a worker image, unless the engine has it."""
    from refcompare.wordpress.graders import installed_grader
    from refcompare.wordpress.image import DEFAULT_BASE, ensure_image
    from refcompare.wordpress.releases import ensure_release

    with Reporter(quiet=quiet) as reporter:
        image = ensure_image(
            ensure_release(release, progress=reporter.say),
            installed_grader(),
            base=base or DEFAULT_BASE,
            php=php,
            progress=reporter.say,
            fresh=fresh,
        )
    found = image.environment
    described = f"  WordPress {found.wordpress}, PHP {found.php}, SQLite {found.sqlite}"
    out.write(f"{image.reference}{'' if quiet else described}\n")
    return 0


def list_worker_images(out: TextIO) -> int:
    """List the worker images that the engine has."""
    from refcompare.wordpress.image import list_images

    images = list_images()
    for image in images:
        found = image.environment
        out.write(f"{image.reference}  WordPress {found.wordpress}, PHP {found.php}, SQLite {found.sqlite}\n")
    if not images:
        out.write("There is no worker image: run `refcompare wordpress image build`.\n")
    return 0
