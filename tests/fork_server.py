"""Forks `holdfast` processes: imports everything once, then becomes each command that it is asked for.

A request is the length of a JSON document, together with four descriptors: the standard streams of the process, and the
pipe that gets its id and, at the end, its status.

A forked process has an id, signals, standard streams and an exit code of its own and can be killed, as one that was
started. It differs in this: modules are not imported anew, nothing is synced, and `/proc` shows the environment of the
server."""

from __future__ import annotations

import fcntl
import gc
import io
import json
import os
import signal
import socket
import sys
import termios
from contextlib import suppress
from importlib import import_module
from typing import NamedTuple

from tests.unsynced import leave_out_syncs

from holdfast.cli.main import COMMANDS, main, module_of
from holdfast.schema.deferred import load_next

LENGTH = b"%8d"
"""How the length of a request is written."""
NUMBER = b"%12d"
"""How ids and statuses are written."""
MODULES = ("holdfast.cli.turn", "holdfast.embedded.holdfast", "holdfast.embedded.serve", "uvicorn", "uvloop")


class Request(NamedTuple):
    arguments: list[str]
    directory: str
    environment: dict[str, str]
    new_session: bool
    terminal: bool
    """Whether standard input becomes the controlling terminal."""


def serve(requests: socket.socket) -> None:
    """Return in each process that is to be a command; end with the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        head, descriptors, _, _ = socket.recv_fds(requests, len(LENGTH % 0), 4)
        if not head:
            sys.exit()
        body = b""
        while len(body) < int(head):
            body += requests.recv(int(head) - len(body))
        if os.fork() == 0:
            requests.close()
            return supervise(Request(*json.loads(body)), descriptors[:3], descriptors[3])
        for descriptor in descriptors:
            os.close(descriptor)


def _reap(*_: object) -> None:
    """Wait for supervisors that have ended; their processor time is counted as ours."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def supervise(request: Request, streams: list[int], report: int) -> None:
    """Return in the process of the command; the one that reports its status ends here."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(report)
        return become(request, streams)
    for descriptor in streams:
        os.close(descriptor)
    os.write(report, NUMBER % pid)
    _, status = os.waitpid(pid, 0)
    os.write(report, NUMBER % status)
    os._exit(0)


def become(request: Request, streams: list[int]) -> None:
    """Everything that the start of a program sets."""
    if request.new_session:
        os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request.terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    open_streams()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request.directory)
    coerced = {name: os.environ[name] for name in ("LC_CTYPE",) if name in os.environ}
    os.environ.clear()
    os.environ.update({**coerced, **request.environment})
    sys.argv = ["holdfast", *request.arguments]
    sys.path[0] = os.path.dirname(sys.executable)  # of the script that is started otherwise


def open_streams() -> None:
    """As an interpreter does: those of this one are for other files."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        like = getattr(sys, name)
        raw = io.FileIO(descriptor, "w" if descriptor else "r", closefd=False)
        buffer = io.BufferedWriter(raw) if descriptor else io.BufferedReader(raw)
        by_line = os.isatty(descriptor) or name == "stderr"
        stream = io.TextIOWrapper(buffer, like.encoding, like.errors, line_buffering=by_line)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def import_everything() -> None:
    for name in (*MODULES, *map(module_of, COMMANDS)):
        import_module(name)
    while load_next():
        pass
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    leave_out_syncs(setattr)
    import_everything()
    serve(socket.socket(fileno=int(sys.argv[1])))
    main()
