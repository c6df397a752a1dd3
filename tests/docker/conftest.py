"""An engine, an image of the default site, and the certainty that nothing stays."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from refcompare.execution.grading import GradingThread
from refcompare.wordpress.docker import DockerRuntime
from refcompare.wordpress.engine import KIND_LABEL, OWNER_LABEL, docker, reap
from refcompare.wordpress.image import Image
from refcompare.wordpress.owners import is_gone, this_process
from tests.docker.support import grading, until


@pytest.fixture(scope="session", autouse=True)
def _engine(engine: None) -> None:
    """Nothing here can do without one."""


@pytest.fixture(scope="module")
def runtime(docker_runtime: DockerRuntime) -> DockerRuntime:
    return docker_runtime


@pytest.fixture(scope="module")
def thread(runtime: DockerRuntime) -> Iterator[GradingThread]:
    with grading(runtime) as thread:
        yield thread


@pytest.fixture
def tidy(image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing that a test makes in the engine or in the temporary directory is there afterwards."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    reap()
    before = left_over()
    yield
    # The engine removes the volumes of a container a moment after the container.
    assert until(lambda: left_over() <= before, seconds=15), left_over() - before
    assert list(tmp_path.iterdir()) == []


def left_over() -> set[str]:
    """Give what is in the engine, but for what other refcompare processes that live have there."""
    found = {f"network {name}" for name in docker("network", "ls", "--format", "{{.Name}}").split()}
    owned = f'{{{{.Label "{OWNER_LABEL}"}}}}'
    for kind, command in {"container": ("ps", "--all"), "volume": ("volume", "ls")}.items():
        name = "{{.ID}}" if kind == "container" else "{{.Name}}"
        listed = docker(*command, "--filter", f"label={KIND_LABEL}", "--format", f"{name}\t{owned}")
        for line in listed.splitlines():
            identifier, _, owner = line.partition("\t")
            if owner == this_process() or is_gone(owner):
                found.add(f"{kind} {identifier}")
    images = docker("images", "--format", "{{.Repository}} {{.ID}}", "--filter", f"label={KIND_LABEL}=image")
    return found | {f"image {line}" for line in images.splitlines()}
