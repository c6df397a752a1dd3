"""Releases of WordPress: fetched once, verified, kept pristine in the cache."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
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
from refcompare.wordpress.sources.local import LocalSource
from refcompare.wordpress.sources.npm import WORDPRESS_VERSION, NpmSource
from refcompare.wordpress.sources.official import (
    NIGHTLY,
    Endpoints,
    OfficialSource,
    fetch_tools,
    nightly_identity,
)
from refcompare.wordpress.store import content_digest, empty, keep, open_permissions, shape_digest

DEFAULT_VERSION = WORDPRESS_VERSION

_MANIFEST = "release.json"
_MANIFEST_VERSION = 1
_VERSION = re.compile(r"\d{1,3}\.\d{1,3}(\.\d{1,3})?(-(alpha|beta|RC)\d{0,3})?")


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
    return _ensure(_plan(request), progress or _silent, verify=verify)


def find_release(request: str | None = None) -> Release | None:
    """Give the release that ``request`` names if it is in the cache, without using the network.

    ``nightly`` is then the one fetched last. Raises UsageError for a request that names nothing.
    """
    if request == NIGHTLY:
        nightlies = sorted(
            _releases().glob(f"{NIGHTLY}-*/{_MANIFEST}"), key=lambda path: path.stat().st_mtime
        )
        found = (_load(manifest.parent) for manifest in reversed(nightlies))
        return next((release for release in found if release is not None), None)
    return _load(_releases() / _plan(request).name)


def list_releases() -> tuple[Release, ...]:
    """Give every sound release in the cache, in the order of their names."""
    found = (_load(manifest.parent) for manifest in sorted(_releases().glob(f"[!.]*/{_MANIFEST}")))
    return tuple(release for release in found if release is not None)


@dataclass(frozen=True, slots=True)
class _Plan:
    """How to have a release: its ``name`` in the cache, the sources to try, the version it must state."""

    name: str
    sources: tuple[Source, ...]
    version: str | None = None


def _plan(request: str | None) -> _Plan:
    version = request or DEFAULT_VERSION
    if version == NIGHTLY:
        endpoints = Endpoints.from_environment()
        identity, checksum = nightly_identity(endpoints)
        name = f"{NIGHTLY}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
        return _Plan(name, (OfficialSource(NIGHTLY, endpoints, checksum),))
    if _VERSION.fullmatch(version):
        # The first release of a series is published, and states itself, without the zero.
        version = re.sub(r"^(\d+\.\d+)\.0\b", r"\1", version)
        npm = version == WORDPRESS_VERSION and NpmSource.available()
        sources: tuple[Source, ...] = (OfficialSource(version),)
        return _Plan(version, (NpmSource(), *sources) if npm else sources, version)
    path = Path(version).expanduser()
    if not ("/" in version or version.endswith(".zip") or path.exists()):
        raise UsageError(
            f"{version!r} names no WordPress; give a version such as {DEFAULT_VERSION}, {NIGHTLY}, "
            "or the path of an unpacked WordPress or of a zip of one."
        )
    source = LocalSource.at(path.resolve(), _tools)
    return _Plan(f"local-{source.digest[:16]}", (source,))


def _tools(into: Path, progress: Progress) -> None:
    """Put the SQLite plugin and WP-CLI beside a WordPress that came without them.

    They come from a release that is here already, else from where the default release would.
    """
    cached = find_release() or next(iter(list_releases()), None)
    if cached is None and NpmSource.available():
        try:
            cached = ensure_release(progress=progress)
        except EnvironmentFailure as failure:
            raise SourceFailure(str(failure)) from failure
    if cached is None:
        fetch_tools(into, Endpoints.from_environment(), progress)
        return
    shutil.copytree(cached.sqlite_plugin, into / PLUGIN)
    shutil.copyfile(cached.wp_cli, into / WP_CLI)
    open_permissions(into)


def _releases() -> Path:
    return cache_directory() / "releases"


def _ensure(plan: _Plan, progress: Progress, *, verify: bool) -> Release:
    def load(directory: Path) -> Release | None:
        return _load(directory, verify=verify)

    def build(partial: Path) -> None:
        failures = []
        for source in plan.sources:
            try:
                source.fetch(partial, progress)
                _finish(partial, source.name, plan.version)
            except SourceFailure as failure:
                said = str(failure)
                failures.append(said if source.name in said else f"{source.name}: {said}")
                empty(partial)
            else:
                return
        raise EnvironmentFailure(
            f"WordPress {plan.version or plan.name} could not be had. {' '.join(failures)} "
            "Mend that and run again, or name a copy that you have by its path."
        )

    return keep(_releases() / plan.name, load, build, progress)


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


def _silent(message: str) -> None:
    """Take a progress sentence and say nothing."""
