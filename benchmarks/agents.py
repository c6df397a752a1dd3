"""What refcompare adds to a trial of an agent, part by part, and that trials side by side share nothing."""

from __future__ import annotations

import hashlib
import http.client
import itertools
import json
import os
import re
import resource
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.place import Place
from refcompare.agents.crew import ModelCrew
from refcompare.agents.evals import Eval, WorkspaceSpec, read_eval
from refcompare.agents.model.cassettes import Conversation
from refcompare.agents.model.door import Upstream
from refcompare.agents.model.gateway import Gateway, GatewayHandle
from refcompare.agents.model.prices import FREE
from refcompare.agents.model.script import Script, ScriptedCall, Turn
from refcompare.agents.model.scripted import ScriptedModel
from refcompare.agents.model.wire import Api, RequestFacts
from refcompare.agents.programs.interface import Agent, AgentLimits
from refcompare.agents.programs.standin import StandInAgent
from refcompare.agents.sandbox.boundary import View, find_boundary
from refcompare.agents.sandbox.confined import run_confined
from refcompare.agents.trial import ArmEvals, TrialPlan, Workshop, run_trials
from refcompare.agents.workspace.capture import capture, listing
from refcompare.agents.workspace.places import copy_tree, own_place
from refcompare.agents.workspace.workspaces import build_workspace
from refcompare.errors import EnvironmentFailure
from refcompare.tree import TreeFile
from refcompare.trials import Trial, trial_value
from refcompare.wordpress.runtime import Runtime

FILES = 10_000
ROUNDS = 5
REQUESTS = 200
OWN_SECONDS = 2
"""What the agent itself takes, where a whole trial is measured."""

TOGETHER = 8
NOWHERE = Upstream(Api.ANTHROPIC, "http://127.0.0.1:9", "no key")
_PLACES = 6
"""Where each trial leaves its mark."""

_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Synthetic:
    """A tree of so many small files, in folders of twenty-five."""

    count: int
    digest: str = "synthetic"

    def files(self) -> Iterator[TreeFile]:
        """Give every file."""
        for number in range(self.count):
            path = f"src/folder-{number // 25:04}/file-{number:05}.php"
            yield TreeFile(path, len(self.read(path)))

    def read(self, path: str) -> bytes:
        """Give a file's bytes: from a few to a few thousand, no two alike."""
        found = hashlib.sha256(path.encode()).hexdigest()
        return (found * (1 + int(found[0], 16) * 4) + "\n").encode()

    def links(self) -> Mapping[str, str]:
        """Give no links."""
        return {}


def trial_overhead(_place: Place) -> Iterator[str]:
    """Seconds that a trial takes beyond the agent's own, with a workspace of ten thousand files."""
    for where, directory in (("on disk", Path(tempfile.gettempdir())), ("in memory", _MEMORY)):
        if not os.access(directory, os.W_OK):
            yield f"agent trial         none {where}: {directory} cannot be written to"
            continue
        with _temporary(directory):
            parts = _parts()
            whole, processor = _whole()
        middle = statistics.median(whole)
        yield f"agent trial         {middle:8.2f} s {where}, the slowest {max(whole):.2f} s (at most 1.5)"
        said = ", ".join(f"{name} {statistics.median(times):.2f}" for name, times in parts.items())
        yield f"  of which          {said} (the last while the next trial goes on)"
        yield f"  processor time    {processor:8.2f} s a trial; {_busy()}"


def _parts() -> dict[str, list[float]]:
    """Measure each part for itself, on the same workspace."""
    boundary = find_boundary()
    names = ("copy", "listing", "gateway", "sandbox", "capture", "removal")
    parts: dict[str, list[float]] = {name: [] for name in names}

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        parts[name].append(time.perf_counter() - started)

    with (
        build_workspace(Synthetic(FILES), WorkspaceSpec(), boundary) as arm,
        arm.trial() as original,
        own_place(mode=0o711) as home,
        Gateway([NOWHERE]) as gateway,
    ):
        for _ in range(ROUNDS):
            with own_place(home) as place:
                copy = place / "workspace"
                with timed("copy"):
                    copy_tree(original.original, copy)
                with timed("listing"):
                    before = listing(copy)
                with timed("gateway"):
                    handle = gateway.open()
                with timed("sandbox"):
                    run_confined(boundary, "true", View(copy, socket=handle.socket), 60)
                handle.close()
                with timed("capture"):
                    capture(copy, before, original.original)
                left = time.perf_counter()
            parts["removal"].append(time.perf_counter() - left)
    return parts


