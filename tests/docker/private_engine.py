"""An engine of a test's own, to be killed, started again and filled up without touching anybody's."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_TOOLS = ("dockerd", "unshare", "nsenter", "mount", "ip")


class PrivateEngine:
    """A Docker daemon in namespaces of its own, with its data in memory.

    ``host`` is what DOCKER_HOST has to name. The namespaces are held by a process of their own, so that
    the data outlives the daemon.
    """

    def __init__(self, directory: Path, size: str) -> None:
        self.directory = directory
        self.host = f"unix://{directory}/docker.sock"
        self._daemon: subprocess.Popen[bytes] | None = None
        script = (
            f"mount -t tmpfs -o size={size} tmpfs {directory}/data && ip link set lo up && exec sleep 3600"
        )
        for name in ("data", "exec"):
            (directory / name).mkdir()
        self._holder = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", script])

    def start(self) -> None:
        (self.directory / "docker.pid").unlink(missing_ok=True)
        with (self.directory / "log").open("ab") as log:
            self._daemon = subprocess.Popen(
                [
                    *self._inside(), "dockerd", "--data-root", f"{self.directory}/data",
                    "--exec-root", f"{self.directory}/exec", "--pidfile", f"{self.directory}/docker.pid",
                    "--host", self.host, "--bridge", "none", "--iptables=false",
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        deadline = time.monotonic() + 60
        while self.run("version").returncode != 0:
            assert time.monotonic() < deadline, (self.directory / "log").read_text()[-2000:]
            time.sleep(0.2)

    def kill(self) -> None:
        """End the daemon at once, as a crash would, and its containerd, as whatever starts it again does."""
        assert self._daemon is not None
        self._daemon.send_signal(signal.SIGKILL)
        self._daemon.wait()
        self._end_containerd()

    def _end_containerd(self) -> None:
        pid_file = self.directory / "exec" / "containerd" / "containerd.pid"
        if not pid_file.is_file():
            return
        process = int(pid_file.read_text())
        with contextlib.suppress(ProcessLookupError):
            command = Path(f"/proc/{process}/cmdline")
            while command.is_file() and str(self.directory).encode() in command.read_bytes():
                os.kill(process, signal.SIGKILL)
                time.sleep(0.05)
        pid_file.unlink()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["docker", "--host", self.host, *arguments], capture_output=True, check=False)

    def load(self, reference: str) -> None:
        """Copy an image from the engine that everybody uses."""
        command = ["docker", "--host", self.host, "load"]
        with subprocess.Popen(["docker", "save", reference], stdout=subprocess.PIPE) as saved:
            subprocess.run(command, stdin=saved.stdout, check=True, capture_output=True)
        assert saved.returncode == 0

    def fill(self) -> None:
        """Leave no space where the engine keeps its data."""
        target = f"{self.directory}/data/filler"
        subprocess.run([*self._inside(), "dd", "if=/dev/zero", f"of={target}", "bs=1M"], capture_output=True)

    def stop(self) -> None:
        if self._daemon is not None and self._daemon.poll() is None:
            self._daemon.terminate()
            self._daemon.wait(timeout=60)
        self._end_containerd()
        self._holder.kill()
        self._holder.wait()

    def _inside(self) -> list[str]:
        return ["nsenter", "--target", str(self._holder.pid), "--net", "--mount"]


@contextmanager
def private_engine(directory: Path, size: str) -> Iterator[PrivateEngine]:
    """Start one with so much space (as mount writes it); skip where that needs more than this user may do.

    As root, REFCOMPARE_REQUIRE_DOCKER=1 makes a program that is not there a failure.
    """
    missing = [name for name in _TOOLS if shutil.which(name) is None]
    if os.geteuid() == 0 and missing and os.environ.get("REFCOMPARE_REQUIRE_DOCKER") == "1":
        pytest.fail(f"an engine of its own needs {', '.join(missing)}")
    if os.geteuid() != 0 or missing:
        pytest.skip(f"an engine of its own needs root and {', '.join(missing or _TOOLS)}")
    engine = PrivateEngine(directory, size)
    try:
        time.sleep(0.3)
        engine.start()
        yield engine
    finally:
        engine.stop()
