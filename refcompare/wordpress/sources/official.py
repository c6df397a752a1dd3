"""Releases from where WordPress, the SQLite plugin and WP-CLI publish them."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from refcompare.wordpress.sources.archives import unpack_zip, zip_names
from refcompare.wordpress.sources.download import Checksum, NotFound, download, published_checksum, validators
from refcompare.wordpress.sources.interface import (
    CORE,
    PLUGIN,
    WP_CLI,
    Progress,
    SourceFailure,
    belongs_to_core,
)

NIGHTLY = "nightly"

# Version 3.0.2 is published as two zips, by the plugin's project and by WordPress's plugin
# directory; each has its own digest, and either is good at any address.
SQLITE_PLUGIN_SHA256 = (
    "a7c506b95283e90544aa9dcf0096cb5a5eea4afd7d690ae350940a50654c8bfd",
    "1602e75577ad9b3a7e3e4a6a44a81b9541cdee2124d48928faf61c6fd3cd4f74",
)
SQLITE_PLUGIN_URLS = (
    "https://github.com/WordPress/sqlite-database-integration/releases/download/v3.0.2/"
    "plugin-sqlite-database-integration.zip",
    "https://downloads.wordpress.org/plugin/sqlite-database-integration.3.0.2.zip",
)
WP_CLI_SHA512 = (
    "be928f6b8ca1e8dfb9d2f4b75a13aa4aee0896f8a9a0a1c45cd5d2c98605e617"
    "2e6d014dda2e27f88c98befc16c040cbb2bd1bfa121510ea5cdf5f6a30fe8832"
)
WP_CLI_URL = "https://github.com/wp-cli/wp-cli/releases/download/v2.12.0/wp-cli-2.12.0.phar"

_CORE_BYTES = 256 * 1024 * 1024
_TOOL_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where to fetch from. Environment variables name mirrors; digests stay the same there.

    ``releases`` holds ``wordpress-VERSION.zip`` (REFCOMPARE_WORDPRESS_URL); ``nightly``
    (REFCOMPARE_NIGHTLY_URL), ``sqlite_plugin`` (REFCOMPARE_SQLITE_PLUGIN_URL, else several that are
    tried in order) and ``wp_cli`` (REFCOMPARE_WP_CLI_URL) are the files themselves.
    """

    releases: str = "https://downloads.wordpress.org/release"
    nightly: str = "https://wordpress.org/nightly-builds/wordpress-latest.zip"
    sqlite_plugin: tuple[str, ...] = SQLITE_PLUGIN_URLS
    wp_cli: str = WP_CLI_URL

    @classmethod
    def from_environment(cls) -> Endpoints:
        """Give the endpoints with what the environment replaces."""
        default = cls()
        plugin = os.environ.get("REFCOMPARE_SQLITE_PLUGIN_URL")
        return cls(
            releases=os.environ.get("REFCOMPARE_WORDPRESS_URL") or default.releases,
            nightly=os.environ.get("REFCOMPARE_NIGHTLY_URL") or default.nightly,
            sqlite_plugin=(plugin,) if plugin else default.sqlite_plugin,
            wp_cli=os.environ.get("REFCOMPARE_WP_CLI_URL") or default.wp_cli,
        )

    def archive(self, version: str) -> str:
        """Give the address of WordPress's zip for a version number or ``nightly``."""
        return self.nightly if version == NIGHTLY else f"{self.releases.rstrip('/')}/wordpress-{version}.zip"


