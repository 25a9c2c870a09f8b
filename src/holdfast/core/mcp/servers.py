"""The MCP servers of a Location: those of its configuration, and those that were added over the API.

Nothing of the protocol is imported, read or started while there is no server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.core.database.errors import StorageError
from holdfast.schema.exceptions import McpServerNotFound
from holdfast.schema.mcp import McpStatusChanged

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping

    from holdfast.core.mcp.background_starts import BackgroundStarts
    from holdfast.core.mcp.configured_servers import ConfiguredServer
    from holdfast.core.mcp.seam import CallFor, KnownServer, Manifest, Sampler
    from holdfast.core.mcp.server import Server
    from holdfast.core.mcp.server_calls import Input
    from holdfast.core.mcp.server_host import ServerHost
    from holdfast.mcp.client import Client
    from holdfast.mcp.input import InputRequired
    from holdfast.mcp.results import Progress, PromptResult, ReadResult, ToolResult

T = TypeVar("T")

UNASKED_SECONDS = 0.25
"""How long a Location is open before servers are started that nobody has called: a command that only looks at
something ends before that."""
TOUCH_SECONDS = 12 * 3600.0
"""How often it is noted that the servers are still in use."""
LEARN_SECONDS = 15.0
"""How long a model waits for tools of servers that have never said what they offer."""


class LocationServers:
    """A `seam.Servers`."""

    def __init__(self, host: Callable[[], ServerHost], starts: BackgroundStarts, changed: Callable[[], None]) -> None:
        """`host` is made with the first server. `changed` is called when there are other servers than before."""
        self._make_host = host
        self._starts = starts
        self._changed = changed
        self._made_host: ServerHost | None = None
        self.sampler: Callable[[], Sampler | None] = lambda: None
        """What gives servers answers of a model. Set before a server is started."""
        self._configured: Mapping[str, ConfiguredServer] = {}
        self._directory_trusted = False
        self._added: dict[str, ConfiguredServer] = {}
        self._removed: set[str] = set()
        self._switched: dict[str, bool] = {}
        """What was connected or disconnected by hand, by name: whether it is used."""
        self._servers: dict[str, Server] = {}
        self._known: tuple[KnownServer, ...] | None = ()
        self._opened = False
        self._closed = False
        self._unasked: asyncio.TimerHandle | None = None
        self._touching: asyncio.Task[None] | None = None
        self._work: set[asyncio.Task[None]] = set()

    # -- which servers there are -----------------------------------------------------------------------------------

    @property
    def configured(self) -> bool:
        """Also if a person has disconnected it: what is offered to a model does not depend on that."""
        return any(server.enabled or not server.configured.disabled for server in self._servers.values())

    @property
    def changed_by_hand(self) -> bool:
        """Whether something would be forgotten if the Location were closed."""
        switched = (server.enabled == server.configured.disabled for server in self._servers.values())
        return bool(self._added or self._removed) or any(switched)

    def wanted(self) -> dict[str, ConfiguredServer]:
        """What there should be, by name: the configured servers and what was added, without what was removed."""
        kept = {name: server for name, server in self._configured.items() if name not in self._removed}
        return {
            name: server.replace(in_project=server.of_project or self._directory_trusted) if server.local else server
            for name, server in {**kept, **self._added}.items()
        }

    def all(self) -> tuple[Server, ...]:
        """Sorted by name."""
        return tuple(self._servers[name] for name in sorted(self._servers))

    def get(self, name: str) -> Server:
        """Raises McpServerNotFound."""
        found = self._servers.get(name)
        if found is None:
            raise McpServerNotFound(name)
        return found

    def use(self, configured: Mapping[str, ConfiguredServer], directory_trusted: bool) -> None:
        """From now on these are the configured servers. Those that have not changed stay connected.
        `directory_trusted`: whether servers that are not the project's own may start in its directory."""
        self._configured = configured
        self._directory_trusted = directory_trusted
        self._apply()

    async def open(self) -> None:
        """Read what is known of the servers, and start those of which nothing is. Does not wait for any."""
        self._opened = True
        servers = tuple(self._servers.values())
        await self._read_known(servers)
        if servers:
            self._touch_daily()
            self._unasked = asyncio.get_running_loop().call_later(UNASKED_SECONDS, _keep, servers)

    def add(self, server: ConfiguredServer) -> None:
        """Until this process ends. It takes the place of a configured one of its name."""
        self._added[server.name] = server
        self._removed.discard(server.name)
        self._switched.pop(server.name, None)
        self._apply()

    async def remove(self, name: str) -> None:
        """Until this process ends. Raises McpServerNotFound."""
        self.get(name)
        self._added.pop(name, None)
        self._switched.pop(name, None)
        if name in self._configured:
            self._removed.add(name)
        self._apply()
        await self._settle()

    async def connect(self, name: str) -> None:
        """Raises McpServerNotFound. Returns when the server is connected or has failed."""
        server = self.get(name)
        self._switched[name] = True
        await server.connect()
        self._known = None

    async def disconnect(self, name: str) -> None:
        server = self.get(name)
        self._switched[name] = False
        await server.disconnect()
        self._known = None

    async def close(self) -> None:
        self._closed = True
        if self._unasked is not None:
            self._unasked.cancel()
        if self._touching is not None:
            self._touching.cancel()
            await asyncio.wait({self._touching})
        servers, self._servers, self._known = tuple(self._servers.values()), {}, ()
        if servers:
            await asyncio.gather(*(server.close() for server in servers))
        await self._settle()

    def credential_changed(self, integration_id: str) -> None:
        from holdfast.core.mcp.remote_servers import integration_id as id_of

        for server in self._servers.values():
            url = getattr(server.configured.config, "url", None)
            if url is not None and id_of(server.name, url) == integration_id:
                server.credential_changed()

    # -- what they offer -------------------------------------------------------------------------------------------

    def known(self) -> tuple[KnownServer, ...]:
        if self._known is None:
            self._known = tuple(server.known for server in self.all() if server.enabled and server.known is not None)
        return self._known

    async def look_again(self) -> None:
        idle = [server for server in self._servers.values() if self._opened and not server.connected]
        if not idle:
            return
        newest = await self._host.manifests.hashes(server.configured for server in idle)
        await self._read_known(
            server
            for server in idle
            if server.name in newest and (server.known is None or server.known.hash != newest[server.name])
        )

    def unknown(self) -> tuple[str, ...]:
        return tuple(server.name for server in self.all() if server.enabled and server.known is None)

    async def learn(self, names: Collection[str] | None = None) -> bool:
        unknown = [server for server in self.all() if server.enabled and server.known is None]
        if names is None:
            unknown = [server for server in unknown if server.status.error is None]
        else:
            unknown = [server for server in unknown if server.name in names]
        if unknown:
            with suppress(TimeoutError):
                async with asyncio.timeout(LEARN_SECONDS):
                    await asyncio.gather(*(server.learn(unasked=names is None) for server in unknown))
        return any(server.known is not None for server in unknown)

    async def manifest(self, hash: str) -> Manifest | None:
        for server in self.known():
            if server.hash == hash:
                return server.manifest
        return await self._host.manifests.get(hash)

    # -- calls -----------------------------------------------------------------------------------------------------

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        whom: CallFor | None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> ToolResult:
        async def send(client: Client, given: Input) -> ToolResult | InputRequired:
            answers, state = given
            return await client.call_tool(
                tool, arguments, key=_key(whom), on_progress=on_progress, answers=answers, state=state
            )

        return await self._use(server, whom, send)

    async def read_resource(self, server: str, uri: str, whom: CallFor | None) -> ReadResult:
        async def send(client: Client, given: Input) -> ReadResult | InputRequired:
            answers, state = given
            return await client.read_resource(uri, key=_key(whom), answers=answers, state=state)

        return await self._use(server, whom, send)

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str], whom: CallFor | None
    ) -> PromptResult:
        async def send(client: Client, given: Input) -> PromptResult | InputRequired:
            answers, state = given
            return await client.get_prompt(name, arguments, key=_key(whom), answers=answers, state=state)

        return await self._use(server, whom, send)

    async def _use(
        self, name: str, whom: CallFor | None, send: Callable[[Client, Input], Awaitable[T | InputRequired]]
    ) -> T:
        found = self.get(name)
        from holdfast.core.mcp.server_calls import use
        from holdfast.mcp.errors import McpError

        try:
            return await use(found, self._host.people(), whom, send)
        except McpError as error:
            raise found.without_secrets(error) from error

    # -- changes ---------------------------------------------------------------------------------------------------

    @property
    def _host(self) -> ServerHost:
        if self._made_host is None:
            self._made_host = self._make_host()
        return self._made_host

    def _apply(self) -> None:
        """Close what is gone or different, and begin what is new."""
        if self._closed:
            return
        wanted = self.wanted()
        before = {name: server.configured for name, server in self._servers.items()}
        begun: list[Server] = []
        for name in [*self._servers.keys() - wanted.keys()]:
            self._run(self._servers.pop(name).close())
            self._host.announce(McpStatusChanged(server=name))
        for name, configured in wanted.items():
            present = self._servers.get(name)
            if present is not None and present.configured == configured:
                continue
            made = self._new(configured)
            begun.append(made)
            if present is not None:
                self._run(present.close())
                if present.configured.key == configured.key:  # a turn may come before what is stored is read
                    made.known = present.known
        self._known = None
        if begun and self._opened:
            self._run(self._begin(begun))
        if wanted != before:
            self._changed()

    def _new(self, configured: ConfiguredServer) -> Server:
        from holdfast.core.mcp.server import Server

        enabled = self._switched.get(configured.name, not configured.disabled)
        made = self._servers[configured.name] = Server(
            configured, self._host, self._starts, self._forget_known, enabled=enabled
        )
        return made

    async def _begin(self, servers: Iterable[Server]) -> None:
        await self._read_known(servers)
        self._touch_daily()
        _keep(servers)

    async def _read_known(self, servers: Iterable[Server]) -> None:
        for server in servers:
            stored = await self._host.manifests.newest(server.configured)
            if not server.connected:  # otherwise it was read in the meantime
                server.begin(stored)
                self._known = None

    def _touch_daily(self) -> None:
        if self._touching is None and not self._closed:
            self._touching = asyncio.create_task(self._touch())

    async def _touch(self) -> None:
        while True:
            with suppress(StorageError):
                await self._host.manifests.touch([server.configured for server in self._servers.values()])
            await asyncio.sleep(TOUCH_SECONDS)

    def _forget_known(self) -> None:
        self._known = None

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _settle(self) -> None:
        while self._work:
            await asyncio.wait(tuple(self._work))


def _keep(servers: Iterable[Server]) -> None:
    for server in servers:
        server.keep()


def _key(whom: CallFor | None) -> str | None:
    return f"{whom.session_id}/{whom.call_id}" if whom is not None else None
