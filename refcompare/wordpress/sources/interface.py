"""What every source of a release answers, and the shape of what it fills."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from refcompare.errors import EnvironmentFailure

CORE = "core"
PLUGIN = "sqlite-database-integration"
WP_CLI = "wp-cli.phar"

SQLITE_PLUGIN_VERSION = "3.0.2"
WP_CLI_VERSION = "2.12.0"

Progress = Callable[[str], None]
"""Takes one plain sentence for the person who waits."""

_CONTENT = re.compile(r"wp-content/(index\.php|plugins/index\.php|themes/.+)")
_TOP_LEVEL = re.compile(r"[A-Za-z0-9._-]+\.(php|txt|html)")


class SourceFailure(EnvironmentFailure):
    """One source could not give the release; another one may."""


class Source(Protocol):
    """One place that holds WordPress together with the SQLite plugin and WP-CLI."""

    @property
    def name(self) -> str:
        """What is fetched from where, for a sentence such as ``from NAME``."""

    def fetch(self, into: Path, progress: Progress) -> None:
        """Fill the empty directory ``into`` with ``core/``, the SQLite plugin and ``wp-cli.phar``.

        Everything is verified before it is unpacked. Raises SourceFailure; ``into`` is then
        half filled and thrown away by the caller.
        """


def belongs_to_core(path: str) -> bool:
    """Say whether ``path``, relative to WordPress's root, is part of a pristine WordPress.

    Everything else is left out, from every source alike: bundled plugins, and what a used
    installation collects (its configuration, uploads, drop-ins, caches, a version control
    directory), so that a site holds no plugin but the database drop-in.
    """
    segments = path.split("/")
    if ".git" in segments or "node_modules" in segments:
        return False
    if segments[0] in {"wp-admin", "wp-includes"}:
        return len(segments) > 1
    if segments[0] == "wp-content":
        return _CONTENT.fullmatch(path) is not None
    return path != "wp-config.php" and _TOP_LEVEL.fullmatch(path) is not None


def read_version(core: Path) -> str:
    """Give the version that a WordPress directory states. Raises SourceFailure if it states none."""
    if not (core / "wp-load.php").is_file():
        raise SourceFailure(f"{core} is no WordPress: it has no wp-load.php.")
    try:
        text = (core / "wp-includes" / "version.php").read_text("utf-8", errors="replace")
    except OSError as error:
        raise SourceFailure(f"{core} is no WordPress: wp-includes/version.php: {error.strerror}.") from error
    match = re.search(r"^\s*\$wp_version\s*=\s*['\"]([A-Za-z0-9.+-]{1,64})['\"]\s*;", text, re.MULTILINE)
    if match is None:
        raise SourceFailure(f"{core} is no WordPress: wp-includes/version.php states no version.")
    return match[1]
