"""Images that hold a worker: built from the cache's WordPress, found again by what went into them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.resources import grader_source
from refcompare.results import Environment
from refcompare.wordpress.engine import (
    KIND_LABEL,
    UNFINISHED,
    EngineRefused,
    build_lock,
    building,
    docker,
    label_arguments,
    ownership_labels,
    reap,
    remove_unfinished,
)
from refcompare.wordpress.graders import Grader
from refcompare.wordpress.image_build import Disturbed, Progress, build, packed
from refcompare.wordpress.image_site import ensure_site_in
from refcompare.wordpress.php import PROBE, php_digest, php_facts, shortcoming
from refcompare.wordpress.php_settings import extensions_in
from refcompare.wordpress.releases import Release
from refcompare.wordpress.site import Site, site_digest
from refcompare.wordpress.store import regular_files

DEFAULT_BASE = "debian:bookworm-slim"
REPOSITORY = "refcompare-worker"

_MANIFEST_LABEL = "refcompare.image"
_CONTENT = "wp-content"

# Raised when images must be made anew for a reason that neither Dockerfile nor context show.
_RECIPE = 1

_BASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}")
_SERIES = re.compile(r"\d{1,2}\.\d{1,2}")
_MOUNTABLE = re.compile(r"[A-Za-z0-9._-]+")

# Besides what PROBE prints: the binary behind all links, and what the ini files load.
_CONTAINER_PROBE = (
    r"""
