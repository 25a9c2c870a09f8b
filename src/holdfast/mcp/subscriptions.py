"""What a client wants to be told about. Up to 2025-11-25 a server announces changed lists by itself, and updated
resources after `resources/subscribe`. Since 2026-07-28 the client keeps a request `subscriptions/listen` open for
both."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from holdfast.mcp.callbacks import tell
from holdfast.mcp.errors import McpError, NeedsAuthorization, NotOffered, ServerClosed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    import msgspec

    from holdfast.mcp.capabilities import ServerCapabilities
    from holdfast.mcp.handlers import Handlers
    from holdfast.mcp.versions import Version

URI_LIMIT = 1000
RETRY_SECONDS = 1.0
MOST_RETRY_SECONDS = 60.0


class Subscriptions:
    """`call` sends a request and waits for its answer; `run` starts a task that ends when the connection is closed;
    `is_open` tells whether the connection may still be used."""

    def __init__(
        self,
        call: Callable[[str, dict[str, Any]], Awaitable[msgspec.Raw]],
        run: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        is_open: Callable[[], bool],
        handlers: Handlers,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._call = call
        self._run = run
        self._is_open = is_open
        self._handlers = handlers
        self._sleep = sleep
        self._uris: dict[str, None] = {}
        self._listening: asyncio.Task[None] | None = None
        self._version: Version | None = None
        self._capabilities: ServerCapabilities | None = None

    def begin(self, version: Version, capabilities: ServerCapabilities) -> None:
        """The version is agreed upon. After a new agreement on the same connection nothing is left to be done by the
        caller: what was subscribed to is subscribed to again."""
        again = self._version is not None
        self._version, self._capabilities = version, capabilities
        if version.stateless:
            self._listen()
        elif again and self._uris:
            self._run(self._subscribe_again())

    async def subscribe(self, uri: str) -> None:
        """Raises NotOffered and McpError."""
        assert self._version is not None
        assert self._capabilities is not None
        resources = self._capabilities.resources
        if resources is None or not (resources.subscribe or self._version.stateless):
            raise NotOffered("subscriptions to resources")
        if uri in self._uris:
            return
        if len(self._uris) >= URI_LIMIT:
            raise NotOffered(f"more than {URI_LIMIT} subscriptions at once")
        if not self._version.stateless:
            await self._call("resources/subscribe", {"uri": uri})
        self._uris[uri] = None
        if self._version.stateless:
            self._listen()

    async def unsubscribe(self, uri: str) -> None:
        assert self._version is not None
        if uri not in self._uris:
            return
        del self._uris[uri]
        if self._version.stateless:
            self._listen()
        else:
            await self._call("resources/unsubscribe", {"uri": uri})

    async def _subscribe_again(self) -> None:
        for uri in list(self._uris):
            try:
                await self._call("resources/subscribe", {"uri": uri})
            except McpError:
                self._uris.pop(uri, None)

    # -- 2026-07-28 ------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None
        wanted = self._wanted()
        if wanted:
            self._listening = self._run(self._keep_listening(wanted))

    def _wanted(self) -> dict[str, Any]:
        offered, handlers = self._capabilities, self._handlers
        assert offered is not None
        lists = {
            "toolsListChanged": handlers.on_tools_changed and offered.tools and offered.tools.list_changed,
            "promptsListChanged": handlers.on_prompts_changed and offered.prompts and offered.prompts.list_changed,
            "resourcesListChanged": handlers.on_resources_changed
            and offered.resources
            and offered.resources.list_changed,
        }
        wanted: dict[str, Any] = {name: True for name, value in lists.items() if value}
        if self._uris:
            wanted["resourceSubscriptions"] = list(self._uris)
        return wanted

    async def _keep_listening(self, wanted: dict[str, Any]) -> None:
        """Opens the stream again whenever it ends. What changed in between is told as a change of everything."""
        loop = asyncio.get_running_loop()
        delay = RETRY_SECONDS
        while True:
            started = loop.time()
            try:
                await self._call("subscriptions/listen", {"notifications": wanted})
            except NeedsAuthorization:
                return  # a call will tell
            except ServerClosed:
                if not self._is_open():
                    return
            except McpError:
                return  # the server refuses; it would again
            delay = RETRY_SECONDS if loop.time() - started > MOST_RETRY_SECONDS else delay * 2
            await self._sleep(min(delay, MOST_RETRY_SECONDS) * random.uniform(0.8, 1.2))
            self._tell_everything(wanted)

    def _tell_everything(self, wanted: dict[str, Any]) -> None:
        handlers = self._handlers
        for name, callback in (
            ("toolsListChanged", handlers.on_tools_changed),
            ("promptsListChanged", handlers.on_prompts_changed),
            ("resourcesListChanged", handlers.on_resources_changed),
        ):
            if name in wanted:
                tell(callback)
        for uri in wanted.get("resourceSubscriptions", ()):
            tell(handlers.on_resource_updated, uri)
