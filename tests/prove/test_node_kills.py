"""Three servers on one database, killed and stopped at random: every acknowledged prompt is answered, once."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler

import pytest
from tests.cli.conftest import Machine, Provider, Server, finish
from tests.outside.test_left_behind import client_of, new_session

from holdfast import ApiError, PromptInput
from holdfast.client.errors import ClientError
from holdfast.schema.session_message import AssistantMessage, UserMessage

pytestmark = [pytest.mark.anyio, pytest.mark.prove, pytest.mark.timeout(900)]

Serve = Callable[..., Server]
SECONDS = float(os.environ.get("HOLDFAST_NODE_KILLS_SECONDS", "60"))
NODES = 3
SESSIONS = 8


class Cluster:
    def __init__(self, serve: Serve, machine: Machine) -> None:
        self._serve = serve
        self.machine = machine
        self.servers = [serve() for _ in range(NODES)]
        self.chance = random.Random(7)
        self.kills = self.stops = 0

    def some(self) -> Server:
        return self.chance.choice(self.servers)

    async def disturb(self) -> None:
        place = self.chance.randrange(NODES)
        victim = self.servers[place]
        if self.chance.random() < 0.3:
            self.stops += 1
            victim.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(self.chance.uniform(0.2, 1.5))
            victim.process.send_signal(signal.SIGCONT)
            return
        self.kills += 1
        victim.process.send_signal(signal.SIGKILL if self.chance.random() < 0.8 else signal.SIGTERM)
        await asyncio.to_thread(finish, victim.process)
        self.servers[place] = await asyncio.to_thread(self._serve)


async def test_every_acknowledged_prompt_is_answered_once(holdfast: Machine, serve: Serve, provider: Provider) -> None:
    """STO-102, STO-103: whichever node admitted it, and whichever died."""
    holdfast.use_provider(provider.url, settings={"recovery": "continue", "retry": {"total_seconds": 5}})

    def answer(handler: BaseHTTPRequestHandler) -> None:
        time.sleep(random.uniform(0, 0.2))
        with suppress(OSError):
            Provider.answer(handler)

    provider.behave = answer
    cluster = Cluster(serve, holdfast)
    async with client_of(cluster.some(), holdfast) as client:
        sessions = [await new_session(client, holdfast) for _ in range(SESSIONS)]
    acknowledged: dict[str, list[str]] = {id: [] for id in sessions}
    ends = time.monotonic() + SECONDS
    number = 0

    async def prompting() -> None:
        nonlocal number
        while time.monotonic() < ends:
            number += 1
            session_id, text = cluster.chance.choice(sessions), f"prompt {number}"
            with suppress(ClientError, ApiError, TimeoutError):
                async with asyncio.timeout(10), client_of(cluster.some(), holdfast) as client:
                    await client.sessions.prompt(
                        session_id, prompt=PromptInput(text=text), delivery=cluster.chance.choice(["steer", "queue"])
                    )
                    acknowledged[session_id].append(text)
            await asyncio.sleep(0.05)

    async def disturbing() -> None:
        while time.monotonic() < ends:
            await asyncio.sleep(cluster.chance.uniform(0.5, 2.0))
            await cluster.disturb()

    await asyncio.gather(prompting(), prompting(), disturbing())
    await settle(cluster, sessions)
    counted = sum(map(len, acknowledged.values()))
    async with client_of(cluster.some(), holdfast) as client:
        for session_id in sessions:
            messages = await client.sessions.context(session_id)
            texts = [message.text for message in messages if isinstance(message, UserMessage)]
            told = [text for text in texts if text.startswith("prompt ")]
            assert len(told) == len(set(told))
            assert set(acknowledged[session_id]) <= set(told)
            if told:
                assert isinstance(messages[-1], AssistantMessage)
                assert messages[-1].finish == "stop"
    print(f"{counted} prompts acknowledged, {cluster.kills} kills, {cluster.stops} stops")
    assert counted > SESSIONS
    assert cluster.kills, "no node was killed"
    assert cluster.stops, "no node was stopped"


async def settle(cluster: Cluster, sessions: list[str]) -> None:
    """Until nothing is owed any more. What only a person may decide is continued."""
    deadline = time.monotonic() + 90
    while True:
        assert time.monotonic() < deadline
        with suppress(ClientError, ApiError):
            async with client_of(cluster.some(), cluster.machine) as client:
                for left in await client.sessions.interrupted():
                    await client.sessions.recover(left.session_id, decision="continue")
                idle = not await client.sessions.active()
                if idle and not await client.sessions.interrupted():
                    waits = [await client.sessions.waits(session_id) for session_id in sessions]
                    if not any(waits):
                        return
        await asyncio.sleep(0.3)
