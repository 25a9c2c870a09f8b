"""A TCP proxy in front of a server: it cuts connections at chosen places, or stands still."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from tests.stores.server import OWNER

Rule = Callable[["Pair", bytes], bool]
"""Looks at bytes before they are passed on; true cuts both sides, and the bytes are not passed on."""


class Pair:
    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.sent = 0
        self.received = 0

    def cut(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.cut()
        self.client.close()
        self.server.close()


class Proxy:
    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.pairs: list[Pair] = []
        self.from_client: Rule | None = None
        self.from_server: Rule | None = None
        self.after_client: Rule | None = None
        """As `from_client`, but the bytes have reached the server."""
        self.refuses = False
        self.moves = threading.Event()
        """While this is cleared, nothing is passed on."""
        self.moves.set()
        self.cuts = 0
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def address(self, database: str) -> str:
        return f"postgresql://{OWNER}@127.0.0.1:{self.port}/{database}?sslmode=disable&gssencmode=disable"

    def cut(self) -> None:
        """End all connections."""
        for pair in self.pairs:
            pair.cut()

    def heal(self) -> None:
        self.from_client = self.from_server = self.after_client = None
        self.refuses = False
        self.moves.set()

    def close(self) -> None:
        self._closed = True
        self.heal()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(5)

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuses:
                client.close()
                continue
            pair = Pair(client, socket.create_connection(("127.0.0.1", self._port)))
            self.pairs.append(pair)
            self._start(self._serve, pair)

    def _serve(self, pair: Pair) -> None:
        selector = selectors.DefaultSelector()
        try:
            selector.register(pair.client, selectors.EVENT_READ)
            selector.register(pair.server, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    self.moves.wait()
                    if not self._pass_on(pair, key.fileobj is pair.client):
                        return
        except (OSError, ValueError):
            return
        finally:
            selector.close()
            pair.close()

    def _pass_on(self, pair: Pair, from_client: bool) -> bool:
        source, target = (pair.client, pair.server) if from_client else (pair.server, pair.client)
        data = source.recv(65536)
        rule = self.from_client if from_client else self.from_server
        if not data:
            return False
        if rule is not None and rule(pair, data):
            self.cuts += 1
            return False
        target.sendall(data)
        if from_client and self.after_client is not None and self.after_client(pair, data):
            self.cuts += 1
            return False
        return True
