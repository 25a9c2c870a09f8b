"""One MCP server of a Location: its state, and what it said it offers, which outlives its connection.

The protocol is imported with the first start, so that a Location whose servers are only known opens as fast as any."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from holdfast.core.config.schema import LocalServer
from holdfast.core.mcp.errors import ServerUnavailable
from holdfast.core.mcp.server_connection import ServerConnection
from holdfast.core.mcp.server_handlers import ServerHandlers
from holdfast.core.mcp.server_log import ServerLog, log_path
from holdfast.core.mcp.stored_manifests import StoredServer
from holdfast.core.process.process import ProcessError
from holdfast.core.secret import hide
from holdfast.mcp.errors import McpError, NeedsAuthorization, ServerClosed
from holdfast.schema.frozen import Frozen
from holdfast.schema.mcp import McpStatusChanged

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.mcp.background_starts import BackgroundStarts
    from holdfast.core.mcp.configured_servers import ConfiguredServer
    from holdfast.core.mcp.refreshing import ManifestRefresh
    from holdfast.core.mcp.seam import KnownServer
    from holdfast.core.mcp.server_host import ServerHost
    from holdfast.core.mcp.start_places import StartPlace
    from holdfast.mcp.client import Client

State = Literal["configured", "known", "starting", "connected", "failed", "needs_auth", "disabled"]


class ServerState(Frozen):
    """`error` belongs to `failed` and `needs_auth`, and has no secrets. `since` is in milliseconds."""

    state: State
    since: int
    error: str | None = None


class Server:
    """Its connection tells it what becomes of it: see `ConnectionEvents`."""

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
        self._known_changed = known_changed
        self._connection = ServerConnection(configured.name, self._open, starts, self)
        self._last_version: str | None = None
        self._own = False
        """Whether this Location has a stored manifest of its own."""
        self._refresh: ManifestRefresh | None = None
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
        return self._connection.current is not None

    @property
    def version(self) -> str | None:
        """Of the protocol, while connected."""
        client = self._connection.current
        return client.version if client is not None else None

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
        if needed and self.enabled and not self._closed:
            self._connection.keep(forever=self.configured.eager)

    async def connect(self) -> None:
        """Enable the server and start it. Returns when it is connected or has failed; see `status`."""
        self.enabled = True
        self._connection.delay.reset()
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
            self._connection.delay.reset()
            self.authorized()
            self.keep()

    async def _end(self) -> None:
        self._forget_refresh()
        await self._connection.end()

    # -- connection ------------------------------------------------------------------------------------------------

    async def client(self, *, unasked: bool = False) -> Client:
        """The connection, made if there is none. `unasked` is for the background. Raises NeedsAuthorization and
        ServerUnavailable."""
        if not self.enabled:
            raise ServerUnavailable(self.name, "it is disabled")
        if self._closed:
            raise ServerUnavailable(self.name, "it is being closed")
        try:
            return await self._connection.client(unasked=unasked)
        except NeedsAuthorization:
            raise
        except (McpError, ProcessError) as error:
            raise ServerUnavailable(self.name, self.reason(error)) from error

    def starting(self) -> None:
        self._set("starting")

    def opened(self, client: Client) -> None:
        from holdfast.core.mcp.refreshing import ManifestRefresh

        known = self.known
        stored = StoredServer(known, self._last_version or "", own=self._own) if known is not None else None
        self._last_version = client.version
        self.log.line("state", f"protocol version {client.version}")
        self._refresh = ManifestRefresh(self.configured, client, self._host.manifests, self._lists_read)
        self._refresh.begin(stored, self._connection.run)

    def failed(self, error: McpError | ProcessError) -> None:
        self._set("failed", self.reason(error))

    def needs_authorization(self, needs: NeedsAuthorization) -> None:
        """A request was refused for want of a credential."""
        self._set("needs_auth", self.reason(needs))

    def authorized(self) -> None:
        """A request was accepted, or may be now."""
        if self._status.state == "needs_auth":
            self._set("connected" if self.connected else "known" if self.known is not None else "configured")

    async def _open(self) -> Client:
        from holdfast.core.mcp.connecting import open_client

        handlers = self.handlers.made(self._lost)
        return await open_client(self.configured, self._host, self.log, handlers, self._last_version)

    def _lost(self, error: McpError) -> None:
        """The connection has ended by itself."""
        if not self.connected or self._closed or not self.enabled:
            return
        self._forget_refresh()
        self._connection.drop()
        self.failed(error)
        self.keep()

    def _forget_refresh(self) -> None:
        if self._refresh is not None:
            self._refresh.stop()
            self._refresh = None

    # -- what it offers --------------------------------------------------------------------------------------------

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

    # -- state -----------------------------------------------------------------------------------------------------

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
