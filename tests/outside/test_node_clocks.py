"""Servers on one PostgreSQL whose clocks are hours apart."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable

import pytest
from tests.cli.conftest import ColdMachine, Machine, Provider, Server, finish
from tests.outside.test_left_behind import client_of, in_turn, new_session
from tests.prove.clock_shift import shifted

from holdfast import PromptInput

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.store("postgres", reason="processes that share a file share a machine and its clock"),
]
MACHINE = ColdMachine


async def test_a_wrong_clock_changes_nothing(
    holdfast: Machine, serve: Callable[..., Server], provider: Provider
) -> None:
    """STO-100, STO-180: a node that lives keeps its Session, whatever its clock says; one that was killed loses it."""
    holdfast.use_provider(provider.url, settings={"recovery": "continue", "titles": False})
    in_turn(provider, provider.hang, Provider.answer)
    first = serve(**shifted(holdfast.home / "ahead", 3600))
    second = serve(**shifted(holdfast.home / "behind", -3600))
    async with client_of(first, holdfast) as here, client_of(second, holdfast) as there:
        session_id = await new_session(here, holdfast)
        created = (await there.sessions.get(session_id)).time.created
        assert abs(created / 1000 - time.time() - 3600) < 300, "its clock is wrong"
        await here.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
        assert await asyncio.to_thread(provider.asked.acquire, timeout=30)
        await asyncio.sleep(1.2)  # the other node looks twice a second
        assert not provider.asked.acquire(blocking=False)
        assert session_id in await there.sessions.active()
        first.process.send_signal(signal.SIGKILL)
        assert await asyncio.to_thread(provider.asked.acquire, timeout=30)
        finish(first.process)
        assert (await there.sessions.outcome(session_id)).type == "completed"
