"""Makes a runner ready to grade: an image for Docker, or PHP and a sandbox."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from refcompare import __version__
from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.github.inputs import IMAGE_REPOSITORY
from refcompare.paths import cache_directory
from refcompare.resources import grader_source
from refcompare.sandbox import probe
from refcompare.wording import quoted
from refcompare.wordpress.engine import EngineRefused, EngineUnreachable, docker, docker_available
from refcompare.wordpress.graders import Grader, installed_grader
from refcompare.wordpress.image import ensure_image, find_image, holds, image_reference
from refcompare.wordpress.php import find_php
from refcompare.wordpress.releases import Release, ensure_release
from refcompare.wordpress.site import Site, ensure_site

PULL_SECONDS = 600.0

Say = Callable[[str], None]


def prepare_machine(runtime: str, wordpress: str | None, image_repository: str, say: Say) -> None:
    """Install what grading needs and this machine lacks. Raises EnvironmentFailure where that fails."""
    runtime = chosen_runtime(runtime)
    if runtime == "native":
        _bootstrap("system", say)
        if not probe().works:
            _bootstrap("sandbox", say)
    release = ensure_release(wordpress, progress=say)
    if runtime == "docker":
        prepare_image(release, image_repository, say)
    else:
        ensure_site(release, find_php(), progress=say)


def chosen_runtime(runtime: str) -> str:
    """Say what ``auto`` comes to here: a sandbox of this machine's own first, as everywhere else."""
    if runtime != "auto":
        return runtime
    return "native" if probe().works or not docker_available().works else "docker"


def prepare_image(site: Site | Release, repository: str, say: Say) -> None:
    """Have the worker image: the engine's own, the published one, the cache's, or else a new one.

    A published image is named by the digest of what it was made from, as the local one is, and has to
    say that it holds that. Raises EnvironmentFailure where none can be had.
    """
    works = docker_available()
    if not works.works:
        raise EnvironmentFailure(f"{works.message} Or set `runtime: native`.")
    grader = installed_grader()
    reference = image_reference(site, grader)
    tag = reference.partition(":")[2]
    saved = cache_directory() / "images" / f"{tag}.tar"
    if _holds(reference, site, grader):
        return
    if repository and _pulled(f"{repository}:{tag}", reference, site, grader, say):
        return
    if saved.is_file() and _tried("load", "--quiet", "--input", str(saved), say=say):
        if _holds(reference, site, grader):
            say(f"{reference} comes from the cache")
            return
        _tried("image", "rm", reference, say=say)
    ensure_image(site, grader, progress=say)
    saved.parent.mkdir(parents=True, exist_ok=True)
    partial = saved.with_suffix(".partial")
    if _tried("save", "--output", str(partial), reference, say=say):
        partial.replace(saved)
    partial.unlink(missing_ok=True)


def publish_image(repository: str, user: str, token: str, say: Say) -> str:
    """Build the worker image and push it to ``repository``, named as prepare_image() looks for it.

    ``user`` and ``token`` log in where ``repository`` is; without a token the engine's own login counts.
    Raises UsageError for a repository that is none, EnvironmentFailure where the engine or the
    repository refuses.
    """
    if not IMAGE_REPOSITORY.fullmatch(repository):
        raise UsageError(f"IMAGE_REPOSITORY is {quoted(repository)}; give a repository without a tag.")
    image = ensure_image(ensure_release(None, progress=say), installed_grader(), progress=say)
    published = f"{repository}:{image.reference.partition(':')[2]}"
    with _logged_in(repository.partition("/")[0], user or "refcompare", token):
        docker("tag", image.reference, published)
        docker("push", "--quiet", published, timeout=PULL_SECONDS)
    say(f"{published} is published")
    return published


@contextmanager
def _logged_in(host: str, user: str, token: str) -> Iterator[None]:
    """Log in to where images are published, in a configuration that is forgotten afterwards."""
    if not token:
        yield
        return
    before = os.environ.get("DOCKER_CONFIG")
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile() as password:
        password.write(token.encode())
        password.seek(0)
        os.environ["DOCKER_CONFIG"] = directory
        try:
            docker("login", host, "--username", user, "--password-stdin", stdin=password)
            yield
        finally:
            if before is None:
                del os.environ["DOCKER_CONFIG"]
            else:
                os.environ["DOCKER_CONFIG"] = before


def _pulled(published: str, reference: str, site: Site | Release, grader: Grader, say: Say) -> bool:
    pull = ("pull", "--quiet", published)
    if not _tried(*pull, say=say) or not _tried("tag", published, reference, say=say):
        say(f"{published} could not be pulled")
        return False
    if not _holds(reference, site, grader):
        say(f"{published} is no worker image of this WordPress and this grader, so it is not used")
        _tried("image", "rm", reference, say=say)
        return False
    say(f"{reference} was pulled")
    return True


def _holds(reference: str, site: Site | Release, grader: Grader) -> bool:
    """Say whether the engine has the image, and the image says that it holds what its name promises."""
    image = find_image(reference)
    return image is not None and holds(image, site, grader)


def _tried(*arguments: str, say: Say) -> bool:
    """Say whether the engine did it; if not, the log tells why and there is another way."""
    try:
        docker(*arguments, timeout=PULL_SECONDS)
    except (EngineRefused, EngineUnreachable) as failure:
        say(str(failure))
        return False
    return True


def _bootstrap(step: str, say: Say) -> None:
    """Run a step of the script that sets up a checkout, which the action's own checkout has."""
    script = Path(os.environ.get("GITHUB_ACTION_PATH") or ".") / "scripts" / "bootstrap"
    if not script.is_file():
        raise EnvironmentFailure(
            f"This machine can't grade yet, and there is no {script} to set it up: run `refcompare doctor`."
        )
    say(f"Running {script.name} {step}")
    environment = {**os.environ, "REFCOMPARE_VENV": str(Path(sys.prefix))}
    environment.pop("GITHUB_TOKEN", None)
    done = subprocess.run([str(script), step], env=environment, check=False)
    if done.returncode:
        raise EnvironmentFailure(f"`scripts/bootstrap {step}` failed; its last words are above.")


# ---------------------------------------------------------------------------------- caches


def cache_keys(runtime: str, wordpress: str, *, run: str, day: str) -> dict[str, str]:
    """Give the names under which the runner's caches are kept.

    Releases and images stay the same for a release of WordPress and of refcompare (``nightly`` for a
    ``day``); verdicts are saved by every run and found again by the longest prefix.
    """
    system = f"{sys.platform}-{os.uname().machine}" if hasattr(os, "uname") else sys.platform
    release = re.sub(r"[^A-Za-z0-9.-]", "-", wordpress) or "pinned"
    if release == "nightly":
        release = f"nightly-{day}"
    recipe = (grader_source() / "Dockerfile").read_bytes() + installed_grader().digest.encode()
    mark = f"{__version__}-{hashlib.sha256(recipe).hexdigest()[:16]}"
    verdicts = f"refcompare-verdicts-{system}-{mark}-"
    return {
        "site-key": f"refcompare-site-{system}-{mark}-{runtime}-{release}",
        "verdict-key": f"{verdicts}{run}",
        "verdict-prefix": verdicts,
    }
