"""Forwards a port inside a network namespace to the Unix socket of the runtime's proxy, then executes a command. A
separate program inside the sandbox; imports only built-in modules, as the launcher does."""

from __future__ import annotations

import _socket
import _thread
import posix
import sys

CHUNK = 65536
BACKLOG = 64
FAILED = 125


def main(proxy: str, port: int, command: list[str]) -> None:
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", port))
    listener.listen(BACKLOG)
    # A grandchild, so that the command has no child that it did not start.
    child = posix.fork()
    if child == 0:
        if posix.fork() == 0:
            detach()
            serve(listener, proxy)
        posix._exit(0)
    posix.waitpid(child, 0)
    listener.close()
    posix.execve(command[0], command, posix.environ)


def detach() -> None:
    nothing = posix.open("/dev/null", posix.O_RDWR)
    for descriptor in range(3):
        posix.dup2(nothing, descriptor)


def serve(listener: _socket.socket, proxy: str) -> None:
    while True:
        handle, _ = listener._accept()  # type: ignore[attr-defined]
        inner = _socket.socket(fileno=handle)
        outer = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            outer.connect(proxy)
        except OSError:
            inner.close()
            outer.close()
            continue
        _thread.start_new_thread(pump, (inner, outer))
        _thread.start_new_thread(pump, (outer, inner))


def pump(source: _socket.socket, target: _socket.socket) -> None:
    try:
        while data := source.recv(CHUNK):
            target.sendall(data)
        target.shutdown(_socket.SHUT_WR)
    except OSError:
        source.close()
        target.close()


def run() -> None:
    try:
        main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
    except BaseException as error:  # noqa: BLE001 - every error is reported and ends the process
        posix.write(2, f"holdfast: the connection to the proxy failed: {error}\n".encode("utf-8", "replace"))
        posix._exit(FAILED)