@dataclass(frozen=True, slots=True)
class OfficialSource:
    """WordPress ``version`` (a number, or ``nightly``) with the tools, each from its publisher.

    ``checksum`` is what the zip must have; None to look for the published one.
    """

    version: str
    endpoints: Endpoints = field(default_factory=Endpoints.from_environment)
    checksum: Checksum | None = None

    @property
    def name(self) -> str:
        """The zip's address."""
        return self.endpoints.archive(self.version)

    def fetch(self, into: Path, progress: Progress) -> None:
        """Fill ``into``, see Source."""
        with tempfile.TemporaryDirectory(dir=into, prefix=".download-") as scratch:
            archive = Path(scratch) / "wordpress.zip"
            progress(f"Fetching WordPress {self.version} from {self.name}")
            self._fetch_archive(archive, progress)
            progress(f"Unpacking WordPress {self.version}")
            unpack_core_zip(archive, into)
        fetch_tools(into, self.endpoints, progress)

    def _fetch_archive(self, archive: Path, progress: Progress) -> None:
        checksum = self.checksum or published_checksum(self.name)
        if checksum is None and not (self.version == NIGHTLY and urlsplit(self.name).scheme == "https"):
            raise NotFound(f"{self.name} has no published checksum, or does not exist.")
        download(self.name, archive, maximum_bytes=_CORE_BYTES)
        if checksum is None:
            # Nightly builds come without a checksum; the secure connection to their publisher and
            # the checksums inside the zip are all that there is to check.
            progress("No checksum is published for this nightly: trusting the secure connection")
        elif not checksum.matches(archive):
            raise SourceFailure(f"{self.name} does not have the published {checksum.algorithm} checksum.")


def nightly_identity(endpoints: Endpoints) -> tuple[str, Checksum | None]:
    """Give what tells tonight's build from another one, and its checksum where one is published."""
    checksum = published_checksum(endpoints.nightly)
    if checksum is not None:
        return checksum.value, checksum
    marks = validators(endpoints.nightly)
    if not marks:
        raise SourceFailure(f"{endpoints.nightly} cannot be told from another night's: no checksum, no date.")
    return "\n".join(marks), None


def fetch_tools(into: Path, endpoints: Endpoints, progress: Progress) -> None:
    """Put the SQLite plugin and WP-CLI into ``into``. Raises SourceFailure."""
    with tempfile.TemporaryDirectory(dir=into, prefix=".download-") as scratch:
        progress("Fetching WP-CLI and the SQLite plugin")
        phar = Path(scratch) / WP_CLI
        download(endpoints.wp_cli, phar, maximum_bytes=_TOOL_BYTES)
        if not Checksum("sha512", WP_CLI_SHA512).matches(phar):
            raise SourceFailure(f"{endpoints.wp_cli} does not have WP-CLI's published sha512 checksum.")
        archive = Path(scratch) / "plugin.zip"
        _fetch_plugin(endpoints, archive)
        root = _zip_root(archive, "db.copy")
        unpack_zip(
            archive,
            lambda name: f"{PLUGIN}/{name.removeprefix(root)}" if name.startswith(root) else None,
            into,
        )
        phar.chmod(0o644)
        phar.rename(into / WP_CLI)


def _fetch_plugin(endpoints: Endpoints, archive: Path) -> None:
    failures = []
    for url in endpoints.sqlite_plugin:
        try:
            download(url, archive, maximum_bytes=_TOOL_BYTES)
        except SourceFailure as failure:
            failures.append(str(failure))
            continue
        if any(Checksum("sha256", value).matches(archive) for value in SQLITE_PLUGIN_SHA256):
            return
        failures.append(f"{url} does not have the SQLite plugin's published sha256 checksum.")
    raise SourceFailure(" ".join(failures))


def unpack_core_zip(archive: Path, into: Path) -> None:
    """Unpack the WordPress inside a zip, at whatever depth, to ``into/core``. Raises SourceFailure."""
    root = _zip_root(archive, "wp-includes/version.php")

    def place(name: str) -> str | None:
        path = name.removeprefix(root)
        return f"{CORE}/{path}" if name.startswith(root) and belongs_to_core(path) else None

    unpack_zip(archive, place, into)


def _zip_root(archive: Path, landmark: str) -> str:
    """Give the prefix of the shallowest directory in a zip that holds the file ``landmark``."""
    names = zip_names(archive)
    roots = [
        name.removesuffix(landmark) for name in names if name == landmark or name.endswith(f"/{landmark}")
    ]
    if not roots:
        raise SourceFailure(f"The archive {archive.name} holds no {landmark}.")
    return min(roots, key=lambda root: (root.count("/"), root))
