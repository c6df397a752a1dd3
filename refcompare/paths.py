"""Where refcompare keeps what it fetches and builds once."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from refcompare.errors import EnvironmentFailure

CACHE_VARIABLE = "REFCOMPARE_CACHE_DIR"

ROOT_CACHE = Path("/var/cache/refcompare")


def cache_directory() -> Path:
    """Give the absolute cache directory, made if need be and open to every uid for reading.

    ``REFCOMPARE_CACHE_DIR`` wins; otherwise it is the user's cache directory. Root gets
    ``/var/cache/refcompare``, because graders then run as another uid, which could not traverse
    root's home. Raises EnvironmentFailure when the directory cannot be made.
    """
    configured = os.environ.get(CACHE_VARIABLE)
    if configured:
        directory = Path(configured).expanduser()
    elif hasattr(os, "geteuid") and os.geteuid() == 0:
        directory = ROOT_CACHE
    else:
        directory = Path(platformdirs.user_cache_dir("refcompare", appauthor=False))
    directory = Path(os.path.abspath(directory))  # noqa: PTH100  # a symlinked cache keeps its name
    try:
        make_open_directory(directory)
    except OSError as error:
        raise EnvironmentFailure(
            f"The cache directory {directory} cannot be made ({error.strerror}); "
            f"set {CACHE_VARIABLE} to a directory that you can write to."
        ) from error
    return directory


def make_open_directory(directory: Path) -> None:
    """Make ``directory`` and its missing parents with mode 0755, whatever the umask says."""
    missing = []
    current = directory
    while not current.is_dir():
        missing.append(current)
        current = current.parent
    for path in reversed(missing):
        try:
            path.mkdir()
        except FileExistsError:
            if not path.is_dir():
                raise
            continue  # another process made it, and sets its mode
        path.chmod(0o755)
