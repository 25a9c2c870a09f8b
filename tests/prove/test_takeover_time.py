"""How long it takes until another node goes on after `kill -9` of the one that executes."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from collections.abc import Callable

import pytest
from tests.cli.conftest import Machine, Provider, Server, finish
from tests.outside.test_left_behind import asked, client_of, in_turn, new_session

from holdfast import PromptInput

pytestmark = [pytest.mark.anyio, pytest.mark.prove, pytest.mark.timeout(900)]

Serve = Callable[..., Server]
CYCLES = int(os.environ.get("HOLDFAST_TAKEOVER_CYCLES", "30"))
SETTLE_SECONDS = 4.0
"""A node that has just connected to a database server judges nobody."""


async def test_the_median_is_below_a_second(holdfast: Machine, serve: Serve, provider: Provider) -> None:
    """STO-102: from the kill to the request of the other node to the provider."""
    holdfast.use_provider(provider.url, settings={"recovery": "continue"})
    first, second = serve(), serve()
    took = []
    for _ in range(CYCLES):
        await asyncio.sleep(SETTLE_SECONDS)
        in_turn(provider, provider.hang, Provider.answer)
        async with client_of(first, holdfast) as client:
            session_id = await new_session(client, holdfast)
            await client.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
            assert await asyncio.to_thread(provider.asked.acquire, timeout=30)
        began = time.monotonic()
        first.process.send_signal(signal.SIGKILL)
        assert await asyncio.to_thread(provider.asked.acquire, timeout=30)
        took.append(time.monotonic() - began)
        finish(first.process)
        async with client_of(second, holdfast) as client:
            assert (await client.sessions.outcome(session_id)).type == "completed"
            while provider.asked.acquire(blocking=False):
                pass  # of the title
        first, second = second, serve()
    print(f"takeover: median {statistics.median(took):.2f} s, longest {max(took):.2f} s of {CYCLES}")
    assert len(asked(provider)) == 2 * CYCLES, "each prompt is sent by the node that is killed, and by another one"
    assert statistics.median(took) < 1.0
