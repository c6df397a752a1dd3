"""Releases of WordPress: fetched once, verified, kept pristine in the cache."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.paths import cache_directory
from refcompare.wordpress.sources.interface import (
    CORE,
    PLUGIN,
    WP_CLI,
    Progress,
    Source,
    SourceFailure,
    read_version,
)
from refcompare.wordpress.sources.npm import WORDPRESS_VERSION, NpmSource
from refcompare.wordpress.store import content_digest, keep, remove, shape_digest

DEFAULT_VERSION = WORDPRESS_VERSION

_MANIFEST = "release.json"
_MANIFEST_VERSION = 1
_VERSION = re.compile(r"\d{1,3}\.\d{1,3}(\.\d{1,3})?(-[A-Za-z]+[0-9.]*)?")


@dataclass(frozen=True, slots=True)
class Release:
    """A pristine WordPress with what it takes to install it on SQLite.

    ``core`` holds ``wp-load.php``; ``sqlite_plugin`` is the plugin's directory and ``wp_cli`` a phar.
    ``digest`` is a hex SHA-256 over the content of all three, the same on every machine and from
    whichever ``source`` they came.
    """

    version: str
    core: Path
    sqlite_plugin: Path
    wp_cli: Path
    digest: str
    source: str


def ensure_release(
    request: str | None = None, *, progress: Callable[[str], None] | None = None, verify: bool = False
) -> Release:
    """Give the release that ``request`` names, fetching it into the cache when it is not there.

    ``request`` is a version number, ``nightly``, the path of an unpacked WordPress or of a zip, or
    None for DEFAULT_VERSION. ``progress`` gets a sentence for each slow step. A cached release is
    checked by its names and sizes, with ``verify`` by its bytes, and fetched again when damaged.
    Raises UsageError for a request that names nothing, EnvironmentFailure when no source has it.
    """
    say = progress or _silent
    version = request or DEFAULT_VERSION
    if not _VERSION.fullmatch(version):
        raise UsageError(f"{version!r} is no WordPress version.")
    return _ensure(version, version, _sources(version), say, verify)


def list_releases() -> tuple[Release, ...]:
    """Give every sound release in the cache, in the order of their names."""
    directory = _releases()
    if not directory.is_dir():
        return ()
    found = (_load(path) for path in sorted(directory.iterdir()) if not path.name.startswith("."))
    return tuple(release for release in found if release is not None)


def _releases() -> Path:
    return cache_directory() / "releases"


def _sources(version: str) -> Sequence[Source]:
    sources: list[Source] = []
    if version == WORDPRESS_VERSION and NpmSource.available():
        sources.append(NpmSource())
    return sources


def _ensure(
    name: str, version: str | None, sources: Sequence[Source], progress: Progress, verify: bool
) -> Release:
    def load(directory: Path) -> Release | None:
        return _load(directory, verify=verify)

    def build(partial: Path) -> None:
        failures = []
        for source in sources:
            try:
                source.fetch(partial, progress)
                _finish(partial, source.name, version)
            except SourceFailure as failure:
                failures.append(f"{source.name}: {failure}")
                _empty(partial)
            else:
                return
        raise EnvironmentFailure(f"WordPress {version or name} could not be fetched. {' '.join(failures)}")

    return keep(_releases() / name, load, build, progress)


def _finish(partial: Path, source: str, version: str | None) -> None:
    """Check that a fetched release is whole and write its manifest."""
    for part in (f"{PLUGIN}/load.php", f"{PLUGIN}/db.copy", WP_CLI):
        if not (partial / part).is_file():
            raise SourceFailure(f"it has no {part}.")
    stated = read_version(partial / CORE)
    if version is not None and stated != version:
        raise SourceFailure(f"it is WordPress {stated}, not {version}.")
    manifest = {
        "manifest": _MANIFEST_VERSION,
        "version": stated,
        "source": source,
        "digest": content_digest(partial),
        "shape": shape_digest(partial),
    }
    (partial / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    (partial / _MANIFEST).chmod(0o644)


def _load(directory: Path, *, verify: bool = False) -> Release | None:
    """Give the cached release in ``directory``, None where there is none or it is damaged."""
    try:
        manifest = json.loads((directory / _MANIFEST).read_text())
        if manifest["manifest"] != _MANIFEST_VERSION:
            return None
        if shape_digest(directory, without=_MANIFEST) != manifest["shape"]:
            return None
        if verify and content_digest(directory, without=_MANIFEST) != manifest["digest"]:
            return None
        return Release(
            version=str(manifest["version"]),
            core=directory / CORE,
            sqlite_plugin=directory / PLUGIN,
            wp_cli=directory / WP_CLI,
            digest=str(manifest["digest"]),
            source=str(manifest["source"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _empty(directory: Path) -> None:
    for path in directory.iterdir():
        if path.is_dir():
            remove(path)
        else:
            path.unlink()


def _silent(message: str) -> None:
    """Take a progress sentence and say nothing."""
