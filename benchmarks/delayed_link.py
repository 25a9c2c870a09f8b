"""A TCP link with a latency: `python benchmarks/delayed_link.py PORT MILLISECONDS` prints the port that it listens on.

It is a process of its own with blocking threads, because event loops round their timers to milliseconds. It ends with
its standard input."""

from __future__ import annotations

import queue
import socket
import sys
import threading
import time
from contextlib import suppress


def main(target: int, delay: float) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=_serve, args=(listener, target, delay), daemon=True).start()
    sys.stdin.read()


def _serve(listener: socket.socket, target: int, delay: float) -> None:
    while True:
        client, _ = listener.accept()
        server = socket.create_connection(("127.0.0.1", target))
        for source, sink in ((client, server), (server, client)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            chunks: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
            threading.Thread(target=_take, args=(source, chunks, delay), daemon=True).start()
            threading.Thread(target=_give, args=(sink, chunks), daemon=True).start()


def _take(source: socket.socket, chunks: queue.SimpleQueue[tuple[float, bytes]], delay: float) -> None:
    data = b"-"
    while data:
        try:
            data = source.recv(262_144)
        except OSError:
            data = b""
        chunks.put((time.perf_counter() + delay, data))


def _give(sink: socket.socket, chunks: queue.SimpleQueue[tuple[float, bytes]]) -> None:
    with suppress(OSError):
        while True:
            due, data = chunks.get()
            if (early := due - time.perf_counter()) > 0:
                time.sleep(early)
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            sink.sendall(data)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]) / 1000)
