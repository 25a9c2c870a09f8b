"""Sends server-sent events with heartbeats. The source is closed however the response ends."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, nullcontext
from typing import TYPE_CHECKING, Any

from holdfast.schema.exceptions import TooManyRequests

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from holdfast.server.types import Receive, Send

HEARTBEAT_SECONDS = 15.0
HEARTBEAT = b": heartbeat\n\n"
HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]
LAST_WORDS_SECONDS = 0.2
CHUNK_BYTES = 64 * 1024

log = logging.getLogger(__name__)


async def send_stream(
    frames: AsyncGenerator[bytes, None],
    receive: Receive,
    send: Send,
    stopping: asyncio.Event,
    headers: list[tuple[bytes, bytes]],
    sending: Callable[[int], AbstractContextManager[None]] = lambda size: nullcontext(),
    *,
    ended: asyncio.Event | None = None,
) -> None:
    """Ends with the source, on disconnect, when the server stops, or when the caller's sign-in has `ended`; an error of
    the source ends the connection. After a stop or such an end the source has LAST_WORDS_SECONDS for its final
    events. `sending` is entered with the size of what is sent; it raises TooManyRequests to end the stream of a caller
    that reads too slowly."""
    await send({"type": "http.response.start", "status": 200, "headers": [*HEADERS, *headers]})
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    gone = asyncio.ensure_future(disconnected(receive))
    over = asyncio.ensure_future(_over(stopping, ended))
    async with aclosing(frames):
        upcoming: asyncio.Future[bytes] = asyncio.ensure_future(anext(frames))
        try:
            while True:
                watched: set[asyncio.Future[Any]] = {upcoming, gone, over}
                await asyncio.wait(watched, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if gone.done():
                    return
                if over.done():
                    break
                if upcoming.done():
                    body = upcoming.result()
                    upcoming = asyncio.ensure_future(anext(frames))
                else:
                    body = HEARTBEAT
                with sending(len(body)):
                    await send({"type": "http.response.body", "body": body, "more_body": True})
        except StopAsyncIteration:
            pass
        except (OSError, TooManyRequests):
            return  # the client disconnected, or is disconnected now
        finally:
            leftover: set[asyncio.Future[Any]] = {upcoming, gone, over}
            for task in leftover:
                task.cancel()
            await asyncio.wait(leftover)
            if not upcoming.cancelled():
                upcoming.exception()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def joined(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Frames in chunks of about `CHUNK_BYTES`: many small ones are sent at once, and no large one is copied with its
    neighbours."""
    chunk: list[bytes] = []
    size = 0
    for frame in frames:
        chunk.append(frame)
        size += len(frame)
        if size >= CHUNK_BYTES:
            yield b"".join(chunk)
            chunk, size = [], 0
    if chunk:
        yield b"".join(chunk)


async def disconnected(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _over(stopping: asyncio.Event, ended: asyncio.Event | None) -> None:
    """Return a moment after the first of both."""
    if ended is None:
        await stopping.wait()
    else:
        waits = [asyncio.ensure_future(event.wait()) for event in (stopping, ended)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
    await asyncio.sleep(LAST_WORDS_SECONDS)
