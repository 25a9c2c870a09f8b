"""What the MCP servers of a Location offer, as far as it is known now. Made of manifests, never of connections."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.core.mcp.guidance import listed_servers
from holdfast.core.mcp.offer import definitions_tokens, write_offer
from holdfast.core.mcp.tool_index import ToolIndex
from holdfast.core.mcp.tool_names import named_tools
from holdfast.core.permission.rules import wholly_denied

if TYPE_CHECKING:
    from holdfast.core.mcp.guidance import ListedServers
    from holdfast.core.mcp.seam import KnownServer
    from holdfast.core.permission.rules import Fences
    from holdfast.schema.permission import Rule

CACHED_RULE_SETS = 32


class Catalogue:
    """Does not change. Another manifest, server or setting makes another catalogue."""

    def __init__(self, known: tuple[KnownServer, ...], servers: frozenset[str], tokens: int, constant: int) -> None:
        """`servers` are the names of all configured ones. `tokens` is what tools may take in a request; `constant` of
        it is taken by the tools that are always there."""
        self.known = known
        self.servers = servers
        self.tokens = tokens
        self._constant = constant
        self._listed: dict[tuple[object, ...], ListedServers] = {}

    @cached_property
    def index(self) -> ToolIndex:
        return ToolIndex(named_tools({server.name: server.manifest for server in self.known}, self.servers))

    @cached_property
    def definitions_tokens(self) -> int:
        return definitions_tokens(self.index.tools)

    @property
    def is_small(self) -> bool:
        """Whether all tools can be offered by their names."""
        return self.definitions_tokens <= self.tokens

    def offer(self) -> str:
        """For an epoch that begins now: all servers with tools, or none if that were too much."""
        if not self.index.tools or not self.is_small:
            return write_offer({})
        return write_offer({server.name: server.hash for server in self.known if server.manifest.tools})

    def listed(self, rules: tuple[Rule, ...], fences: Fences) -> ListedServers:
        """What an agent with these rules is told. The same object until something changes."""
        key = (rules, tuple(map(tuple, fences)))
        if key not in self._listed:
            if len(self._listed) >= CACHED_RULE_SETS:
                self._listed.clear()
            usable = [tool for tool in self.index.tools if not wholly_denied(rules, tool.name, fences)]
            named = self.definitions_tokens if self.is_small else 0
            room = max(self.tokens - self._constant - named, self.tokens // 4)
            instructions = {server.name: server.manifest.instructions or "" for server in self.known}
            self._listed[key] = listed_servers(usable, instructions, room, described=not self.is_small)
        return self._listed[key]