def _busy() -> str:
    """Say how much else this machine has to do: what is measured in seconds grows with it."""
    return f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} processors"


def _whole() -> tuple[list[float], float]:
    """Run trials of a program that sleeps; give the seconds of each beyond that, and processor seconds.

    It sleeps, as an agent waits for its model, since meanwhile the copy of the trial before is removed.
    """
    item = _eval(id="nothing", repeat=ROUNDS + 2, checks=[{"changed": "src"}])
    heard = _Heard()
    program = f"command@anthropic:sleep {OWN_SECONDS}"
    with ModelCrew(default=program, upstream=lambda api: NOWHERE) as crew:
        arm = ArmEvals("head", Synthetic(FILES), (item,))
        run_trials([arm], TrialPlan(), Workshop(crew, find_boundary(), _no_wordpress), heard)
    # Until the first had ended its arm's workspace was built too; after the last, all of it is removed.
    seconds = [after - before - OWN_SECONDS for before, after in itertools.pairwise(heard.ended[:-1])]
    return seconds, (heard.processor[-1] - heard.processor[0]) / len(seconds)


def gateway_overhead(_place: Place) -> Iterator[str]:
    """Milliseconds that the gateway adds to a request, asked in turn through it and directly."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "word " * 20_000}]}).encode()
    with (
        ScriptedModel(Script((Turn("Hello."),))) as model,
        Gateway([Upstream(Api.ANTHROPIC, model.url, "no key")], prices=FREE) as gateway,
    ):
        handle = gateway.open()
        direct, through = [], []
        for _ in range(REQUESTS):
            direct.append(_asked(model.url.removeprefix("http://"), None, body))
            through.append(_asked("gateway", handle.socket, body))
    added = 1000 * (statistics.median(through) - statistics.median(direct))
    bare = 1000 * statistics.median(direct)
    yield f"gateway             {added:8.1f} ms added to {bare:.1f} ms of a request of 100 kB (at most 5)"


def _asked(host: str, path: Path | None, body: bytes) -> float:
    """Ask a model, through a socket at ``path`` if there is one, and give the seconds."""
    started = time.perf_counter()
    connection = http.client.HTTPConnection(host, timeout=60)
    if path is not None:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(os.fspath(path))
    connection.request("POST", "/v1/messages", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"the model answered {answer.status}")
    return time.perf_counter() - started


# ---------------------------------------------------------------------------- side by side


class _Marker:
    """A model that has its agent leave a mark in every place that can be written, then look for others."""

    LEAVE = (
        "for place in /workspace ~ /tmp /var/tmp /dev/shm /outbox; do echo {0} > $place/{0}; done;"
        " (exec -a {0} sleep 600 >/dev/null 2>&1 &); echo left"
    )
    LOOK = (
        "ls -R /workspace ~ /tmp /var/tmp /dev/shm /outbox /home /run; cat /proc/[0-9]*/cmdline;"
        " cat /proc/net/unix /proc/net/tcp; cat /proc/[0-9]*/environ"
    )

    def __init__(self) -> None:
        self._all_left = threading.Barrier(TOGETHER, timeout=120)

    def turn(self, request: Mapping[str, Any], facts: RequestFacts, number: int) -> Turn | None:
        """Leave the mark of the prompt; wait until all have; look."""
        mark = re.search(r"mark-[a-z]+-\d+", json.dumps(request))
        if number > 1 or mark is None:
            return Turn("Done.")
        command = (self.LEAVE, self.LOOK)[number].replace("{0}", mark[0])
        if number == 1:
            self._all_left.wait()  # each trial has a thread to answer it
        return Turn("", (ScriptedCall(anthropic=("Bash", {"command": command})),))


@dataclass(frozen=True, slots=True)
class AtOnce:
    """What came of trials side by side: how many found their own mark, marks that one saw of another,
    what was left, and the seconds that it took."""

    trials: int
    own: int
    shared: list[str]
    left: list[str]
    seconds: float


def side_by_side(_place: Place) -> Iterator[str]:
    """Run eight trials at once that each leave marks: nobody finds another's, and nothing is left."""
    found = at_once()
    own = f"{found.own} found their own mark"
    yield f"side by side        {found.trials} trials at once in {found.seconds:.1f} s: {own}"
    yield f"  shared            {', '.join(found.shared) or 'nothing'} (must be nothing)"
    left = ", ".join(found.left) or "no process, directory or socket"
    yield f"  left              {left} (must be nothing)"


