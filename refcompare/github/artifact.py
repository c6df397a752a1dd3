"""The results of another run, taken from its artifact, which a stranger may have made.

Only files of known names are taken out, each with a size that was counted rather than believed, and
nothing that the archive says of paths, links or modes is followed.
"""

from __future__ import annotations

import hashlib
import stat
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from github.Artifact import Artifact

from refcompare.github.api import Client, GitHubFailure
from refcompare.store import RECORDS, RUN, TRIALS, ResultsError
from refcompare.wordpress.sources.download import download
from refcompare.wordpress.sources.interface import SourceFailure

PERMISSION = "actions: read"

OUTCOME = "outcome.json"
"""What a run without results says for itself."""

NAMES = (*(f"{arm}/{name}" for arm in ("base", "head") for name in (RUN, RECORDS, TRIALS)), OUTCOME)
"""The files that are taken out of an artifact."""

_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that is taken: bytes of the archive and of one file, entries of the archive."""

    archive: int = 64 * _MEBIBYTE
    file: int = 256 * _MEBIBYTE
    entries: int = 64


LIMITS = Limits()


def fetch_results(
    client: Client, repository: str, run: int, name: str, directory: Path, limits: Limits = LIMITS
) -> bool:
    """Put the results of a workflow run into ``directory``; False where it has no artifact of that name.

    Raises ResultsError where the artifact is not what it should be, GitHubFailure where it can't be had.
    """
    found = client.call(
        "read the artifacts of a run", lambda: _find(client, repository, run, name), PERMISSION
    )
    if found is None:
        return False
    if found.size_in_bytes > limits.archive:
        raise ResultsError(
            f"The artifact {name} has {found.size_in_bytes:,} bytes; {limits.archive:,} are taken."
        )
    archive = directory / "artifact.zip"
    directory.mkdir(parents=True, exist_ok=True)
    path = f"/repos/{repository}/actions/artifacts/{found.id}/zip"
    address = client.call("download an artifact", lambda: client.location(path), PERMISSION)
    try:
        download(address, archive, maximum_bytes=limits.archive)
    except SourceFailure:
        # The address is a password for as long as it lives, so nothing of the failure is shown.
        raise GitHubFailure(
            f"The artifact {name} could not be downloaded, or has more than {limits.archive:,} bytes."
        ) from None
    _check_digest(found, archive)
    unpack(archive, directory, limits)
    archive.unlink()
    return True


def unpack(archive: Path, directory: Path, limits: Limits = LIMITS) -> None:
    """Take the files of known names out of an archive. Raises ResultsError for one that is not plain."""
    try:
        with zipfile.ZipFile(archive) as file:
            entries = file.infolist()
            if len(entries) > limits.entries:
                raise ResultsError(f"The artifact has {len(entries):,} entries; {limits.entries} are taken.")
            names = [entry.filename for entry in entries]
            for name in NAMES:
                if names.count(name) > 1:
                    raise ResultsError(f"The artifact has several files {name}.")
            for entry in entries:
                if entry.filename in NAMES:
                    _take(file, entry, directory, limits.file)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError) as error:
        raise ResultsError("The artifact is no archive that can be read.") from error


def _take(file: zipfile.ZipFile, entry: zipfile.ZipInfo, directory: Path, most: int) -> None:
    mode = entry.external_attr >> 16
    if entry.flag_bits & 0x1 or entry.is_dir() or (stat.S_IFMT(mode) not in (0, stat.S_IFREG)):
        raise ResultsError(f"{entry.filename} in the artifact is no plain file.")
    target = directory / entry.filename
    target.parent.mkdir(exist_ok=True)
    taken = 0
    with file.open(entry) as source, target.open("xb") as out:
        while chunk := source.read(_MEBIBYTE):
            taken += len(chunk)
            if taken > most:
                raise ResultsError(f"{entry.filename} in the artifact has more than {most:,} bytes.")
            out.write(chunk)


def _find(client: Client, repository: str, run: int, name: str) -> Artifact | None:
    """Give the newest artifact of that name: a run that was repeated has one for each attempt."""
    listed = client.repository(repository).get_workflow_run(run).get_artifacts()
    found = [item for item in listed if item.name == name and not item.expired]
    return max(found, key=lambda item: item.id, default=None)


def _check_digest(artifact: Artifact, archive: Path) -> None:
    """Compare with the digest that GitHub keeps, which older artifacts lack."""
    stated = artifact.raw_data.get("digest")
    if not isinstance(stated, str) or not stated.startswith("sha256:"):
        return
    with archive.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != stated.removeprefix("sha256:"):
            raise GitHubFailure("The artifact was damaged on its way here.")
