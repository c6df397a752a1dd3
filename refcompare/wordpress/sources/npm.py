"""The pinned release out of one npm package, for networks that reach only a package registry."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from refcompare.wordpress.sources.archives import unpack_tar
from refcompare.wordpress.sources.interface import (
    CORE,
    PLUGIN,
    WP_CLI,
    Progress,
    SourceFailure,
    belongs_to_core,
)

PACKAGE = "wp-studio@1.22.0"
WORDPRESS_VERSION = "7.1.1"
INTEGRITY = "sha512-boMtahkhgWDKKyNTBA1uTK5ghnAmxXhDY6KeQCO9FmcI3/o+YOSq8JwYW5ZYnxHCxH14Jf/mD6CJTBvTWl2Ytw=="

_FILES = "package/dist/cli/wp-files/"
_CORE = _FILES + "latest/wordpress/"
_PLUGIN = _FILES + "sqlite-database-integration/"
_WP_CLI = _FILES + "wp-cli/wp-cli.phar"

_TIMEOUT_SECONDS = 900


class NpmSource:
    """WordPress 7.1.1 with its tools from the package PACKAGE, verified against INTEGRITY.

    The package is only packed and read: nothing of it is installed and none of its scripts runs.
    """

    @property
    def name(self) -> str:
        """The package with its version."""
        return f"npm {PACKAGE}"

    @staticmethod
    def available() -> bool:
        """Say whether an npm client is on PATH."""
        return shutil.which("npm") is not None

    def fetch(self, into: Path, progress: Progress) -> None:
        """Fill ``into``, see Source."""
        progress(f"Fetching WordPress {WORDPRESS_VERSION} from {self.name} (64 MB)")
        with tempfile.TemporaryDirectory(dir=into, prefix=".download-") as scratch:
            tarball = _pack(Path(scratch))
            verify_integrity(tarball, INTEGRITY)
            progress(f"Unpacking WordPress {WORDPRESS_VERSION}")
            unpack_tar(tarball, _place, into)


def _place(name: str) -> str | None:
    if name.startswith(_CORE):
        path = name.removeprefix(_CORE)
        return f"{CORE}/{path}" if belongs_to_core(path) else None
    if name.startswith(_PLUGIN):
        return f"{PLUGIN}/{name.removeprefix(_PLUGIN)}"
    return WP_CLI if name == _WP_CLI else None


def _pack(scratch: Path) -> Path:
    """Let npm download the package into ``scratch`` and give the tarball."""
    npm = shutil.which("npm")
    if npm is None:
        raise SourceFailure("No npm client is on PATH.")
    # Without a package.json here npm would look for a project, and its .npmrc, in the parents.
    (scratch / "package.json").write_text("{}\n")
    command = [npm, "pack", PACKAGE, "--ignore-scripts", "--loglevel=error", "--prefer-offline"]
    command += ["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]
    log = scratch / "npm.log"
    try:
        with log.open("wb") as output:
            process = subprocess.run(
                command,
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise SourceFailure(f"npm pack {PACKAGE} took more than {_TIMEOUT_SECONDS} seconds.") from error
    except OSError as error:
        raise SourceFailure(f"npm cannot be run: {error}.") from error
    tarballs = sorted(scratch.glob("*.tgz"))
    if process.returncode != 0 or len(tarballs) != 1:
        raise SourceFailure(
            f"npm pack {PACKAGE} failed with status {process.returncode}: {_reason(log.read_bytes())}."
        )
    return tarballs[0]


def _reason(log: bytes) -> str:
    """Give npm's first words on what went wrong; stack traces and hints follow them."""
    lines = log[-16_384:].decode(errors="replace").splitlines()
    errors = [line.split(" ", 2)[2].strip() for line in lines if line.startswith(("npm error ", "npm ERR! "))]
    return "; ".join(errors[:3]).rstrip(".") or "it said nothing"


def verify_integrity(file: Path, integrity: str) -> None:
    """Check ``file`` against an ``ALGORITHM-BASE64`` string (W3C Subresource Integrity)."""
    algorithm, _, expected = integrity.partition("-")
    with file.open("rb") as stream:
        actual = base64.b64encode(hashlib.file_digest(stream, algorithm).digest()).decode()
    if actual != expected:
        raise SourceFailure(f"{file.name} is not what was pinned: its {algorithm} is {actual}.")
