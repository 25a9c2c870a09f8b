"""`kill -9` while many answers are being written: what people had seen is there, once, and in the log."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import aclosing, suppress
from http.server import BaseHTTPRequestHandler

import pytest
from tests.cli.conftest import Machine, Provider, Server, finish, frame
from tests.outside.test_left_behind import client_of, in_turn, new_session
from tests.outside.test_partial_text import word, words
from tests.stores.stores import STORES

from holdfast import ApiError, AsyncClient, PromptInput
from holdfast.embedded.piece_maker import PieceMaker
from holdfast.embedded.pieces import TextPiece
from holdfast.schema.typed_event import Event

pytestmark = [pytest.mark.anyio, pytest.mark.prove, pytest.mark.timeout(1800)]

Serve = Callable[..., Server]
ANSWERS = int(os.environ.get("HOLDFAST_TEST_ANSWERS", "300"))
AT_ONCE = 30
PIECE_SECONDS = 0.05
PROMPT = "msg_"
CONNECTED_SECONDS = 1.0
"""After which all followers get live events."""
SETTLE_SECONDS = 4.0
"""A node that has just connected to a database server judges nobody."""
LOST_SECONDS = 1.25
"""A second, and the time of a commit in which many Sessions take part."""


class Tellers:
    """Answers all Sessions with numbered words, each at its own pace, until they are cut off."""

    def __init__(self, provider: Provider) -> None:
        self._released = provider.released

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        Provider.head(handler)
        with suppress(OSError):
            number = 0
            while not self._released.wait(PIECE_SECONDS * random.uniform(0.5, 1.5)):
                handler.wfile.write(frame({"content": word(number)}))
                handler.wfile.flush()
                number += 1


class Follower:
    """Reads one Session as a person's client does, first from one server and then from another one."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self._maker = PieceMaker()
        self._maker.expect(PROMPT + session_id, 0)
        self.shown = ""
        self.seen: list[tuple[float, int]] = []
        """When how much was shown."""
        self.began = time.monotonic()

    async def follow(self, client: AsyncClient) -> None:
        with suppress(ApiError, OSError, EOFError):
            async with aclosing(
                client.sessions.events(self.session_id, after=self._maker.position, live=True)
            ) as events:
                async for event in events:
                    self.take(event)

    async def catch_up(self, client: AsyncClient) -> None:
        self._maker.connection_lost()
        for event in (await client.sessions.history(self.session_id, after=self._maker.position)).events:
            self.take(event, live_begun=False)

    def take(self, event: Event, *, live_begun: bool = True) -> None:
        for piece in self._maker.take(event, live_begun=live_begun):
            if isinstance(piece, TextPiece):
                assert not piece.replaces
                self.shown += piece.text
                self.seen.append((time.monotonic(), len(self.shown)))

    def lost_seconds(self, kept: int, killed: float) -> float:
        """How long before the kill the first of what was lost had been shown."""
        return next((killed - at for at, size in self.seen if size > kept and at <= killed), 0.0)


async def test_no_kill_loses_more_than_a_second_of_what_was_seen(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-470, SES-471, SES-473, SES-474: another server ends what the killed one was writing. No word is missing in
    the middle or there twice, in the log and for those who follow; every row agrees with the log; nothing was written
    more often than once a second."""
    holdfast.use_provider(provider.url, settings={"recovery": "ask"})
    in_turn(provider, Tellers(provider))
    lost: list[float] = []
    first, second = serve(), serve()
    while len(lost) < ANSWERS:
        await asyncio.sleep(SETTLE_SECONDS)
        followers, killed = await _answering(first, holdfast)
        counts = _kept_rows(holdfast)
        for follower in followers:
            assert counts[follower.session_id] <= killed - follower.began + 1
        async with client_of(second, holdfast) as client:
            for follower in followers:
                lost.append(await _check(client, follower, killed))
        assert _kept_rows(holdfast) == {}
        first, second = second, serve()
    for server in (first, second):
        server.process.send_signal(signal.SIGTERM)
        finish(server.process)
    assert await asyncio.to_thread(holdfast.healthy)
    print(f"lost: median {statistics.median(lost):.2f} s, longest {max(lost):.2f} s of {len(lost)} answers")
    assert max(lost) < LOST_SECONDS


async def _answering(server: Server, machine: Machine) -> tuple[list[Follower], float]:
    """Sessions in the middle of their answers, whose server was killed."""
    async with client_of(server, machine) as client:
        followers = [Follower(await new_session(client, machine)) for _ in range(AT_ONCE)]
        tasks = [asyncio.create_task(follower.follow(client)) for follower in followers]
        await asyncio.sleep(CONNECTED_SECONDS)
        for follower in followers:
            id = PROMPT + follower.session_id
            await client.sessions.prompt(follower.session_id, prompt=PromptInput(text="tell"), id=id)
        await asyncio.sleep(random.uniform(1.5, 4))
        killed = time.monotonic()
        server.process.send_signal(signal.SIGKILL)
        finish(server.process)
        _, running = await asyncio.wait(tasks, timeout=2)
        for task in running:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return followers, killed


async def _check(client: AsyncClient, follower: Follower, killed: float) -> float:
    """How many seconds of what was seen are lost."""
    seen = follower.shown
    assert words(seen) > 5, "nothing was being answered"
    await client.sessions.recover(follower.session_id, decision="abandon")
    events = (await client.sessions.history(follower.session_id, limit=100)).events
    kept = "".join(event.data.text for event in events if event.type.endswith("text.ended"))  # type: ignore[union-attr]
    words(kept)
    await follower.catch_up(client)
    assert follower.shown == max(seen, kept, key=len)
    return follower.lost_seconds(len(kept), killed)


def _kept_rows(machine: Machine) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    with STORES.rows(machine.data / "holdfast.db") as sql:
        for session_id, count in sql("select session_id, count(*) from session_partial group by session_id"):
            found[str(session_id)] = int(count)
    return found
