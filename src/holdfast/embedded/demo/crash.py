"""A process that is killed in the middle of two answers, so that the demonstration has a real crash in it.

The child prompts Sessions, says on standard output when the model writes to all of them, and waits for its end."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

from holdfast.schema.exceptions import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SECONDS = 60.0
WRITES = b"writes\n"
WORDS = 12
"""Words of each answer before the process is killed."""


class NoCrash(HoldfastError):
    """The process ended before it could be killed."""


async def crash(directory: Path, prompts: Mapping[str, str]) -> None:
    """Prompt each Session, given by its id, in another process, and kill that while the model answers."""
    arguments = (str(directory), json.dumps(dict(prompts)))
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", __name__, *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(SECONDS):
            said = await child.stdout.readline() if child.stdout else b""
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
    if said != WRITES:
        raise NoCrash(f"The process that should crash ended by itself with code {child.returncode}")


async def _answer(directory: str, prompts: Mapping[str, str]) -> None:
    from holdfast.embedded.holdfast import Holdfast

    async with Holdfast(directory, preset="allow", recover=False) as host, asyncio.TaskGroup() as tasks:
        begun = [asyncio.Event() for _ in prompts]
        for (session_id, prompt), event in zip(prompts.items(), begun, strict=True):
            tasks.create_task(_read(host, session_id, prompt, event))
        for event in begun:
            await event.wait()
        sys.stdout.buffer.write(WRITES)
        sys.stdout.buffer.flush()
        # The end of standard input means that the parent is gone.
        await asyncio.to_thread(sys.stdin.buffer.read)
        raise SystemExit(1)


async def _read(host: Holdfast, session_id: str, prompt: str, begun: asyncio.Event) -> None:
    words = 0
    async for piece in host.stream(session_id, prompt):
        words += len(piece.text.split())
        if words >= WORDS:
            begun.set()


if TYPE_CHECKING:
    from holdfast.embedded.holdfast import Holdfast

if __name__ == "__main__":
    asyncio.run(_answer(sys.argv[1], json.loads(sys.argv[2])))
