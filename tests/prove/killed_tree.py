"""A host that works on a tree of Sessions and kills its own process before or after its n-th commit, with SIGKILL.

Usage: killed_tree.py DIRECTORY DATA SESSION COMMIT before|after"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.prove.killed_host import Killer

from holdfast import Holdfast, PromptInput
from holdfast.core.database.writer import Writer


async def approve(client: Holdfast) -> None:
    while True:
        for session in (await client.sessions.list(limit=200)).items:
            for request in await client.permissions.list(session.id):
                await client.permissions.reply(request.session_id, request_id=request.id, reply="once")
        await asyncio.sleep(0.01)


async def main(directory: str, data: str, session_id: str, at: str, when: str) -> None:
    killer = Killer(int(at), when)
    Writer._commit = lambda writer, batch: killer.commit(writer, batch)  # type: ignore[method-assign, assignment]
    async with Holdfast(Path(directory), data=Path(data), preset="allow", recover=False) as client:
        killer.armed = True
        approving = asyncio.create_task(approve(client))
        await client.sessions.prompt(session_id, prompt=PromptInput(text="root"))
        await client.sessions.wait(session_id)
        approving.cancel()
        killer.armed = False
    print(killer.commits)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
