"""One MCP server of a Location: its state, its connection, and what it said it offers.

Invariants
- There is at most one connection, and at most one start is under way: all who need the server wait for the same one.
- What the server offers outlives its connection.
- A connection that ended is made again when somebody needs it, after a delay that grows with each failure.

The protocol is imported with the first start, so that a Location whose servers are only known opens as fast as any."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from holdfast.core.config.schema import LocalServer
from holdfast.core.mcp.errors import ServerUnavailable
from holdfast.core.mcp.server_handlers import ServerHandlers
from holdfast.core.mcp.server_log import ServerLog, log_path
from holdfast.core.mcp.stored_manifests import StoredServer
from holdfast.core.process.process import ProcessError
from holdfast.core.secret import hide
from holdfast.mcp.errors import McpError, NeedsAuthorization, ServerClosed
from holdfast.schema.frozen import Frozen
from holdfast.schema.mcp import McpStatusChanged

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from holdfast.core.mcp.background_starts import BackgroundStarts
    from holdfast.core.mcp.configured_servers import ConfiguredServer
    from holdfast.core.mcp.refreshing import ManifestRefresh
    from holdfast.core.mcp.seam import KnownServer
    from holdfast.core.mcp.server_host import ServerHost
    from holdfast.core.mcp.start_places import StartPlace
    from holdfast.mcp.client import Client

State = Literal["configured", "known", "starting", "connected", "failed", "needs_auth", "disabled"]

FIRST_DELAY = 0.25
LONGEST_DELAY = 300.0
LONGEST_CALL_DELAY = 2.0
"""A call waits no longer than this after the last failure."""
STABLE_SECONDS = 10.0
"""A connection that lasted this long has no failures before it."""
STARTS_UNASKED = 10
"""How often a server that nobody calls is started again after failures in a row."""
CLOSE_SECONDS = 8.0

log = logging.getLogger(__name__)


class ServerState(Frozen):
    """`error` belongs to `failed` and `needs_auth`, and has no secrets. `since` is in milliseconds."""

    state: State
    since: int
    error: str | None = None


class Server:
    def __init__(
        self,
        configured: ConfiguredServer,
        host: ServerHost,
        starts: BackgroundStarts,
        known_changed: Callable[[], None],
        *,
        enabled: bool,
    ) -> None:
        """`known_changed` is called when what is known of the server has changed."""
        self.configured = configured
        self.log = ServerLog(log_path(host.logs, str(host.directory), configured.name), configured.secrets)
        self.enabled = enabled
        self.known: KnownServer | None = None
        self.problems: tuple[str, ...] = ()
        """What was left out of the manifest."""
        self.handlers = ServerHandlers(configured.name, host, self.log, self._announced)
        self._host = host
        self._starts = starts
        self._known_changed = known_changed
        self._client: Client | None = None
        self._version: str | None = None
        self._last_version: str | None = None
        self._own = False
        """Whether this Location has a stored manifest of its own."""
        self._starting: asyncio.Task[Client] | None = None
        self._refresh: ManifestRefresh | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._failures = 0
        self._failed_at = 0.0
        self._not_before = 0.0
        self._hurried = asyncio.Event()
        """Ends the wait after a failure."""
        self._wanted = asyncio.Event()
        """Somebody waits for the start that is under way."""
        self._connected_at = 0.0
        self._closed = False
        self._status = ServerState("disabled" if not self.enabled else "configured", host.clock.now())

    @property
    def name(self) -> str:
        return self.configured.name

    @property
    def status(self) -> ServerState:
        return self._status

    @property
    def place(self) -> StartPlace | None:
        """Where it starts, if it is a local one."""
        config = self.configured.config
        return self._host.places.of(self.configured, config) if isinstance(config, LocalServer) else None

    @property
    def connected(self) -> bool:
        return self._client is not None

    @property
    def version(self) -> str | None:
        """Of the protocol, while connected."""
        return self._version

    # -- life ------------------------------------------------------------------------------------------------------

    def begin(self, stored: StoredServer | None) -> None:
        """`stored` is what was known of the server last, if anything."""
        if stored is None:
            return
        self.known, self._last_version, self._own = stored.known, stored.version, stored.own
        if self._status.state == "configured":
            self._set("known")

    def keep(self) -> None:
        """Start the server in the background, if its manifest is unknown or it is eager."""
        needed = self.configured.eager or self.known is None
        if needed and self._keeper is None and self.enabled and not self._closed:
            self._keeper = self._run(self._keep_trying())
            self._keeper.add_done_callback(self._kept)

    async def connect(self) -> None:
        """Enable the server and start it. Returns when it is connected or has failed; see `status`."""
        self.enabled = True
        self._failures, self._not_before = 0, 0.0
        await self.learn()

    async def learn(self, *, unasked: bool = False) -> None:
        """Start the server if needed. Returns when what it offers is known or it has failed."""
        try:
            await self.client(unasked=unasked)
            if self._refresh is not None:
                await asyncio.shield(self._refresh.first)  # others may wait for it, too
        except (McpError, ServerUnavailable):
            pass

    async def disconnect(self) -> None:
        """End the connection. The server is not started again before `connect`."""
        self.enabled = False
        await self._end()
        self._set("disabled")

    async def close(self) -> None:
        self._closed = True
        await self._end()

    def credential_changed(self) -> None:
        """A sign-in may have succeeded: what waited for it can be tried again."""
        if self._status.state == "needs_auth" and self.enabled and not self._closed:
            self._failures, self._not_before = 0, 0.0
            self.authorized()
            self.keep()

    # -- connection ------------------------------------------------------------------------------------------------

    async def client(self, *, unasked: bool = False) -> Client:
        """The connection, made if there is none. `unasked` is for the background, which can wait longer after failures,
        and waits for the starts of other servers. Raises NeedsAuthorization and ServerUnavailable."""
        if self._client is not None and self._client.end is None:
            return self._client
        if not self.enabled:
            raise ServerUnavailable(self.name, "it is disabled")
        if self._closed:
            raise ServerUnavailable(self.name, "it is being closed")
        if not unasked:
            self._not_before = min(self._not_before, self._failed_at + LONGEST_CALL_DELAY)
            self._hurried.set()
            self._wanted.set()
        if self._starting is None:
            if unasked:
                self._wanted.clear()
            self._starting = self._run(self._start())
            self._starting.add_done_callback(self._started)
        starting = self._starting
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if starting.cancelled() and caller is not None and not caller.cancelling():
                raise ServerUnavailable(self.name, "it was disconnected") from None
            raise
        except NeedsAuthorization:
            raise
        except (McpError, ProcessError) as error:
            raise ServerUnavailable(self.name, self.reason(error)) from error

    def needs_authorization(self, needs: NeedsAuthorization) -> None:
        """A request was refused for want of a credential."""
        self._set("needs_auth", self.reason(needs))

    def authorized(self) -> None:
        """A request was accepted, or may be now."""
        if self._status.state == "needs_auth":
            self._set("connected" if self._client is not None else "known" if self.known is not None else "configured")

    async def _start(self) -> Client:
        await self._wait_after_failure()
        async with self._starts.turn(self._wanted):
            return await self._connect()

    async def _connect(self) -> Client:
        self._set("starting")
        from holdfast.core.mcp.connecting import open_client
        from holdfast.core.mcp.refreshing import ManifestRefresh

        try:
            client = await open_client(
                self.configured, self._host, self.log, self.handlers.made(self._lost), self._last_version
            )
            if client.end is not None:  # it ended before anybody listened to that
                await client.close()
                raise client.end
        except NeedsAuthorization as needs:
            self.needs_authorization(needs)
            raise
        except (McpError, ProcessError) as error:
            self._failed(error)
            raise
        except Exception as error:  # a defect of ours: the others who wait must be told all the same
            log.exception("connecting to the MCP server %s", self.name)
            self._failed(McpError(f"{type(error).__name__}"))
            raise McpError("it could not be started because of a defect") from error
        self._client, self._version = client, client.version
        known = self.known
        stored = StoredServer(known, self._last_version or "", own=self._own) if known is not None else None
        self._last_version = client.version
        self._connected_at = asyncio.get_running_loop().time()
        self.log.line("state", f"protocol version {client.version}")
        self._refresh = ManifestRefresh(self.configured, client, self._host.manifests, self._lists_read)
        self._refresh.begin(stored, self._run)
        return client

    async def _wait_after_failure(self) -> None:
        """A call shortens the wait."""
        while (delay := self._not_before - asyncio.get_running_loop().time()) > 0:
            self._hurried.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._hurried.wait()

    def _started(self, task: asyncio.Task[Client]) -> None:
        self._starting = None
        if not task.cancelled():
            task.exception()  # marks a failure as retrieved

    def _lists_read(self, known: KnownServer | None, problems: tuple[str, ...], error: McpError | None) -> None:
        """The lists of the connected server were read, or could not be."""
        if error is not None:
            if isinstance(error, NeedsAuthorization):
                self.needs_authorization(error)
                return
            if self.known is None or isinstance(error, ServerClosed):  # nothing can be offered, or called
                self._lost(error)
                return
            problems = (f"the list of tools could not be read: {self.reason(error)}",)
        for problem in problems if problems != self.problems else ():
            self.log.line("catalogue", problem)
        self.problems = problems
        before, self._own = self.known, self._own or known is not None
        if known is not None and known != before:
            self.known = known
            self._known_changed()
            if _resources(before) != _resources(known):
                self.handlers.resources_changed()
        if self._status.state != "connected":
            self._set("connected")
        elif known is not None and known != before:
            self._host.announce(McpStatusChanged(server=self.name))

    def _announced(self, kind: str) -> None:
        """The server says that a list has changed."""
        if self._refresh is not None:
            self._refresh.changed(kind)

    def _lost(self, error: McpError) -> None:
        """The connection has ended by itself."""
        if self._client is None or self._closed or not self.enabled:
            return
        self._drop(error)
        self.keep()

    def _drop(self, error: McpError) -> None:
        client, self._client, self._version = self._client, None, None
        self._forget_refresh()
        if client is not None:
            self._run(client.close())
        if asyncio.get_running_loop().time() - self._connected_at >= STABLE_SECONDS:
            self._failures = 0
        self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        longest = min(FIRST_DELAY * 2 ** (self._failures - 1), LONGEST_DELAY)
        self._failed_at = asyncio.get_running_loop().time()
        self._not_before = self._failed_at + longest * random.uniform(0.5, 1.0)
        self._set("failed", self.reason(error))

    # -- background ------------------------------------------------------------------------------------------------

    async def _keep_trying(self) -> None:
        while self.configured.eager or self._failures < STARTS_UNASKED:
            try:
                await self.client(unasked=True)
            except NeedsAuthorization:
                return
            except ServerUnavailable:
                if self._closed or not self.enabled:
                    return
                continue
            return

    def _kept(self, _: object) -> None:
        self._keeper = None

    async def _end(self) -> None:
        """Ends the connection and everything that works for it."""
        client, self._client, self._version = self._client, None, None
        self._forget_refresh()
        tasks = tuple(self._tasks)
        for task in tasks:
            if task is not asyncio.current_task():
                task.cancel()
        if client is not None:
            await client.close()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)

    def _forget_refresh(self) -> None:
        if self._refresh is not None:
            self._refresh.stop()
            self._refresh = None

    def _run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=f"MCP server {self.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _set(self, state: State, error: str | None = None) -> None:
        if (state, error) == (self._status.state, self._status.error):
            return
        self._status = ServerState(state, self._host.clock.now(), error)
        if state not in ("configured", "known"):
            self.log.line("state", state if error is None else f"{state}: {error}")
        self._host.announce(McpStatusChanged(server=self.name))

    def without_secrets(self, error: McpError) -> McpError:
        """The error itself, unless its text has a secret of the configuration."""
        text = str(error)
        shown = hide(text, self.configured.secrets)
        return error if shown == text else McpError(shown)

    def reason(self, error: Exception) -> str:
        """The text of an error, without secrets of the configuration."""
        cause = getattr(error, "cause", "")
        text = f"{error}: {cause}" if isinstance(error, ProcessError) and cause else str(error)
        return hide(text, self.configured.secrets)


def _resources(known: KnownServer | None) -> tuple[object, ...]:
    return (*known.manifest.resources, *known.manifest.templates) if known is not None else ()