def at_once() -> AtOnce:
    """Run eight trials at once in which agents leave marks everywhere, and then look for marks."""
    with _temporary(Path(tempfile.gettempdir())) as directory:
        arms = []
        for name in ("base", "head"):
            marks = [f"mark-{name}-{number}" for number in range(TOGETHER // 2)]
            item = _eval(
                id=name, prompt="Leave {{mark}}.", repeat=1, matrix={"variables": {"mark": marks}},
                checks=[{"changed": "mark-*"}],
            )  # fmt: skip
            arms.append(ArmEvals(name, Synthetic(20), (item,)))
        crew = _Alone(StandInAgent(_Marker()))
        started = time.perf_counter()
        found = run_trials(
            arms, TrialPlan(jobs=TOGETHER), Workshop(crew, find_boundary(), _no_wordpress), _Heard()
        )
        seconds = time.perf_counter() - started
        trials = [trial for arm in found.values() for trial in arm]
        own, others = _marks_seen(trials)
        return AtOnce(len(trials), own, others, _left(directory), seconds)


def _marks_seen(trials: Sequence[Trial]) -> tuple[int, list[str]]:
    """Give how many trials saw their own mark, and the marks that a trial saw of another."""
    own, others = 0, []
    for trial in trials:
        kept = json.dumps(trial_value(trial))
        seen = set(re.findall(r"mark-[a-z]+-\d+", kept))
        mark = trial.variables["mark"]
        looked = trial.trajectory.calls[-1].output if trial.trajectory.calls else ""
        own += looked.count(mark) >= _PLACES
        others += sorted(seen - {mark})
    return own, others


def _left(directory: Path) -> list[str]:
    """Give what is still there of trials whose temporary files were in ``directory``."""
    left = [f"{path.name} in {directory}" for path in directory.iterdir()]
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes()
        except OSError:
            continue
        if re.search(rb"mark-(base|head)-\d", words):
            left.append(f"process {entry.parent.name}")
    sockets = Path("/proc/net/unix").read_text()
    return [*left, *(line.split()[-1] for line in sockets.splitlines() if str(directory) in line)]


@dataclass(frozen=True, slots=True)
class _Alone:
    """A crew of one agent, which has a way to its model of its own."""

    only: Agent

    def agent(self, spec: str | None) -> Agent:
        return self.only

    @contextmanager
    def door(
        self, agent: Agent, limits: AgentLimits, conversation: Conversation
    ) -> Iterator[GatewayHandle | None]:
        yield None


class _Heard:
    """Notes when each trial ended, and the processor seconds of this process and its children until then."""

    def __init__(self) -> None:
        self.ended: list[float] = []
        self.processor: list[float] = []

    def begin(self, phase: str, total: int) -> None:
        pass

    def tried(self, arm: str, trial: Trial) -> None:
        self.ended.append(time.perf_counter())
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        self.processor.append(sum(each.ru_utime + each.ru_stime for each in used))

    def advance(self) -> None:
        pass


def _eval(**changed: Any) -> Eval:
    value = {"prompt": "Do nothing.", **changed}
    found = read_eval(json.dumps(value).encode(), "datasets/suites/benchmark/agent/it.yaml")
    if not isinstance(found, Eval):
        raise RuntimeError(found.reason)
    return found


def _no_wordpress() -> Runtime:
    raise EnvironmentFailure("no WordPress is needed here")


@contextmanager
def _temporary(directory: Path) -> Iterator[Path]:
    """Have temporary files made in a directory of its own in ``directory``, which agents can enter."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="refcompare-bench-", dir=directory) as own:
        Path(own).chmod(0o711)
        tempfile.tempdir = own
        try:
            yield Path(own)
        finally:
            tempfile.tempdir = before
