"""Runs a shell command in a Session, prints its output as it arrives, and returns its exit status."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from holdfast.cli.answer import Answer
from holdfast.cli.command_runner import FAILED
from holdfast.cli.following import Follower
from holdfast.schema.session_message import ShellMessage

if TYPE_CHECKING:
    from holdfast.cli.answering import Answering
    from holdfast.cli.screen import Screen
    from holdfast.client.generated.async_client import AsyncClient


async def run_shell(client: AsyncClient, session_id: str, command: str, screen: Screen, answering: Answering) -> int:
    message_id = f"msg_{secrets.token_hex(13)}"

    async def run() -> None:
        await client.sessions.shell(session_id, command=command, id=message_id)

    await Follower(client, session_id, screen, answering, Answer()).follow(run, at_once=True)
    message = await client.sessions.message(session_id, message_id=message_id)
    assert isinstance(message, ShellMessage)
    screen.end_shell(message.call_id, message.output, message.exit)
    return FAILED if message.exit is None else min(message.exit, 255)
