"""One WebSocket to a terminal of this process: replay, cursor, output, input.

Invariants
- One task writes to a socket, so replay, cursor, output and close stay in order. A closed socket leaves its terminal
  running."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.pty.errors import PtyExited, PtyNotFound
from holdfast.core.pty.output import pieces
from holdfast.core.pty.terminal import Behind, End, TerminalReplay
from holdfast.schema.codec import encode
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.pty.ptys import Ptys
    from holdfast.core.pty.terminal import Attachment
    from holdfast.server.types import Receive, Send

FRAME_UNITS = 65_536
INPUT_BYTES = 65_536


class _Close(Frozen):
    code: int
    reason: str = ""


NOT_FOUND = _Close(4404, "session not found")
EXITED = _Close(4404, "session exited")
TOO_SLOW = _Close(4408, "output was dropped; resume from your cursor")


class TerminalConnection:
    def __init__(self, ptys: Ptys, pty_id: str, receive: Receive, send: Send, *, cursor: int | None) -> None:
        self._ptys = ptys
        self._pty_id = pty_id
        self._cursor = cursor
        self._receive = receive
        self._send = send
        self._wake = asyncio.Event()
        self._closing: _Close | None = None

    def finish(self, code: int) -> None:
        """Close after the current message. The first code is kept."""
        self._closing = self._closing or _Close(code)
        self._wake.set()

    async def run(self) -> None:
        try:
            await self._send({"type": "websocket.accept"})
            try:
                attachment = self._ptys.attach(self._pty_id, self._wake.set, cursor=self._cursor)
            except PtyNotFound:
                await self._close(NOT_FOUND)
            except PtyExited:
                await self._replay(self._ptys.replay(self._pty_id, self._cursor))
                await self._close(self._closing or EXITED)
            else:
                await self._follow(attachment)
        except OSError:
            return  # the client disconnected

    async def _follow(self, attachment: Attachment) -> None:
        both = (asyncio.ensure_future(self._deliver(attachment)), asyncio.ensure_future(self._listen(attachment)))
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            attachment.detach()
            for task in both:
                task.cancel()
            await asyncio.wait(both)
        for task in done:
            task.result()

    async def _deliver(self, attachment: Attachment) -> None:
        """Send output until the terminal ends, the client falls behind, or the connection closes."""
        await self._replay(TerminalReplay(attachment.replay, attachment.cursor))
        attachment.activate()
        while self._closing is None:
            match attachment.take(FRAME_UNITS):
                case str(text):
                    await self._send({"type": "websocket.send", "text": text})
                case End():
                    self._closing = _Close(1000)
                case Behind():
                    self._closing = TOO_SLOW
                case None:
                    self._wake.clear()
                    await self._wake.wait()
        await self._close(self._closing)

    async def _replay(self, replay: TerminalReplay) -> None:
        for piece in pieces(replay.text, FRAME_UNITS):
            if self._closing is not None:
                return
            await self._send({"type": "websocket.send", "text": piece})
        await self._send({"type": "websocket.send", "bytes": b"\0" + encode({"cursor": replay.cursor})})

    async def _listen(self, attachment: Attachment) -> None:
        """Receive input until the client disconnects; waits while the terminal does not read."""
        while (message := await self._receive())["type"] == "websocket.receive":
            data = message.get("bytes")
            if data is None:
                data = message["text"].encode()
            if len(data) > INPUT_BYTES:
                self.finish(1009)
            try:
                text = data.decode()
            except UnicodeDecodeError:
                continue
            if self._closing is None:
                await attachment.write(text)

    async def _close(self, close: _Close) -> None:
        await self._send({"type": "websocket.close", "code": close.code, "reason": close.reason})