$files = array_filter(array_map('trim', explode(',', (string) php_ini_scanned_files())));
$texts = array_map('file_get_contents', array_values($files));
echo "\x03", json_encode(array('binary' => realpath(PHP_BINARY), 'ini' => $texts)), "\x03";
"""
    + PROBE
)


@dataclass(frozen=True, slots=True)
class ContainerPhp:
    """The PHP of an image: paths inside it, and the shared extensions to load, in their order."""

    binary: str
    extension_directory: PurePosixPath
    extensions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Image:
    """A worker image in the engine.

    ``reference`` is ``refcompare-worker:DIGEST``, ``id`` the engine's own identifier of exactly
    this content. ``protected`` are the directories inside that lie within writable ones and must
    stay as they are.
    """

    reference: str
    id: str
    environment: Environment
    php: ContainerPhp
    protected: tuple[str, ...]


def image_reference(
    site: Site | Release, grader: Grader, *, base: str = DEFAULT_BASE, php: str | None = None
) -> str:
    """Give the name of the image that ensure_image() would build, the same on every machine.

    ``site`` is an installed one, or the release that it is to be made of; ``base`` is an image's
    name, ``php`` a series such as ``8.2`` or None for the base's own.
    Raises UsageError for arguments that name neither.
    """
    if not _BASE.fullmatch(base):
        raise UsageError(f"{base!r} is not the name of an image; give one such as {DEFAULT_BASE}.")
    if php is not None and not _SERIES.fullmatch(php):
        raise UsageError(f"{php!r} is not a series of PHP; give one such as 8.2.")
    recipe = [_RECIPE, _dockerfile().read_text(), grader.digest, _digest(site), base, php or ""]
    return f"{REPOSITORY}:{hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:32]}"


def find_image(reference: str) -> Image | None:
    """Give the image of that name if the engine has it and refcompare built it.

    Raises EngineUnreachable where no engine answers.
    """
    try:
        inspected = json.loads(docker("image", "inspect", reference))[0]
        manifest = json.loads(inspected["Config"]["Labels"][_MANIFEST_LABEL])
        return _image(reference, str(inspected["Id"]), manifest)
    except (EngineRefused, ValueError, LookupError, TypeError):
        return None


def ensure_image(
    site: Site | Release,
    grader: Grader,
    *,
    base: str = DEFAULT_BASE,
    php: str | None = None,
    progress: Progress | None = None,
    fresh: bool = False,
) -> Image:
    """Give an image of ``site`` and ``grader``, building it where the engine has none (a minute).

    Given a release, its site is installed by the image's own PHP, if need be. ``base`` is any image
    with apt and a packaged PHP, or with a PHP of its own; ``php`` the series wanted of it, such as
    ``8.2``. ``fresh`` builds anew, with the packages of today. Leftovers of refcompare processes that
    were killed are removed first. Raises UsageError for a bad ``base`` or ``php``, EnvironmentFailure
    where the image cannot be built.
    """
    say = progress or (lambda _: None)
    reference = image_reference(site, grader, base=base, php=php)
    reap()

    def find() -> Image | None:
        image = None if fresh else find_image(reference)
        return image if image is not None and holds(image, site, grader) else None

    found = find()
    if found is not None:
        return found
    with build_lock():
        # Another process may have built it meanwhile.
        return find() or _Build(reference, site, grader, base, php, say, fresh).run()


def _digest(site: Site | Release) -> str:
    return site_digest(site) if isinstance(site, Release) else site.digest


def holds(image: Image, site: Site | Release, grader: Grader) -> bool:
    """Whether an image says that it holds what its name promises; others can give out names too."""
    environment = image.environment
    return (environment.wordpress_digest, environment.grader_digest) == (_digest(site), grader.digest)


def list_images() -> tuple[Image, ...]:
    """Give the worker images of the engine. Raises EngineUnreachable where none answers."""
    names = docker(
        "images", "--filter", f"label={KIND_LABEL}=image", "--format", "{{.Repository}}:{{.Tag}}", REPOSITORY
    )
    found = (find_image(name) for name in sorted(names.split()))
    return tuple(image for image in found if image is not None)


def remove_image(image: Image) -> None:
    """Remove an image; its layers go with the last image that has them. One that is gone is no error."""
    try:
        docker("image", "rm", "--force", image.reference)
    except EngineRefused as refused:
        if "no such image" not in refused.said.lower():
            raise


def _image(reference: str, identifier: str, manifest: Mapping[str, Any]) -> Image:
    php = manifest["php"]
    return Image(
        reference=reference,
        id=identifier,
        environment=Environment(**manifest["environment"]),
        php=ContainerPhp(
            str(php["binary"]), PurePosixPath(php["extension_directory"]), tuple(php["extensions"])
        ),
        protected=tuple(manifest["protected"]),
    )


def _dockerfile() -> Path:
    return grader_source() / "Dockerfile"


@dataclass(frozen=True, slots=True)
class _Build:
    """One build: PHP first, which is then asked what it is, so that the image can say so in its labels."""

    reference: str
    wanted: Site | Release
    grader: Grader
    base: str
    php: str | None
    say: Progress
    fresh: bool

    def run(self) -> Image:
        with building():
            try:
                return self._run()
            except Disturbed:
                self.say("Another refcompare has tidied the engine meanwhile; building again")
                return self._run()

    def _run(self) -> Image:
        started = time.monotonic()
        unfinished = f"{UNFINISHED}:{self.reference.partition(':')[2]}"
        arguments = ["--build-arg", f"BASE={self.base}", "--build-arg", f"PHP={self.php or ''}"]
        for name in ("http_proxy", "https_proxy", "no_proxy"):
            if value := os.environ.get(name) or os.environ.get(name.upper()):
                arguments += ["--build-arg", f"{name}={value}"]
        try:
            self.say(
                f"Building {self.reference}: PHP {self.php or ''} on {self.base}".replace("PHP  ", "PHP ")
            )
            only_php = [*arguments, "--target", "php", *(["--no-cache"] if self.fresh else [])]
            with packed([("Dockerfile", _dockerfile())]) as files:
                build(unfinished, only_php, files, self.say)
            facts = _ask_php(unfinished, self.base)
            site = self.wanted
            if isinstance(site, Release):
                site = ensure_site_in(unfinished, site, progress=self.say)
            manifest = self._manifest(facts, site)
            environment = manifest["environment"]
            self.say(
                f"Adding WordPress {environment['wordpress']} and the grader to PHP {environment['php']}, "
                f"SQLite {environment['sqlite']}"
            )
            arguments += ["--build-arg", f"WITH_PHP={unfinished}", *self._labels(manifest)]
            with packed(_site_files(site)) as archive, packed(self._context(archive)) as files:
                build(self.reference, arguments, files, self.say)
        finally:
            # Where the build failed, its own failure is the one to tell.
            with suppress(EnvironmentFailure):
                remove_unfinished()
        image = find_image(self.reference)
        if image is None:
            raise EnvironmentFailure(
                f"{self.reference} was built, but the engine does not list it: "
                "make its default builder one that keeps images (`docker buildx use default`)."
            )
        self.say(f"Built {self.reference} in {time.monotonic() - started:.0f} s")
        return image

    def _context(self, archive: IO[bytes]) -> Iterator[tuple[str, Path | IO[bytes]]]:
        yield "Dockerfile", _dockerfile()
        yield "site.tar", archive  # one file, since engines are slow to take in thousands
        for name, _ in regular_files(self.grader.path):
            yield f"grader/{name}", self.grader.path / name

    def _manifest(self, facts: Mapping[str, Any], site: Site) -> Mapping[str, Any]:
        environment = Environment(
            wordpress=site.release.version,
            wordpress_digest=site.digest,
            php=str(facts["version"]),
            php_digest=php_digest(facts),
            sqlite=str(facts["sqlite"]),
            grader_digest=self.grader.digest,
            runtime="docker",
        )
        return {
            "environment": asdict(environment),
            "php": {
                "binary": facts["binary"],
                "extension_directory": facts["extension_directory"],
                "extensions": extensions_in(facts["ini"]),
            },
            "protected": _protected(site),
        }

    def _labels(self, manifest: Mapping[str, Any]) -> list[str]:
        environment = manifest["environment"]
        labels = {
            _MANIFEST_LABEL: json.dumps(manifest, sort_keys=True),
            "refcompare.base": self.base,
            "refcompare.wordpress": environment["wordpress"],
            "refcompare.php": environment["php"],
            "refcompare.sqlite": environment["sqlite"],
            "refcompare.site": environment["wordpress_digest"],
            "refcompare.grader": environment["grader_digest"],
        }
        return label_arguments(labels)


def _protected(site: Site) -> list[str]:
    """Give the directories of the site's wp-content that no candidate may change, as paths inside."""
    found = []
    for entry in sorted((site.root / _CONTENT).iterdir()):
        if not entry.is_dir() or entry.name == "database":
            continue
        inner = sorted(entry.iterdir()) if entry.name in ("plugins", "themes") else [entry]
        found += [path.relative_to(site.root).as_posix() for path in inner if path.is_dir()]
    odd = [path for path in found if not all(map(_MOUNTABLE.fullmatch, path.split("/")))]
    if odd:
        raise EnvironmentFailure(f"The directory {odd[0]!r} of WordPress cannot be mounted into a container.")
    return [f"/site/{path}" for path in found]


