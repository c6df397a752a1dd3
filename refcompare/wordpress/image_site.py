"""A site installed by the PHP of an image, so that a machine with Docker needs no PHP of its own."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterator
from pathlib import Path

from refcompare.errors import EnvironmentFailure
from refcompare.sandbox import UNPRIVILEGED_ID
from refcompare.wordpress.engine import EngineRefused, boundary, docker, ownership_labels
from refcompare.wordpress.image_build import Progress, packed
from refcompare.wordpress.releases import Release
from refcompare.wordpress.site import (
    DATABASE_FILE,
    DATABASE_VARIABLE,
    INSTALL,
    SETTLE,
    Site,
    ensure_site_by,
)
from refcompare.wordpress.store import regular_files

_SECONDS = 300.0
_MEMORY = str(1 << 30)

# Everything goes in and comes out over the container's streams, since the engine may be on another
# machine. WP-CLI looks for its file in the working directory and then in every parent.
_SCRIPT = f"""
set -e
tar -x
mkdir scratch database
cd scratch
: > wp-cli.yml
"$@" >output 2>&1 || {{ tail -c 2000 output >&2; exit 1; }}
php -r {shlex.quote(SETTLE)} >output 2>&1 || {{ tail -c 2000 output >&2; exit 1; }}
php -r 'echo base64_encode(file_get_contents("../database/{DATABASE_FILE}"));'
"""


def ensure_site_in(image: str, release: Release, *, progress: Progress) -> Site:
    """Give an installed site of ``release``, made where there is none yet by the ``php`` of ``image``.

    Raises EnvironmentFailure, with what WordPress said, when the installation fails.
    """

    def install(root: Path, database: Path) -> None:
        command = ["php", "-d", "memory_limit=512M", "../wp-cli.phar", "--path=/making/site", *INSTALL]
        with packed(_files(root, release)) as files:
            try:
                printed = docker(
                    "run", *_options(), image, "-c", _SCRIPT, "sh", *command, stdin=files, timeout=_SECONDS
                )
            except EngineRefused as refused:
                raise EnvironmentFailure(
                    f"WordPress {release.version} was not installed by the PHP of the image: {refused.said}"
                ) from refused
        (database / DATABASE_FILE).write_bytes(base64.b64decode(printed))

    return ensure_site_by(release, install, progress=progress)


def _files(root: Path, release: Release) -> Iterator[tuple[str, Path]]:
    for name, _ in regular_files(root):
        yield f"site/{name}", root / name
    yield "wp-cli.phar", release.wp_cli


def _options() -> list[str]:
    owner = f"uid={UNPRIVILEGED_ID},gid={UNPRIVILEGED_ID},mode=0700"
    environment = {
        "HOME": "/making/scratch",
        "TMPDIR": "/making/scratch",
        DATABASE_VARIABLE: "/making/database",
    }
    options = [
        *boundary(), *ownership_labels(), "--workdir", "/making", "--entrypoint", "/bin/sh",
        "--memory", _MEMORY, "--memory-swap", _MEMORY, "--pids-limit", "64",
        "--tmpfs", f"/making:rw,nosuid,nodev,noexec,size=512m,{owner}",
    ]  # fmt: skip
    for name, value in environment.items():
        options += ["--env", f"{name}={value}"]
    return options
