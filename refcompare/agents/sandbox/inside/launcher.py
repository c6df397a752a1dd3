"""The first program in a boundary: limits what follows, opens the way to the model, starts the agent.

Arguments: a JSON object and the command. ``socket`` is the gateway's, or empty, and ``port`` the port
of 127.0.0.1 that leads there; ``lifeline`` is a socket on whose end everything here ends, or empty;
``limits`` says whether to limit what follows.
"""

import contextlib
import json
import os
import resource
import socket
import sys
import threading

PROCESSES = 2048
"""How many processes and threads there may be in this boundary."""

FILE_BYTES = 4 * 1024**3
"""How large one file may become, holes included."""

PIECE = 65536


def main() -> int:
    """Run the command to its end, and give its exit status as a shell would."""
    told, command = json.loads(sys.argv[1]), sys.argv[2:]
    if told["limits"]:
        limit()
    if told["lifeline"]:
        line = socket.socket(socket.AF_UNIX)
        line.connect(told["lifeline"])
        threading.Thread(target=live_by, args=(line,), daemon=True).start()
    listener = None
    if told["socket"]:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", told["port"]))
        listener.listen(128)
    try:
        child = os.posix_spawnp(command[0], command, os.environ)
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be started: {error.strerror}\n")
        return 127
    if listener is not None:
        threading.Thread(target=forward, args=(listener, told["socket"]), daemon=True).start()
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == child:
            break
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def limit() -> None:
    """Limit this process and all that come of it."""
    for kind, most in (
        (resource.RLIMIT_NPROC, PROCESSES),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def live_by(line: socket.socket) -> None:
    """End everything when the other side of a socket is gone."""
    with contextlib.suppress(OSError):
        while line.recv(1):
            pass
    os._exit(137)


def forward(listener: socket.socket, address: str) -> None:
    """Connect whoever comes to the gateway."""
    while True:
        near = listener.accept()[0]
        far = socket.socket(socket.AF_UNIX)
        try:
            far.connect(address)
        except OSError:
            near.close()
            far.close()
            continue
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for source, target in ((near, far), (far, near)):
            threading.Thread(target=copy, args=(source, target), daemon=True).start()


def copy(source: socket.socket, target: socket.socket) -> None:
    """Hand on what one side says until it says no more."""
    try:
        while True:
            piece = source.recv(PIECE)
            if not piece:
                break
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main())