def _site_files(site: Site) -> Iterator[tuple[str, Path | None]]:
    """Give what an image holds of a site: name and file, or None for a directory that may be empty.

    Files that lie directly in a writable directory are kept apart: the worker copies them when it
    starts, since a file can't be mounted from an image.
    """
    yield "snapshot.sqlite", site.database
    yield "wp-cli.phar", site.release.wp_cli
    for directory in (f"site/{_CONTENT}", "site-content"):
        yield from ((f"{directory}/{name}", None) for name in ("plugins", "themes"))
    for name, _ in regular_files(site.root):
        parts = PurePosixPath(name).parts
        if parts[0] != _CONTENT:
            yield f"site/{name}", site.root / name
        elif len(parts) == 2 or (len(parts) == 3 and parts[1] in ("plugins", "themes")):
            yield "/".join(("site-content", *parts[1:])), site.root / name
        elif parts[1] != "database":
            yield f"site/{name}", site.root / name


def _ask_php(image: str, base: str) -> Mapping[str, Any]:
    """Run PHP in ``image`` and give what it tells. Raises EnvironmentFailure where it cannot grade."""
    printed = docker(
        "run", "--rm", "--network", "none", "--pull", "never", "--log-driver", "none",
        "--user", "61987:61987", *ownership_labels(), "--entrypoint", "php", image,
        "-d", "display_errors=0", "-r", _CONTAINER_PROBE,
    )  # fmt: skip
    facts = php_facts(printed.encode())
    if facts is None:
        raise EnvironmentFailure(f"The PHP of the base image {base} does not run: {printed[:500]}")
    wrong = shortcoming(facts)
    if wrong is not None:
        raise EnvironmentFailure(
            f"PHP {facts['version']} of the base image {base} {wrong}; choose another image."
        )
    return {**facts, **json.loads(printed.split("\x03")[1])}
