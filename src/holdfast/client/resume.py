"""Following a Session through lost connections. Composed above a client, which itself never reconnects: remember the
last sequence, open again after it.

Invariants
- Every durable event after `after` is yielded once and in order, however often the stream broke.
- Only what may pass is borne: a lost connection, a stream that the server ended, a gateway's 502, 503 or 504.
- Failures in a row without an event between them are bounded; the last one is raised."""

from __future__ import annotations

import random
from contextlib import aclosing
from typing import TYPE_CHECKING

from holdfast.client.errors import ApiError, ClientError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.client.generated.sync_client import Client
    from holdfast.schema.event import Event

PASSING = (502, 503, 504)
ENDED = "the stream ends again and again"


class Patience(Frozen):
    """How many failures in a row are borne, and how long is waited after each."""

    attempts: int = 8
    first: float = 0.25
    longest: float = 8.0

    def delay(self, failures: int) -> float:
        """Half of it is chance, so that many clients of one server do not come back at once."""
        span = min(self.first * 2.0 ** (failures - 1), self.longest)
        return span * (0.5 + random.random() / 2)


DEFAULT = Patience()


async def follow(
    client: AsyncClient, session_id: str, *, after: int | None = None, patience: Patience = DEFAULT
) -> AsyncGenerator[Event, None]:
    import asyncio

    place = _Place(after, patience)
    while True:
        try:
            async with aclosing(aiter(client.sessions.events(session_id, after=place.last))) as events:
                async for event in events:
                    if place.advance(event):
                        yield event
            delay = place.failed(None)
        except (ApiError, ClientError) as error:
            delay = place.failed(error)
        await asyncio.sleep(delay)


def follow_sync(
    client: Client, session_id: str, *, after: int | None = None, patience: Patience = DEFAULT
) -> Generator[Event, None, None]:
    import time

    place = _Place(after, patience)
    while True:
        try:
            with client.sessions.events(session_id, after=place.last) as events:
                for event in events:
                    if place.advance(event):
                        yield event
            delay = place.failed(None)
        except (ApiError, ClientError) as error:
            delay = place.failed(error)
        time.sleep(delay)


class _Place:
    """Where a follower stands."""

    def __init__(self, after: int | None, patience: Patience) -> None:
        self.last = after
        self._patience = patience
        self._failures = 0

    def advance(self, event: Event) -> bool:
        """Whether the event is new."""
        if event.durable is None or (self.last is not None and event.durable.seq <= self.last):
            return False
        self.last = event.durable.seq
        self._failures = 0
        return True

    def failed(self, error: ApiError | ClientError | None) -> float:
        """Seconds to wait before the next attempt. Raises what cannot pass, and what was borne often enough."""
        if error is not None and not _passing(error):
            raise error
        self._failures += 1
        if self._failures > self._patience.attempts:
            raise error or ClientError("Transport", ENDED)
        return self._patience.delay(self._failures)


def _passing(error: ApiError | ClientError) -> bool:
    return error.status in PASSING or (isinstance(error, ClientError) and error.reason == "Transport")
