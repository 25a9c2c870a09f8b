"""Follows a Session, or a tree of Sessions, across lost connections. Built on a client, which itself never reconnects:
after a failure the stream is opened again after the last sequence, that of a tree after the last cursor.

Invariants
- Every durable event after `after` is yielded once and in the order of its Session, however often the stream breaks.
  Live events are yielded while connected; those announced in between are missed, and `on_reconnect` is called.
- Only temporary failures are retried: a lost or silent connection, a stream that the server ended, a gateway's 502, 503
  or 504.
- The number of consecutive failures without an event or a heartbeat is bounded; the last failure is raised."""

from __future__ import annotations

import random
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol, TypedDict, Unpack, overload

from holdfast.client.call import Options
from holdfast.client.errors import ApiError, ClientError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from holdfast.client.async_core import Stream
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.client.generated.sync_client import Client
    from holdfast.client.sync_core import SyncStream
    from holdfast.schema.typed_event import DurableEvent, Event

TEMPORARY_STATUSES = (502, 503, 504)
ENDED = "the stream ends again and again"


class Patience(Frozen):
    """How many consecutive failures are retried (None: all), how many seconds are waited after the first and at most
    after any, and after how much silence a connection counts as lost. Servers send a heartbeat every 15 seconds."""

    attempts: int | None = 8
    first: float = 0.25
    longest: float = 8.0
    silence: float = 45.0

    def delay(self, failures: int) -> float:
        """Seconds; half of them random, so that the clients of one server do not reconnect at once."""
        span = min(self.first * 2.0 ** min(failures - 1, 60), self.longest)
        return span * (0.5 + random.random() / 2)


class Reconnected(Frozen):
    """A stream was lost and is open again."""

    attempts: int
    """How many attempts were made, this one included."""
    after: int | str | None
    """The sequence after which the stream continues; of a tree the cursor."""
    error: ApiError | ClientError | None
    """Why the stream was lost; None if the server ended it."""


class FollowOptions(TypedDict, total=False):
    patience: Patience
    on_reconnect: Callable[[Reconnected], None] | None
    on_heartbeat: Callable[[], None] | None


@overload
def follow(
    client: AsyncClient,
    session_id: str,
    *,
    after: int | None = None,
    live: Literal[False] = False,
    **options: Unpack[FollowOptions],
) -> AsyncGenerator[DurableEvent, None]: ...


@overload
def follow(
    client: AsyncClient, session_id: str, *, after: int | None = None, live: bool, **options: Unpack[FollowOptions]
) -> AsyncGenerator[Event, None]: ...


def follow(
    client: AsyncClient,
    session_id: str,
    *,
    after: int | None = None,
    live: bool = False,
    **options: Unpack[FollowOptions],
) -> AsyncGenerator[Event, None]:
    """Yields durable events of a Session after a sequence; with `live`, its live events too. There is no end before the
    Session is deleted: then it raises SessionNotFound."""
    return _follow(partial(client.sessions.events, session_id, live=live or None), _Sequence(after), options)


def follow_tree(
    client: AsyncClient,
    session_id: str,
    *,
    after: str | None = None,
    replay: bool = True,
    **options: Unpack[FollowOptions],
) -> AsyncGenerator[Event, None]:
    """Yields durable and live events of a Session and of everything below it, without an end: all that is stored, or
    what came after a cursor, or with `replay=False` only new ones. `session.tree.connected` comes with each connection,
    where new events begin."""
    return _follow(partial(client.sessions.tree_events, session_id, replay=replay), _TreeCursor(after), options)


@overload
def follow_sync(
    client: Client,
    session_id: str,
    *,
    after: int | None = None,
    live: Literal[False] = False,
    **options: Unpack[FollowOptions],
) -> Generator[DurableEvent, None, None]: ...


@overload
def follow_sync(
    client: Client, session_id: str, *, after: int | None = None, live: bool, **options: Unpack[FollowOptions]
) -> Generator[Event, None, None]: ...


def follow_sync(
    client: Client, session_id: str, *, after: int | None = None, live: bool = False, **options: Unpack[FollowOptions]
) -> Generator[Event, None, None]:
    """As `follow`, for blocking code."""
    return _follow_sync(partial(client.sessions.events, session_id, live=live or None), _Sequence(after), options)


