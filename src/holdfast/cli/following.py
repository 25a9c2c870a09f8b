"""Follows a Session until it is idle: shows its events, answers its requests, and says what it waits for.

The stream of its tree is followed: durable events with their sequence, live events between them, and those of its
subagents. Durable events of the Session that the stream did not deliver are read from the history at the end."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.cli.progress import TICK_SECONDS
from holdfast.cli.screen import fields
from holdfast.client.call import Options
from holdfast.client.errors import ApiError, ClientError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from holdfast.cli.answer import Answer
    from holdfast.cli.answering import Answering
    from holdfast.cli.screen import Screen
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.typed_event import Event

T = TypeVar("T")

SILENCE_SECONDS = 5.0
"""Without an event for this long, the screen says what the Session waits for; then after twice as long, and so on."""
LONGEST_SILENCE_SECONDS = 60.0
SUBSCRIBE_SECONDS = 2.0
"""How long `begin` is held back until the stream delivers live events. A server without them never says so."""
DELIVERY_SECONDS = 1.0
"""How long the last events may take to arrive after the Session has become idle."""
PAGE = 100
NOT_SHOWN = ("session.tree.connected", "session.updated", "session.deleted")
FAILED_CALL = "session.next.tool.failed"
ON_PROGRESS = ("provider", "tool")
"""Kinds of waits that the progress line shows."""
OF_PAUSED = ("budget", "owner", "provider")
"""What a Session waits for whose children wait for budgets. Its own turn is open, so that it also waits for its
provider; one that still answers does not stay silent twice."""


class Follower:
    def __init__(
        self, client: AsyncClient, session_id: str, screen: Screen, answering: Answering, answer: Answer
    ) -> None:
        self._client = client
        self._session_id = session_id
        self._screen = screen
        self._answering = answering
        self._answer = answer
        self._subscribed = asyncio.Event()
        self._idle = asyncio.Event()
        self._watches = True
        self._early: list[tuple[Event, dict[str, Any]]] | None = []
        """Events before `begin` has returned; they are shown after it."""
        self.position: int | None = None
        """The newest durable sequence that was shown, or after which to show."""

    async def follow(self, begin: Callable[[], Awaitable[T]], *, at_once: bool = False) -> T:
        """Subscribe, call `begin`, and follow the Session until it is idle. Returns what `begin` returned. Events are
        shown after it has returned, or `at_once`. An interruption of this task also interrupts the Session. Raises
        ServerGone if the server ends meanwhile, and Paused if all that is left waits for a budget."""
        if at_once:
            self._early = None
        try:
            return await _run_beside(
                self._run(begin), self._watch(), self._answering.run(), self._report_silence(), self._tick()
            )
        except asyncio.CancelledError:
            with suppress(OSError):  # the terminal may be closed
                self._screen.note("\ninterrupted")
            await self._interrupt()
            raise
        except OSError:  # nobody reads the output any more
            await self._interrupt()
            raise
        except ClientError as error:
            if error.reason == "Transport":
                raise ServerGone from error
            raise
        finally:
            with suppress(OSError):
                self._screen.rest()

    async def _run(self, begin: Callable[[], Awaitable[T]]) -> T:
        await _within(SUBSCRIBE_SECONDS, self._subscribed)
        result = await begin()
        early, self._early = self._early or [], None
        for event, data in early:
            self._show(event, data)
        await self._client.sessions.wait(self._session_id)
        await _within(DELIVERY_SECONDS, self._idle)
        self._watches = False
        await self._catch_up()
        return result

    async def _watch(self) -> None:
        options = Options(on_heartbeat=self._subscribed.set)
        stream = self._client.sessions.tree_events(self._session_id, replay=False, options=options)
        try:
            async with aclosing(aiter(stream)) as events:
                async for event in events:
                    if not self._watches:
                        return
                    data = fields(event)
                    self._answering.note(event.type, data)
                    if event.type in NOT_SHOWN:
                        continue
                    if self._early is None:
                        self._show(event, data)
                    else:
                        self._early.append((event, data))
        except (ApiError, ClientError) as error:
            self._screen.note(f"lost the event stream, waiting for the whole answer: {error}")
        finally:
            self._subscribed.set()
            self._idle.set()

    async def _tick(self) -> None:
        """Let a terminal show what is waited for, as time passes."""
        while self._screen.progress.on:
            await asyncio.sleep(TICK_SECONDS)
            self._screen.tick()

    def _show(self, event: Event, data: dict[str, Any]) -> None:
        if data.get("sessionID", self._session_id) != self._session_id:
            self._screen.show_child(event, data)
            self._note_failure(event, data)
            return
        if event.durable is not None:
            if self.position is not None and event.durable.seq <= self.position:
                return
            self.position = event.durable.seq
        self._screen.show(event, data)
        self._note_failure(event, data)
        self._answer.note(event.type, data)
        if event.type == "session.status":
            if data["status"]["type"] == "idle":
                self._idle.set()
            else:
                self._idle.clear()

    def _note_failure(self, event: Event, data: dict[str, Any]) -> None:
        if event.type == FAILED_CALL:
            self._answering.note_failure(data["error"]["message"])

    async def _catch_up(self) -> None:
        """Show durable events that the stream did not deliver: it was lost, or another process committed them."""
        more = self.position is not None
        while more:
            page = await self._client.sessions.history(self._session_id, after=self.position, limit=PAGE)
            for event in page.events:
                self._show(event, fields(event))
            more = page.has_more and bool(page.events)

    async def _report_silence(self) -> None:
        """When no event comes, say what the Session waits for, and look for requests whose event did not arrive."""
        pause = SILENCE_SECONDS
        said_before = False
        while True:
            seen = self._screen.seen
            await asyncio.sleep(pause)
            if self._screen.seen != seen:
                pause, said_before = SILENCE_SECONDS, False
                continue
            pause = min(2 * pause, LONGEST_SILENCE_SECONDS)
            try:
                await self._answering.look()
                waits = await self._client.sessions.waits(self._session_id)
                for wait in waits:
                    if self._screen.progress.on and wait.kind in ON_PROGRESS:
                        continue
                    self._screen.note(f"… waiting for {wait.what}, until {wait.ends}")
                budgets = [wait.what for wait in waits if wait.kind == "budget"]
                if budgets and said_before and all(wait.kind in OF_PAUSED for wait in waits):
                    raise Paused(budgets[0])
                said_before = bool(budgets)
            except (ApiError, ClientError) as error:
                self._screen.note(f"… waiting; the server does not say what for: {error}")

    async def _interrupt(self) -> None:
        try:
            await self._client.sessions.interrupt(self._session_id)
        except (ApiError, ClientError) as error:
            with suppress(OSError):
                self._screen.note(f"the server did not get the interruption: {error}")


class Paused(Exception):
    """Everything that the Session waits for are budgets; only somebody else can end that."""


class ServerGone(Exception):
    """The server ended while its answer was followed."""

    def __init__(self) -> None:
        super().__init__("The server ended before the answer was complete. What it recorded is kept in the session.")


async def _run_beside(main: Coroutine[Any, Any, T], *others: Coroutine[Any, Any, None]) -> T:
    """Run `main` with the others beside it. The failure of one ends all; the end of `main` cancels the others."""
    loop = asyncio.get_running_loop()
    result = loop.create_task(main)
    tasks: set[asyncio.Task[Any]] = {result, *map(loop.create_task, others)}
    try:
        running = tasks
        while not result.done():
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        return result.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _within(seconds: float, event: asyncio.Event) -> None:
    """Wait for the event, at most that long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
