"""A host that sends one prompt of each kind and kills its own process before or after its n-th commit.

Usage: killed_prompts.py DIRECTORY DATA SESSION COMMIT before|after"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.prove.killed_host import Killer

from holdfast import ForkThrough, Holdfast, PromptInput
from holdfast.core.database.writer import Writer
from holdfast.schema.prompt import JsonFormat

NOTE, CALLED, SHELL, FORMAT = "msg_killed_note", "msg_killed_command", "msg_killed_shell", "msg_killed_format"
COMMAND = {"template": "Note $1. !`echo x >> noted.txt`"}
SHELL_COMMAND = "echo x >> shell.txt"
SCHEMA = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}


async def send(client: Holdfast, session_id: str) -> None:
    """Everything once; ids that are known give their receipts."""
    sessions = client.sessions
    await sessions.prompt(session_id, prompt=PromptInput(text="a note", no_reply=True), id=NOTE)
    await sessions.command(session_id, command="note", arguments="this", id=CALLED)
    await finish(client, session_id)
    await sessions.shell(session_id, command=SHELL_COMMAND, id=SHELL)
    form = JsonFormat(schema=SCHEMA, retry_count=4)
    await sessions.prompt(session_id, prompt=PromptInput(text="the total", format=form), id=FORMAT)
    await finish(client, session_id)
    fork = await sessions.fork(session_id, boundary=ForkThrough())
    await sessions.prompt(fork.id, prompt=PromptInput(text="and in the fork?"))
    await finish(client, fork.id)


async def finish(client: Holdfast, session_id: str) -> None:
    """What a killed process left is gone on with, as a person would."""
    while (outcome := await client.sessions.outcome(session_id)).pending or outcome.type == "unfinished":
        await client.sessions.run(session_id)


async def main(directory: str, data: str, session_id: str, at: str, when: str) -> None:
    killer = Killer(int(at), when)
    Writer._commit = lambda writer, batch: killer.commit(writer, batch)  # type: ignore[method-assign, assignment]
    async with Holdfast(Path(directory), data=Path(data), preset="allow", recover=False) as client:
        killer.armed = True
        await send(client, session_id)
        killer.armed = False
    print(killer.commits)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
