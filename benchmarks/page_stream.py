"""What a page that follows an answer costs: processor time of a stream of deltas with and without a follower.

python benchmarks/page_stream.py [--deltas 20000] [--rate 500]"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.llm.offline import OfflineResponse
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Prompt
from holdfast.server.web import stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.llm.route.transport import HttpRequest

WORDS = ("The ", "quick ", "**brown** ", "fox ", "jumps ", "over ", "`the` ", "lazy ", "dog. ")
BURST = 0.02
"""Seconds between two network reads."""


class Talking:
    """A model that says many words at a steady rate, some of them code, with an empty line after every hundredth."""

    def __init__(self, deltas: int, rate: int) -> None:
        self._deltas = deltas
        self._rate = rate

    async def send(self, request: HttpRequest) -> OfflineResponse:
        return OfflineResponse(200, self._frames())

    async def close(self) -> None:
        pass

    async def _frames(self) -> AsyncIterator[bytes]:
        base = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "echo"}
        loop = asyncio.get_running_loop()
        begun, sent = loop.time(), 0
        while sent < self._deltas:
            await asyncio.sleep(BURST)
            due = min(self._deltas, int((loop.time() - begun) * self._rate))
            pieces = [
                WORDS[number % len(WORDS)] + ("\n\n" if number % 100 == 99 else "") for number in range(sent, due)
            ]
            sent = due
            yield b"".join(
                b"data: %s\n\n"
                % json.dumps(
                    {**base, "choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]}
                ).encode()
                for piece in pieces
            )
        end = {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        yield b"data: %s\n\ndata: [DONE]\n\n" % json.dumps(end).encode()


async def measure(deltas: int, rate: int, *, follow: bool) -> tuple[float, float, int]:
    """Seconds of processor time and of wall-clock time, and the bytes that the page got."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        async with Runtime(
            paths=Paths(place / "data"),
            directory=place,
            environment={"HOME": folder},
            transport=Talking(deltas, rate),
            options=HostOptions(titles=False),
        ) as runtime:
            session = await runtime.sessions.create(
                location=runtime.location,
                project=await runtime.project(runtime.location),
                model=ModelRef(id="echo", provider_id="demo"),
            )
            size = 0

            async def read() -> None:
                nonlocal size
                async for chunk in stream.frames(runtime, session.id, None, asyncio.Event()):
                    size += len(chunk)

            page = asyncio.create_task(read()) if follow else None
            await asyncio.sleep(0.5)  # the page has begun, and its imports are done
            cpu, wall = time.process_time(), time.perf_counter()
            await runtime.sessions.prompt(session.id, Prompt(text="go"))
            await runtime.sessions.wait(session.id)
            await asyncio.sleep(0.1)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            if page is not None:
                page.cancel()
                with suppress(asyncio.CancelledError):
                    await page
            return cpu, wall, size


async def main(deltas: int, rate: int) -> None:
    await measure(200, 2_000, follow=True)  # imports
    for follow in (False, True):
        cpu, wall, size = await measure(deltas, rate, follow=follow)
        name = "with a follower" if follow else "without"
        print(f"{name:16} cpu {cpu:6.2f} s, {100 * cpu / wall:5.1f} % of {wall:.1f} s, {size / 1024:7.0f} KiB sent")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deltas", type=int, default=20_000)
    parser.add_argument("--rate", type=int, default=500)
    given = parser.parse_args()
    asyncio.run(main(given.deltas, given.rate))