def follow_tree_sync(
    client: Client, session_id: str, *, after: str | None = None, replay: bool = True, **options: Unpack[FollowOptions]
) -> Generator[Event, None, None]:
    """As `follow_tree`, for blocking code."""
    return _follow_sync(partial(client.sessions.tree_events, session_id, replay=replay), _TreeCursor(after), options)


async def _follow(
    open: Callable[..., Stream[Event]] | Callable[..., Stream[DurableEvent]], place: _Place, options: FollowOptions
) -> AsyncGenerator[Event, None]:
    import asyncio

    attempts = _Attempts(place, options)
    while True:
        try:
            async with aclosing(aiter(open(after=place.after, options=attempts.options))) as events:
                async for event in events:
                    if place.advance(event):
                        attempts.succeeded()
                        yield event
            delay = attempts.failed(None)
        except (ApiError, ClientError) as error:
            delay = attempts.failed(error)
        await asyncio.sleep(delay)


def _follow_sync(
    open: Callable[..., SyncStream[Event]] | Callable[..., SyncStream[DurableEvent]],
    place: _Place,
    options: FollowOptions,
) -> Generator[Event, None, None]:
    import time

    attempts = _Attempts(place, options)
    while True:
        try:
            with open(after=place.after, options=attempts.options) as events:
                for event in events:
                    if place.advance(event):
                        attempts.succeeded()
                        yield event
            delay = attempts.failed(None)
        except (ApiError, ClientError) as error:
            delay = attempts.failed(error)
        time.sleep(delay)


class _Place(Protocol):
    """How far a stream was read."""

    @property
    def after(self) -> int | str | None:
        """What the next connection continues after."""

    def advance(self, event: Event) -> bool:
        """Whether the event is new."""


class _Sequence:
    """Of one Session."""

    def __init__(self, after: int | None) -> None:
        self.after = after

    def advance(self, event: Event) -> bool:
        if event.durable is not None:
            if self.after is not None and event.durable.seq <= self.after:
                return False
            self.after = event.durable.seq
        return True


class _TreeCursor:
    """Of a tree. What was sent after the last cursor comes again, and is recognised by the sequence of its Session."""

    def __init__(self, after: str | None) -> None:
        self.after = after
        self._reached: dict[str, int] = {}

    def advance(self, event: Event) -> bool:
        if event.cursor is not None:
            self.after = event.cursor
        if event.durable is not None:
            id, seq = event.durable.aggregate_id, event.durable.seq
            if seq <= self._reached.get(id, -1):
                return False
            self._reached[id] = seq
        return True


class _Attempts:
    """The consecutive failures of a follower."""

    def __init__(self, place: _Place, options: FollowOptions) -> None:
        self._place = place
        self._patience = options.get("patience") or Patience()
        self._on_reconnect = options.get("on_reconnect")
        self._on_heartbeat = options.get("on_heartbeat")
        self._failures = 0
        self._error: ApiError | ClientError | None = None
        self.options = Options(timeout=self._patience.silence, on_open=self._opened, on_heartbeat=self._heartbeat)

    def succeeded(self) -> None:
        self._failures = 0

    def failed(self, error: ApiError | ClientError | None) -> float:
        """Seconds to wait before the next attempt. Raises a permanent failure, and the last of too many."""
        if error is not None and not _is_temporary(error):
            raise error
        self._error = error
        self._failures += 1
        if self._patience.attempts is not None and self._failures > self._patience.attempts:
            raise error or ClientError("Transport", ENDED)
        return self._patience.delay(self._failures)

    def _opened(self) -> None:
        if self._failures and self._on_reconnect is not None:
            self._on_reconnect(Reconnected(self._failures, self._place.after, self._error))

    def _heartbeat(self) -> None:
        self._failures = 0
        if self._on_heartbeat is not None:
            self._on_heartbeat()


def _is_temporary(error: ApiError | ClientError) -> bool:
    return error.status in TEMPORARY_STATUSES or (isinstance(error, ClientError) and error.reason == "Transport")
