"""The connection to one MCP server: made when somebody needs it, and made again after it ended.

Invariants
- There is at most one connection, and at most one start is under way: all who need the server wait for the same one.
- A start waits after failures, longer with each one. In the background it also waits for the starts of others."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.core.mcp.start_delay import StartDelay
from holdfast.core.process.process import ProcessError
from holdfast.mcp.errors import McpError, NeedsAuthorization, ServerClosed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from holdfast.core.mcp.background_starts import BackgroundStarts
    from holdfast.mcp.client import Client

STABLE_SECONDS = 10.0
"""A connection that lasted this long has no failures before it."""
STARTS_UNASKED = 10
"""How often a server that nobody calls is started again after failures in a row."""
CLOSE_SECONDS = 8.0

log = logging.getLogger(__name__)


class ConnectionEvents(Protocol):
    """Who is told what becomes of a connection."""

    def starting(self) -> None: ...

    def opened(self, client: Client) -> None: ...

    def failed(self, error: McpError | ProcessError) -> None:
        """It could not be made."""

    def needs_authorization(self, needs: NeedsAuthorization) -> None:
        """It could not be made for want of a credential."""


class ServerConnection:
    def __init__(
        self, name: str, open: Callable[[], Awaitable[Client]], starts: BackgroundStarts, events: ConnectionEvents
    ) -> None:
        """`open` makes a connection; it raises McpError and ProcessError."""
        self._name = name
        self._open = open
        self._starts = starts
        self._events = events
        self.current: Client | None = None
        self.delay = StartDelay()
        self._wanted = asyncio.Event()
        """Somebody waits for the start that is under way."""
        self._starting: asyncio.Task[Client] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._connected_at = 0.0

    async def client(self, *, unasked: bool = False) -> Client:
        """The connection, made if there is none. `unasked` is for the background, which can wait longer. Raises
        McpError and ProcessError."""
        if self.current is not None and self.current.end is None:
            return self.current
        if not unasked:
            self.delay.hurry()
            self._wanted.set()
        if self._starting is None:
            if unasked:
                self._wanted.clear()
            self._starting = self.run(self._start())
            self._starting.add_done_callback(self._started)
        starting = self._starting
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if starting.cancelled() and caller is not None and not caller.cancelling():
                raise ServerClosed("it was disconnected") from None
            raise

    def keep(self, *, forever: bool) -> None:
        """Make the connection in the background: until it succeeds, or `forever` is false and it has failed often."""
        if self._keeper is None:
            self._keeper = self.run(self._keep_trying(forever))
            self._keeper.add_done_callback(self._kept)

    def drop(self) -> None:
        """The connection has ended by itself, or is of no use: that counts as a failure."""
        client, self.current = self.current, None
        if client is not None:
            self.run(client.close())
        if asyncio.get_running_loop().time() - self._connected_at >= STABLE_SECONDS:
            self.delay.reset()
        self.delay.failed()

    async def end(self) -> None:
        """End the connection and everything that works for it."""
        client, self.current = self.current, None
        tasks = tuple(self._tasks)
        for task in tasks:
            if task is not asyncio.current_task():
                task.cancel()
        if client is not None:
            await client.close()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Work that ends with `end`."""
        task = asyncio.create_task(work, name=f"MCP server {self._name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _start(self) -> Client:
        await self.delay.wait()
        async with self._starts.turn(self._wanted):
            self._events.starting()
            client = await self._opened()
        self.current, self._connected_at = client, asyncio.get_running_loop().time()
        self._events.opened(client)
        return client

    async def _opened(self) -> Client:
        try:
            client = await self._open()
            if client.end is not None:  # it ended before anybody listened to that
                await client.close()
                raise client.end
        except NeedsAuthorization as needs:
            self._events.needs_authorization(needs)
            raise
        except (McpError, ProcessError) as error:
            self._fail(error)
            raise
        except Exception as error:  # a defect of ours: the others who wait must be told all the same
            log.exception("connecting to the MCP server %s", self._name)
            self._fail(McpError(f"{type(error).__name__}"))
            raise McpError("it could not be started because of a defect") from error
        return client

    def _fail(self, error: McpError | ProcessError) -> None:
        self.delay.failed()
        self._events.failed(error)

    def _started(self, task: asyncio.Task[Client]) -> None:
        self._starting = None
        if not task.cancelled():
            task.exception()  # marks a failure as retrieved

    async def _keep_trying(self, forever: bool) -> None:
        while forever or self.delay.failures < STARTS_UNASKED:
            try:
                await self.client(unasked=True)
            except NeedsAuthorization:
                return
            except (McpError, ProcessError):
                continue
            return

    def _kept(self, _: object) -> None:
        self._keeper = None
