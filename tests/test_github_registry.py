"""Worker images that are published and pulled: a real engine, and a registry of images on loopback."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from refcompare.errors import EnvironmentFailure
from refcompare.github import setup
from refcompare.wordpress import image as images
from refcompare.wordpress.engine import EngineRefused, docker
from refcompare.wordpress.graders import Grader
from refcompare.wordpress.site import Site
from tests.image_registry import ImageRegistry
from tests.result_builders import ENVIRONMENT

pytestmark = [pytest.mark.docker, pytest.mark.wordpress]


@dataclass
class Machine:
    """A runner whose engine has worker images under a name of this test's own, and what it said."""

    site: Site
    grader: Grader
    registry: ImageRegistry
    said: list[str]
    built: list[str]

    @property
    def repository(self) -> str:
        return f"{self.registry.host}/octo/refcompare-worker"

    @property
    def reference(self) -> str:
        return images.image_reference(self.site, self.grader)

    def make_image(self, **fields: str) -> str:
        """Give the engine an image that says what a worker's image says, but holds one file; give its id."""
        environment = replace(
            ENVIRONMENT, wordpress_digest=self.site.digest, grader_digest=self.grader.digest, runtime="docker"
        )
        php = {"binary": "/usr/bin/php", "extension_directory": "/ext", "extensions": []}
        manifest = {"environment": asdict(environment) | fields, "php": php, "protected": []}
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            content = uuid.uuid4().bytes
            info = tarfile.TarInfo("file")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        path = Path(tempfile.gettempdir()) / f"{uuid.uuid4()}.tar"
        path.write_bytes(data.getvalue())
        try:
            label = f"LABEL refcompare.image={json.dumps(json.dumps(manifest))}"
            return docker("import", "--change", label, str(path), self.reference)
        finally:
            path.unlink()

    def identity(self) -> str:
        return docker("image", "inspect", "--format", "{{.Id}}", self.reference)

    def forget(self) -> None:
        """Be a new machine."""
        for name in (self.reference, f"{self.repository}:{self.reference.partition(':')[2]}"):
            with suppress(EngineRefused):
                docker("image", "rm", "--force", name)

    def prepare(self) -> None:
        setup.prepare_image(self.site, self.repository, self.said.append)

    def publish(self, token: str = "ghs_secret") -> str:
        return setup.publish_image(self.repository, "octo", token, self.said.append)


@pytest.fixture
def machine(
    engine: None, site: Site, grader: Grader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)
    monkeypatch.setattr(images, "REPOSITORY", f"refcompare-worker-test-{uuid.uuid4().hex[:8]}")
    with ImageRegistry("octo", "ghs_secret").running() as registry:
        found = Machine(site, grader, registry, [], [])

        def build(*_: Any, **__: Any) -> Any:
            found.make_image()
            found.built.append(found.reference)
            return SimpleNamespace(reference=found.reference)

        real = images.ensure_image
        # Building a whole one is for tests of the image itself; one that is there is found as ever.
        monkeypatch.setattr(
            setup,
            "ensure_image",
            lambda *words, **named: (real if images.find_image(found.reference) else build)(*words, **named),
        )
        # Where images are saved, but not where the release is.
        monkeypatch.setattr(setup, "cache_directory", lambda: tmp_path / "cache")
        yield found
        found.forget()


def test_what_a_release_publishes_is_what_the_action_pulls(machine: Machine, tmp_path: Path) -> None:
    made = machine.make_image()
    published = machine.publish()
    tag = machine.reference.partition(":")[2]
    assert published == f"{machine.repository}:{tag}"
    assert ("octo/refcompare-worker", tag) in machine.registry.manifests
    assert not (tmp_path / ".docker").exists()  # nor the token in it
    machine.forget()
    machine.prepare()
    assert machine.identity() == made and not machine.built
    assert machine.said[-1] == f"{machine.reference} was pulled"


def test_one_that_is_not_published_comes_from_the_cache_and_else_is_built(machine: Machine) -> None:
    machine.prepare()
    assert machine.built == [machine.reference]
    built = machine.identity()
    machine.forget()
    machine.prepare()
    assert machine.identity() == built and len(machine.built) == 1
    assert machine.said[-1] == f"{machine.reference} comes from the cache"
    # The engine's own is asked for first.
    machine.said.clear()
    machine.prepare()
    assert machine.said == []


def test_a_registry_that_is_gone_costs_a_line_in_the_log(machine: Machine) -> None:
    machine.registry.host = "127.0.0.1:9"
    machine.prepare()
    assert machine.built == [machine.reference]
    assert "could not be pulled" in machine.said[1]


def test_an_image_of_another_grader_under_the_right_name_is_not_used(machine: Machine) -> None:
    machine.make_image(grader_digest="another")
    published = f"{machine.repository}:{machine.reference.partition(':')[2]}"
    docker("tag", machine.reference, published)
    with setup._logged_in(machine.registry.host, "octo", "ghs_secret"):
        docker("push", "--quiet", published)
    machine.forget()
    machine.prepare()
    assert machine.built == [machine.reference]
    assert "no worker image of this WordPress and this grader" in machine.said[0]


def test_who_may_not_push_is_told_so(machine: Machine) -> None:
    machine.make_image()
    with pytest.raises(EnvironmentFailure, match="docker login"):
        machine.publish("ghs_wrong")
    assert not machine.registry.manifests
