"""Following a Session through lost connections. Composed above a client, which itself never reconnects: remember the
last sequence, open again after it.

Invariants
- Every durable event after `after` is yielded once and in order, however often the stream broke. Live events, where
  they are asked for, are yielded while connected; what is announced in between is missed, and `on_reconnect` says so.
- Only what may pass is borne: a lost or silent connection, a stream that the server ended, a gateway's 502, 503 or 504.
- Failures in a row without an event or a heartbeat between them are bounded; the last one is raised."""

from __future__ import annotations

import random
from contextlib import aclosing
from typing import TYPE_CHECKING, Literal, overload

from holdfast.client.call import Options
from holdfast.client.errors import ApiError, ClientError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.client.generated.sync_client import Client
    from holdfast.schema.typed_event import DurableEvent, Event

PASSING = (502, 503, 504)
ENDED = "the stream ends again and again"


class Patience(Frozen):
    """How many failures in a row are borne (None: any number), how long is waited after each, and after how many
    seconds without an event or a heartbeat a connection counts as lost. Servers send a heartbeat every 15 seconds."""

    attempts: int | None = 8
    first: float = 0.25
    longest: float = 8.0
    silence: float = 45.0

    def delay(self, failures: int) -> float:
        """Half of it is chance, so that many clients of one server do not come back at once."""
        span = min(self.first * 2.0 ** min(failures - 1, 60), self.longest)
        return span * (0.5 + random.random() / 2)


class Reconnected(Frozen):
    """A stream that was lost and stands again."""

    attempts: int
    """How many times it was tried, this one included."""
    after: int | None
    """The sequence after which it goes on."""
    error: ApiError | ClientError | None
    """What broke the stream; None when the server ended it."""


DEFAULT = Patience()


@overload
def follow(
    client: AsyncClient,
    session_id: str,
    *,
    after: int | None = None,
    live: Literal[False] = False,
    patience: Patience = DEFAULT,
    on_reconnect: Callable[[Reconnected], None] | None = None,
    on_heartbeat: Callable[[], None] | None = None,
) -> AsyncGenerator[DurableEvent, None]: ...


@overload
def follow(
    client: AsyncClient,
    session_id: str,
    *,
    after: int | None = None,
    live: bool,
    patience: Patience = DEFAULT,
    on_reconnect: Callable[[Reconnected], None] | None = None,
    on_heartbeat: Callable[[], None] | None = None,
) -> AsyncGenerator[Event, None]: ...


async def follow(
    client: AsyncClient,
    session_id: str,
    *,
    after: int | None = None,
    live: bool = False,
    patience: Patience = DEFAULT,
    on_reconnect: Callable[[Reconnected], None] | None = None,
    on_heartbeat: Callable[[], None] | None = None,
) -> AsyncGenerator[Event, None]:
    """Durable events of a Session after a sequence, for as long as it is iterated; with `live`, its live events too."""
    import asyncio

    place = _Place(after, patience, on_reconnect, on_heartbeat)
    while True:
        try:
            stream = client.sessions.events(session_id, after=place.last, live=live or None, options=place.options)
            async with aclosing(aiter(stream)) as events:
                async for event in events:
                    if place.advance(event):
                        yield event
            delay = place.failed(None)
        except (ApiError, ClientError) as error:
            delay = place.failed(error)
        await asyncio.sleep(delay)


@overload
def follow_sync(
    client: Client,
    session_id: str,
    *,
    after: int | None = None,
    live: Literal[False] = False,
    patience: Patience = DEFAULT,
    on_reconnect: Callable[[Reconnected], None] | None = None,
    on_heartbeat: Callable[[], None] | None = None,
) -> Generator[DurableEvent, None, None]: ...


@overload
def follow_sync(
    client: Client,
    session_id: str,
    *,
    after: int | None = None,
    live: bool,
    patience: Patience = DEFAULT,
    on_reconnect: Callable[[Reconnected], None] | None = None,
    on_heartbeat: Callable[[], None] | None = None,
) -> Generator[Event, None, None]: ...


def follow_sync(
    client: Client,
    session_id: str,
    *,
    after: int | None = None,
    live: bool = False,
    patience: Patience = DEFAULT,
    on_reconnect: Callable[[Reconnected], None] | None = None,
    on_heartbeat: Callable[[], None] | None = None,
) -> Generator[Event, None, None]:
    """As `follow`, for blocking code."""
    import time

    place = _Place(after, patience, on_reconnect, on_heartbeat)
    while True:
        try:
            with client.sessions.events(
                session_id, after=place.last, live=live or None, options=place.options
            ) as events:
                for event in events:
                    if place.advance(event):
                        yield event
            delay = place.failed(None)
        except (ApiError, ClientError) as error:
            delay = place.failed(error)
        time.sleep(delay)


class _Place:
    """Where a follower stands."""

    def __init__(
        self,
        after: int | None,
        patience: Patience,
        on_reconnect: Callable[[Reconnected], None] | None,
        on_heartbeat: Callable[[], None] | None,
    ) -> None:
        self.last = after
        self.options = Options(timeout=patience.silence, on_open=self._opened, on_heartbeat=self._heartbeat)
        self._patience = patience
        self._on_reconnect = on_reconnect
        self._on_heartbeat = on_heartbeat
        self._failures = 0
        self._error: ApiError | ClientError | None = None

    def advance(self, event: Event) -> bool:
        """Whether the event is new."""
        if event.durable is not None:
            if self.last is not None and event.durable.seq <= self.last:
                return False
            self.last = event.durable.seq
        self._failures = 0
        return True

    def failed(self, error: ApiError | ClientError | None) -> float:
        """Seconds to wait before the next attempt. Raises what cannot pass, and what was borne often enough."""
        if error is not None and not _passing(error):
            raise error
        self._error = error
        self._failures += 1
        if self._patience.attempts is not None and self._failures > self._patience.attempts:
            raise error or ClientError("Transport", ENDED)
        return self._patience.delay(self._failures)

    def _opened(self) -> None:
        if self._failures and self._on_reconnect is not None:
            self._on_reconnect(Reconnected(self._failures, self.last, self._error))

    def _heartbeat(self) -> None:
        self._failures = 0
        if self._on_heartbeat is not None:
            self._on_heartbeat()


def _passing(error: ApiError | ClientError) -> bool:
    return error.status in PASSING or (isinstance(error, ClientError) and error.reason == "Transport")
