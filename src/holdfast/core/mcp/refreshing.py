"""Reads the lists of a connected server: once after the connection, then when the server says that one has changed.

A server that announces changes all the time is asked less and less often: after each reading the wait before the next
one doubles, up to a minute, or to ten minutes if it really offers something else each time. It is forgotten after ten
quiet minutes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.core.mcp.manifest import Lists, make_manifest
from holdfast.core.mcp.seam import KnownServer
from holdfast.mcp.catalog import Listing, Tool
from holdfast.mcp.errors import McpError, NeedsAuthorization, ServerClosed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from holdfast.core.mcp.configured_servers import ConfiguredServer
    from holdfast.core.mcp.stored_manifests import StoredManifests, StoredServer
    from holdfast.mcp.client import Client

    Read = Callable[[KnownServer | None, tuple[str, ...], McpError | None], None]
    Run = Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]]

GATHER_SECONDS = 0.1
"""Several announcements in a row cost one reading."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
LONGEST_CHANGING_PAUSE = 600.0
QUIET_SECONDS = 600.0
MANY_TOOLS = 100
KINDS = ("tools", "prompts", "resources", "templates")
EMPTY: Listing[Any] = Listing(())


class ManifestRefresh:
    """Of one connection."""

    def __init__(self, server: ConfiguredServer, client: Client, manifests: StoredManifests, read: Read) -> None:
        """`read` gets the manifest with its problems, or None if nothing has changed, or why it failed."""
        self._server = server
        self._client = client
        self._manifests = manifests
        self._read = read
        self._lists: dict[str, Listing[Any]] = {}
        self._failed: dict[str, str] = {}
        self._changed = set(KINDS)
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._hash: str | None = None
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done after the first reading."""

    def begin(self, stored: StoredServer | None, run: Run) -> None:
        if stored is not None:
            known = stored.known
            # A call need not wait for the list.
            self._client.know_tools(
                Tool(name=tool.name, input_schema=tool.input_schema) for tool in known.manifest.tools
            )
            self._hash = known.hash if stored.own and stored.version == self._client.version else None
        self._task = run(self._follow())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()  # it may be the caller, and then ends at its next wait
        self._finish_first()

    def changed(self, kind: str) -> None:
        self._changed.update(("resources", "templates") if kind == "resources" else (kind,))
        self._wake.set()

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await self._ask_for_log_messages()
            await self._refresh()
        finally:
            self._finish_first()
        pause, last = 0.0, loop.time()
        while True:
            self._wake.clear()
            if not self._changed:
                await self._wake.wait()
            if loop.time() - last > QUIET_SECONDS:
                pause = 0.0
            await asyncio.sleep(max(GATHER_SECONDS, last + pause - loop.time()))
            longest = LONGEST_CHANGING_PAUSE if await self._refresh() else LONGEST_PAUSE
            pause = min(pause * 2 or FIRST_PAUSE, longest)
            last = loop.time()

    async def _refresh(self) -> bool:
        """Whether the server offers something else than before."""
        kinds, self._changed = self._changed, set()
        try:
            await self._read_lists(kinds)
            lists = Lists(self._client.instructions, *(self._lists.get(kind, EMPTY) for kind in KINDS))
            many = len(lists.tools.items) > MANY_TOOLS
            made = await asyncio.to_thread(make_manifest, lists) if many else make_manifest(lists)
            other = made.hash != self._hash
            if other:
                await self._manifests.store(self._server, made, self._client.version)
                self._hash = made.hash
        except McpError as error:
            self._read(None, (), error)
            return False
        failed = tuple(f"the list of {kind} could not be read: {reason}" for kind, reason in self._failed.items())
        self._read(KnownServer(self._server.name, made.hash, made.manifest), (*failed, *made.problems), None)
        return other

    async def _read_lists(self, kinds: set[str]) -> None:
        """Without its tools a server is of no use; other lists may fail."""
        client = self._client
        readers: dict[str, Callable[[], Awaitable[Listing[Any]]]] = {
            "tools": client.list_tools,
            "prompts": client.list_prompts,
            "resources": client.list_resources,
            "templates": client.list_resource_templates,
        }
        for kind in KINDS:
            if kind not in kinds:
                continue
            try:
                self._lists[kind] = await readers[kind]()
                self._failed.pop(kind, None)
            except (ServerClosed, NeedsAuthorization):
                raise
            except McpError as error:
                if kind == "tools":
                    raise
                self._failed[kind] = str(error)

    async def _ask_for_log_messages(self) -> None:
        if self._client.capabilities.logging is not None:
            with suppress(McpError):  # they are only shown to people
                await self._client.set_log_level("info")

    def _finish_first(self) -> None:
        if not self.first.done():
            self.first.set_result(None)
