"""The boundary that bubblewrap makes around an agent, on top of the sandbox that graders run in."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from refcompare.agents.sandbox.boundary import (
    ENVIRONMENT,
    HOME,
    LAUNCHER,
    SHARED_BYTES,
    TMP_BYTES,
    WORKSPACE,
    Layer,
    View,
    check_view,
    close_streams,
    launcher_command,
    launcher_source,
    system_files,
    view_mounts,
    workspace_owner,
)
from refcompare.errors import EnvironmentFailure
from refcompare.sandbox import Mount, Sandbox, seccomp_filter

_END_SECONDS = 30.0
_PLACES = tuple(Mount(path, size=TMP_BYTES) for path in ("/tmp", "/var/tmp", HOME))  # noqa: S108 (inside)


# What leaving out a wall takes from bubblewrap's command line: a flag, and how many words with it.
_FLAGS: Mapping[Layer, tuple[tuple[str, int], ...]] = {
    Layer.ENVIRONMENT: (("--clearenv", 1),),
    Layer.NETWORK: (("--unshare-net", 1),),
    Layer.PROCESSES: (("--unshare-pid", 1),),
    Layer.IPC: (("--unshare-ipc", 1),),
    Layer.HOSTNAME: (("--unshare-uts", 1), ("--hostname", 2)),
    Layer.CONTROL_GROUPS: (("--unshare-cgroup-try", 1),),
    Layer.USER_NAMESPACES: (("--disable-userns", 1),),
    Layer.CAPABILITIES: (("--cap-drop", 2),),
    Layer.TERMINAL: (("--new-session", 1),),
    Layer.LIFETIME: (("--die-with-parent", 1),),
    Layer.MEMORY: (("--size", 2),),
}


class _Confined(subprocess.Popen[bytes]):
    """A running sandbox, with a descriptor of its first process, which is the last to end."""

    first: int | None = None


@dataclass(frozen=True, slots=True)
class BubblewrapBoundary:
    """Confines programs with bubblewrap. ``without`` leaves walls out, for tests of the probes."""

    without: frozenset[Layer] = frozenset()
    name: str = "bubblewrap"

    def start(self, command: Sequence[str], view: View) -> subprocess.Popen[bytes]:
        """Start a program; see Boundary."""
        check_view(view)
        with ExitStack() as opened:
            texts = {path: _readable(text.encode(), opened) for path, text in _texts().items()}
            program = None if Layer.SYSTEM_CALLS in self.without else seccomp_filter(internet=True)
            filters = None if program is None else _readable(program, opened)
            information, told = os.pipe()
            opened.callback(os.close, information)
            os.set_inheritable(told, True)
            # Handed over apart from the command line, which the agent can read and which would tell it
            # where on this machine its workspace lies.
            bubblewrap, *line = self._options(view, texts, filters, told)
            options = _readable(
                "".join(f"{word}\0" for word in line).encode("utf-8", "surrogateescape"), opened
            )
            passed = [*texts.values(), told, options, *([] if filters is None else [filters])]
            try:
                process = _Confined(
                    [bubblewrap, "--args", str(options), "--", *self._inside(command, view)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    pass_fds=() if Layer.DESCRIPTORS in self.without else passed,
                    umask=0o022,
                    **self._started(),
                )
            except OSError as error:
                raise EnvironmentFailure(f"bubblewrap could not be started: {error}.") from error
            finally:
                os.close(told)
            process.first = _first_process(information)
        _hand_over(process)
        return process

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """End a program and wait until everything in its namespace is gone."""
        process.kill()
        close_streams(process)
        first = getattr(process, "first", None)
        if first is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(first, signal.SIGKILL)
        process.wait()
        if first is None:
            return
        # The kernel ends a namespace's first process only after all others are gone. bubblewrap's own
        # process does not wait for that, and the workspace must not change while it is looked at.
        gone, _, _ = select.select([first], [], [], _END_SECONDS)
        process.first = None  # type: ignore[attr-defined]
        os.close(first)
        if not gone:
            raise EnvironmentFailure(f"A sandbox did not end within {_END_SECONDS:g} s of being killed.")

    def _started(self) -> dict[str, Any]:
        """How bubblewrap itself is started: with nothing of this process, and never as root."""
        settings: dict[str, Any] = {"env": {}}
        if Layer.ENVIRONMENT in self.without:
            settings["env"] = dict(os.environ)
        settings["close_fds"] = Layer.DESCRIPTORS not in self.without
        if os.geteuid() == 0 and Layer.HOST_USER not in self.without:
            user, group = workspace_owner()
            settings |= {"user": user, "group": group, "extra_groups": ()}
        return settings

    def _options(self, view: View, texts: Mapping[str, int], filters: int | None, told: int) -> list[str]:
        """Give bubblewrap's program and its options."""
        # Files that are made up, and the devices that shells and test runners want (/dev/fd, /dev/shm, a
        # terminal of their own).
        more = ["--dev", "/dev", "--size", str(SHARED_BYTES), "--perms", "1777", "--tmpfs", "/dev/shm"]  # noqa: S108
        for path, descriptor in texts.items():
            more += ["--perms", "0444", "--ro-bind-data", str(descriptor), path]
        if Layer.FILES in self.without:
            beside = str(view.workspace.parent)
            more += ["--ro-bind", beside, beside]
        sandbox = Sandbox(
            mounts=(*_PLACES, *view_mounts(view)),
            environment={**ENVIRONMENT, **view.environment},
            directory=WORKSPACE,
            proc=True,
            internet=True,
            more=(*more, "--info-fd", str(told)),
        )
        return self._left_out(sandbox.arguments(filters)[:-1])

    def _left_out(self, line: list[str]) -> list[str]:
        for layer in self.without:
            for flag, words in _FLAGS.get(layer, ()):
                while flag in line:
                    del line[line.index(flag) : line.index(flag) + words]
        if Layer.CAPABILITIES in self.without:
            line += ["--cap-add", "ALL"]
        if Layer.KERNEL_SETTINGS in self.without:
            while "/proc/sys" in line:
                place = line.index("/proc/sys")
                del line[place - 1 : place + 2]
        if Layer.SYSTEM_READ_ONLY in self.without:
            place = _index(line, "--remount-ro", "/")
            del line[place : place + 2]
        return line

    def _inside(self, command: Sequence[str], view: View) -> list[str]:
        return [*launcher_command(view, limits=Layer.LIMITS not in self.without), *command]


def _texts() -> dict[str, str]:
    return {**system_files(1000), LAUNCHER: launcher_source()}


def _readable(data: bytes, opened: ExitStack) -> int:
    """Give a descriptor from which ``data`` can be read once."""
    descriptor = os.memfd_create("refcompare")
    opened.callback(os.close, descriptor)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.set_inheritable(descriptor, True)
    return descriptor


def _hand_over(process: subprocess.Popen[bytes]) -> None:
    """Give the streams to the agent's uid: it may then open /dev/stdout, as on any other machine."""
    user, group = workspace_owner()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None and user != os.geteuid():
            os.fchown(stream.fileno(), user, group)  # both ends of a pipe are one inode


def _first_process(information: int) -> int | None:
    """Give a descriptor of a namespace's first process, from what bubblewrap tells; None if it failed."""
    told = b""
    while piece := os.read(information, 4096):
        told += piece
    try:
        return os.pidfd_open(int(json.loads(told)["child-pid"]))
    except (ValueError, LookupError, TypeError, OSError):
        return None


def _index(line: Sequence[str], *words: str) -> int:
    """Give where ``words`` stand side by side in a command line."""
    return next(n for n in range(len(line)) if tuple(line[n : n + len(words)]) == words)
