"""What the tests with containers do in more than one place."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, Limits
from refcompare.results import Verdict
from refcompare.wordpress.docker import DockerRuntime
from refcompare.wordpress.engine import docker
from refcompare.wordpress.image import Image
from refcompare.wordpress.runtime import Runtime
from tests.docker.suite import TRUE, make_test

PASSES = make_test("passes", assertions=(TRUE,))


@contextlib.contextmanager
def grading(runtime: Runtime) -> Iterator[GradingThread]:
    thread = GradingThread(runtime)
    try:
        yield thread
    finally:
        thread.close()


def until(true: Callable[[], bool], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def look(thread: GradingThread, code: str) -> Any:
    """Give the value of a PHP expression, as a candidate sees it."""
    candidate = Candidate("reference", f"echo wp_json_encode( ( static function () {{ {code} }} )() );")
    record = thread.grade(PASSES, candidate, Limits())
    assert record.verdict is Verdict.PASS, record
    return json.loads(record.output)


def shell(runtime: DockerRuntime, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a container that is confined as a worker's is."""
    command = ["docker", "run", *runtime._options(), runtime.image.id, "-c", script]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )


@contextlib.contextmanager
def derived(image: Image, *instructions: str) -> Iterator[Image]:
    """An image made from another by Dockerfile instructions, for as long as it is needed."""
    name = f"refcompare-test:{os.getpid()}"
    lines = [f"FROM {image.reference}", "USER 0:0", *instructions]
    command = ["docker", "build", "--quiet", "--force-rm", "--tag", name, "-"]
    subprocess.run(command, input="\n".join(lines).encode(), check=True, capture_output=True, timeout=300)
    try:
        identifier = docker("image", "inspect", "--format", "{{.Id}}", name)
        yield dataclasses.replace(image, reference=name, id=identifier)
    finally:
        docker("image", "rm", "--force", name)


@contextlib.contextmanager
def python(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        cwd=Path(__file__).parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
