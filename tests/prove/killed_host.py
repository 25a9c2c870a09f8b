"""A host that kills its own process before or after its n-th commit; the kill is SIGKILL, and nothing is closed.

Usage: killed_host.py DIRECTORY DATA SESSION COMMIT before|after"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from holdfast import Holdfast, PromptInput
from holdfast.core.database.job import Job
from holdfast.core.database.writer import Writer

FIRST, SECOND = "msg_killed_host_first", "msg_killed_host_second"
LONG = "run the command, then read the file. " + "word " * 6_000


class Killer:
    def __init__(self, at: int, when: str) -> None:
        self.at = at
        self.when = when
        self.commits = 0
        self.armed = False
        self._commit = Writer._commit

    def commit(self, writer: Writer, batch: Sequence[Job]) -> None:
        self.commits += self.armed
        due = self.armed and self.commits == self.at
        if due and self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        self._commit(writer, batch)
        if due:
            os.kill(os.getpid(), signal.SIGKILL)


async def send(client: Holdfast, session_id: str) -> None:
    await client.sessions.prompt(session_id, prompt=PromptInput(text=LONG), id=FIRST)
    await client.sessions.prompt(session_id, prompt=PromptInput(text="and then?"), id=SECOND, delivery="queue")


async def approve(client: Holdfast, session_id: str) -> None:
    while True:
        for request in await client.permissions.list(session_id):
            await client.permissions.reply(session_id, request_id=request.id, reply="once")
        await asyncio.sleep(0.01)


async def main(directory: str, data: str, session_id: str, at: str, when: str) -> None:
    killer = Killer(int(at), when)
    Writer._commit = lambda writer, batch: killer.commit(writer, batch)  # type: ignore[method-assign, assignment]
    async with Holdfast(Path(directory), data=Path(data), preset="allow", recover=False) as client:
        killer.armed = True
        await send(client, session_id)
        approving = asyncio.create_task(approve(client, session_id))
        await client.sessions.outcome(session_id)
        approving.cancel()
        killer.armed = False
    print(killer.commits)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
