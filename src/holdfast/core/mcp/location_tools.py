"""The tools of MCP servers of a Location, for those who make requests. Imports nothing else of them while no server is
configured."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.core.context.system_context import EMPTY

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from holdfast.core.context.system_context import SystemContext
    from holdfast.core.mcp.guidance import ListedServers
    from holdfast.core.mcp.offered_tools import OfferedTools
    from holdfast.core.mcp.seam import Servers
    from holdfast.core.tool.authorization import PermissionAuthorizer
    from holdfast.core.tool.registration import Registration
    from holdfast.schema.agent import Agent

TOKENS = 2_500
"""What tools of MCP servers may take in a request, by estimate, unless `holdfast.mcp.tokens` says otherwise."""


class McpTools:
    def __init__(
        self,
        servers: Servers,
        names: Callable[[], Collection[str]],
        tokens: Callable[[], int],
        authorizer: PermissionAuthorizer,
        registered: Callable[[], Iterable[str]],
    ) -> None:
        """`names` gives those of all configured servers, and `registered` the names of all other tools."""
        self._servers = servers
        self._names = names
        self._given = (servers, names, tokens, authorizer, registered)

    def offer(self) -> str:
        """For an epoch that begins now."""
        return self._offered.catalogue.offer() if self._servers.configured else ""

    async def tools(self, offer: str) -> tuple[Registration, ...]:
        """What a request offers whose epoch has this offer. The same objects while nothing changes."""
        return await self._offered.of(offer) if offer or self._servers.configured else ()

    def names(self) -> Iterable[str]:
        """Of the tools that are known now, and those to search and call them."""
        return self._offered.names() if self._servers.configured else ()

    def prefixes(self, *, known: bool = True) -> tuple[str, ...]:
        """What the names of tools begin with. `known` False is only for servers of which nothing is known yet."""
        names = self._names()
        if not names:
            return ()
        from holdfast.core.mcp.tool_names import server_prefix

        without = frozenset() if known else {server.name for server in self._servers.known()}
        return tuple(server_prefix(name) for name in names if name not in without)

    def context(self, agent: Agent) -> SystemContext:
        """What an agent is told of the servers."""
        if not self._servers.configured:
            return EMPTY
        from holdfast.core.mcp.guidance import guidance

        async def load() -> ListedServers:
            await self._servers.look_again()
            return self._offered.catalogue.listed(agent.permissions, agent.fences)

        return guidance(load)

    @cached_property
    def _offered(self) -> OfferedTools:
        from holdfast.core.mcp.offered_tools import OfferedTools

        return OfferedTools(*self._given)
