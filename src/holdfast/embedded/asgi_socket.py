"""A WebSocket between a client and an application in the same process. Both directions are bounded: a sender waits
until the other side has read."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from holdfast.client.errors import ClientError
from holdfast.client.transport import SocketClosed, SocketRefused

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from holdfast.embedded.asgi_transport import Application

MESSAGES = 16
"""Messages per direction that may wait to be read."""
ABNORMAL = 1006
FAILED = "the embedded server failed"


class AsgiSocket:
    def __init__(self) -> None:
        self._sent: deque[str | bytes] = deque()
        self._typed: deque[MutableMapping[str, Any]] = deque([{"type": "websocket.connect"}])
        self._moved = asyncio.Event()
        """Set by every change; waiters check their condition again."""
        self._accepted = False
        self._status: tuple[int, str] | None = None
        self._refusal = b""
        self._closed: SocketClosed | None = None
        self._failure: Exception | None = None
        self._left = False

    async def run(self, application: Application, scope: dict[str, Any]) -> None:
        """Run the application's side until it ends."""
        try:
            await application(scope, self._next_typed, self._take)
        except Exception as error:  # noqa: BLE001 - raised in the client
            self._failure = error
        finally:
            self._closed = self._closed or SocketClosed(ABNORMAL, "")
            self._moved.set()

    async def opened(self) -> None:
        """Wait until the application accepts. Raises SocketRefused if it refuses, ClientError if it fails."""
        while not self._accepted and self._closed is None:
            await self._wait()
        if self._accepted:
            return
        if self._failure is not None:
            raise ClientError("Transport", FAILED) from self._failure
        status, kind = self._status or (403, "")
        raise SocketRefused(status, kind, self._refusal)

    async def receive(self) -> str | bytes:
        while not self._sent:
            if self._closed is not None:
                raise SocketClosed(self._closed.code, self._closed.reason)
            await self._wait()
        self._moved.set()
        return self._sent.popleft()

    async def send(self, text: str) -> None:
        while len(self._typed) >= MESSAGES and self._closed is None:
            await self._wait()
        if self._closed is not None:
            raise SocketClosed(self._closed.code, self._closed.reason)
        self._typed.append({"type": "websocket.receive", "text": text})
        self._moved.set()

    async def close(self) -> None:
        self._left = True
        self._moved.set()

    async def _next_typed(self) -> MutableMapping[str, Any]:
        while not self._typed:
            if self._left:
                return {"type": "websocket.disconnect", "code": 1000}
            await self._wait()
        self._moved.set()
        return self._typed.popleft()

    async def _take(self, message: MutableMapping[str, Any]) -> None:
        match message["type"]:
            case "websocket.accept":
                self._accepted = True
            case "websocket.send":
                while len(self._sent) >= MESSAGES and not self._left:
                    await self._wait()
                if self._left:
                    raise OSError("the client has disconnected")
                text = message.get("text")
                self._sent.append(message["bytes"] if text is None else text)
            case "websocket.http.response.start":
                headers = dict(message["headers"])
                kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip()
                self._status = (message["status"], kind)
            case "websocket.http.response.body":
                self._refusal += message.get("body", b"")
            case "websocket.close":
                self._closed = SocketClosed(message.get("code", 1000), message.get("reason") or "")
        self._moved.set()

    async def _wait(self) -> None:
        """Wait for the next change."""
        self._moved.clear()
        await self._moved.wait()
