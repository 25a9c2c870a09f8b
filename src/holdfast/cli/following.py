"""Following a Session until it is idle: showing what happens, answering what is asked, saying what it waits for."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from holdfast.cli.screen import fields
from holdfast.client.errors import ApiError, ClientError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator

    from holdfast.cli.answering import Answering
    from holdfast.cli.screen import Screen
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.typed_event import Event

SILENCE_SECONDS = 5.0
"""After this long without an event, what it waits for is shown; then after twice as long, and so on."""
LONGEST_SILENCE_SECONDS = 60.0


async def follow(
    client: AsyncClient, session_id: str, screen: Screen, answering: Answering, begin: Callable[[], Awaitable[None]]
) -> None:
    """Begin, then show everything and answer what is asked, until the Session is idle."""
    async with aclosing(aiter(client.events.subscribe())) as live:
        await anext(live)  # connected: from here on nothing is missed
        try:
            await begin()
            await first_of(
                _watch(client, live, session_id, screen, answering),
                answering.run(),
                _while_silent(client, session_id, screen, answering),
            )
        except asyncio.CancelledError:
            with suppress(OSError):  # the terminal may be what ended
                screen.note("\ninterrupted")
            await _interrupt(client, session_id, screen)
            raise
        except OSError:  # nobody reads the answer any more
            await _interrupt(client, session_id, screen)
            raise


async def _interrupt(client: AsyncClient, session_id: str, screen: Screen) -> None:
    try:
        await client.sessions.interrupt(session_id)
    except (ApiError, ClientError) as error:
        with suppress(OSError):
            screen.note(f"the server was not told: {error}")


async def first_of(*works: Coroutine[Any, Any, None]) -> None:
    """Until one of them ends or fails; then the others end too."""
    tasks = [asyncio.get_running_loop().create_task(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()


async def _watch(
    client: AsyncClient, live: AsyncGenerator[Event, None], session_id: str, screen: Screen, answering: Answering
) -> None:
    """Until the Session is idle."""
    try:
        async for event in live:
            data = fields(event)
            if data.get("sessionID") != session_id:
                continue
            screen.show(event, data)
            answering.note(event.type, data)
            if event.type == "session.status" and data["status"]["type"] == "idle":
                break
    except ClientError:
        screen.note("lost the live stream; waiting for the answer")
    await client.sessions.wait(session_id)  # another process may be the one that executes it


async def _while_silent(client: AsyncClient, session_id: str, screen: Screen, answering: Answering) -> None:
    """When nothing comes, say what it waits for, and look whether something was asked that we did not hear of."""
    pause = SILENCE_SECONDS
    while True:
        seen = screen.seen
        await asyncio.sleep(pause)
        if screen.seen != seen:
            pause = SILENCE_SECONDS
            continue
        pause = min(2 * pause, LONGEST_SILENCE_SECONDS)
        try:
            await answering.look()
            for wait in await client.sessions.waits(session_id):
                screen.note(f"… waiting for {wait.what}, until {wait.ends}")
        except (ApiError, ClientError) as error:
            screen.note(f"… waiting; the server does not say for what: {error}")


@contextmanager
def as_long_as_it_answers() -> Iterator[None]:
    """A server that was reached and is reached no more has ended."""
    try:
        yield
    except ClientError as error:
        if error.reason == "Transport":
            raise ServerGone from error
        raise


class ServerGone(Exception):
    """The server ended while its answer was followed."""

    def __init__(self) -> None:
        super().__init__("the server went away before the answer was complete; what it recorded is kept")
