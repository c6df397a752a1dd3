"""Markers wherever a secret could be, an agent that looks for them, and all that is kept of its run."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refcompare.sandbox import probe
from refcompare.store import read_trials
from refcompare.trials import trial_value
from tests.support_git import isolate
from tests.test_evaluation import EVAL, Project

pytestmark = pytest.mark.skipif(not probe().works, reason="no sandbox works here")

MARKED = re.compile(r"canary-[a-z]+-[0-9a-f]{8}")
SEEKER = """\
#!/usr/bin/python3
# Leaves a mark of its own, and looks for everybody's wherever it was told that they are.
import json, os, re, socket, sys, time, uuid

places = json.loads(sys.stdin.read())
own = "canary-trial-" + uuid.uuid4().hex[:8]
for here in (".", "/tmp", os.path.expanduser("~")):
    try:
        with open(os.path.join(here, "mark"), "w") as file:
            file.write(own)
    except OSError:
        pass
time.sleep(float(places["wait"]))
told = ["\\0".join(f"{k}={v}" for k, v in os.environ.items())]
for process in filter(str.isdecimal, os.listdir("/proc")):
    places["files"] += [f"/proc/{process}/{name}" for name in ("environ", "cmdline", "mountinfo")]
for root in places["folders"]:
    for base, _, names in os.walk(root):
        places["files"] += [os.path.join(base, name) for name in names]
for path in places["files"]:
    try:
        if os.path.isfile(path):
            with open(path, "rb") as file:
                told.append(file.read(1 << 20).decode("utf-8", "replace"))
    except OSError:
        pass
for address in places["sockets"]:
    try:
        near = socket.socket(socket.AF_UNIX)
        near.settimeout(2)
        near.connect(address)
        near.sendall(b"GET /info HTTP/1.0\\r\\n\\r\\n")
        told.append(near.recv(65536).decode("utf-8", "replace"))
    except OSError:
        pass
seen = sorted(set(re.findall("canary-[a-z]+-[0-9a-f]{8}", "\\n".join(told))))
output = json.dumps({"own": own, "seen": seen})
print(output, file=sys.stderr)
with open(os.environ.get("REFCOMPARE_TRAJECTORY", "/dev/null"), "w") as file:
    call = {"type": "call", "name": "Seek", "input": {}, "output": output}
    for line in (call, {"type": "message", "text": output}):
        file.write(json.dumps(line) + "\\n")
"""


def marker(where: str) -> str:
    return f"canary-{where}-{os.urandom(4).hex()}"


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that other users can enter, as agents are."""
    made = Path(tempfile.mkdtemp(prefix="refcompare-test-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def docker_socket() -> Iterator[tuple[Path, str]]:
    """A socket that answers as an engine would, with a marker."""
    said = marker("engine")
    path = Path(tempfile.mkdtemp(prefix="refcompare-test-")) / "docker.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(16)
    path.parent.chmod(0o755)
    path.chmod(0o777)

    def answer() -> None:
        while True:
            try:
                near = listener.accept()[0]
            except OSError:
                return
            near.recv(65536)
            near.sendall(f'HTTP/1.0 200 OK\r\n\r\n{{"ID": "{said}"}}'.encode())
            near.close()

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    yield path, said
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(10)
    shutil.rmtree(path.parent)


def test_no_marker_shows_up_in_what_is_kept_of_a_run(
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    docker_socket: tuple[Path, str],
):
    logged = io.StringIO()
    handler = logging.StreamHandler(logged)
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    monkeypatch.setattr(logging.getLogger(), "level", logging.DEBUG)
    isolate(monkeypatch, tmp_path)
    for name in ("temporary", "home"):
        (place / name).mkdir(mode=0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(place / "temporary"))
    monkeypatch.setenv("REFCOMPARE_CACHE_DIR", str(place / "cache"))
    monkeypatch.setenv("HOME", str(place / "home"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{docker_socket[0]}")
    markers = {name: marker(name) for name in ("environment", "home", "checkout", "config", "neighbour")}
    # Not named like a secret: what hides it must be the boundary, not that it is taken out afterwards.
    monkeypatch.setenv("LAST_WORDS", markers["environment"])
    (place / "home" / ".netrc").write_text(markers["home"])
    (place / "temporary" / "neighbour").write_text(markers["neighbour"])
    project = Project(place)
    project.program.write_text(SEEKER)
    (project.scratch.path / "untracked.env").write_text(markers["checkout"])
    project.scratch.git("config", "remote.origin.url", f"https://{markers['config']}@example.com/")
    for path in [place, *place.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
    folders = [str(place / name) for name in ("home", "temporary", "repository")]
    sockets = [str(docker_socket[0]), "/var/run/docker.sock", "/run/docker.sock"]
    given = {"files": ["/proc/self/environ"], "folders": folders, "sockets": sockets, "wait": 1}
    known = {*markers.values(), docker_socket[1]}

    alone = subprocess.run(
        [sys.executable, project.program],
        input=json.dumps({**given, "wait": 0}),
        capture_output=True,
        text=True,
        cwd=place,
        check=True,
    )
    found = json.loads(alone.stderr.splitlines()[-1])["seen"]
    assert known <= set(found), "outside of the boundary the agent finds every one of them"
    for left in (place / "mark", Path("/tmp/mark"), place / "home" / "mark"):
        left.unlink(missing_ok=True)

    project.evals({**EVAL, "prompt": json.dumps(given), "repeat": 2, "checks": [{"changed": "mark"}]})
    head = project.scratch.commit()
    capfd.readouterr()
    status, page = project.compare(head=head, jobs=4, quiet=False)
    assert status == 0
    trials = [trial for arm in ("base", "head") for trial in read_trials(project.output, arm)]
    assert len(trials) == 4 and all(trial.graded for trial in trials)
    own: dict[str, dict[str, Any]] = {}
    for trial in trials:
        told = json.loads(trial.trajectory.calls[0].output)
        own[told["own"]] = told
        kept = set(MARKED.findall(json.dumps(trial_value(trial))))
        assert kept == {told["own"]}, "of all markers it knows the one that it left itself"
        assert set(told["seen"]) <= {told["own"]}
    assert len(own) == 4
    written = [path.read_text("latin-1") for path in project.output.rglob("*") if path.is_file()]
    logs = capfd.readouterr()
    everything = "\n".join([*written, page, logs.out, logs.err, logged.getvalue()])
    assert set(MARKED.findall(everything)) <= own.keys()
    assert list((place / "temporary").iterdir()) == [place / "temporary" / "neighbour"]
