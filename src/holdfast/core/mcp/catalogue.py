"""What the MCP servers of a Location offer, as far as it is known now. Made of manifests, never of connections."""

from __future__ import annotations

from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

from holdfast.core.mcp.guidance import listed_servers
from holdfast.core.mcp.offer import NO_TOOLS, definitions_tokens, write_offer
from holdfast.core.mcp.tool_index import ToolIndex
from holdfast.core.mcp.tool_names import named_tools, server_prefix
from holdfast.core.permission.rules import wholly_denied

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.mcp.guidance import ListedServers
    from holdfast.core.mcp.seam import KnownServer
    from holdfast.core.mcp.tool_names import NamedTool
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
    def tools(self) -> tuple[NamedTool, ...]:
        return named_tools({server.name: server.manifest for server in self.known}, self.servers)

    @cached_property
    def by_name(self) -> Mapping[str, NamedTool]:
        return {tool.name: tool for tool in self.tools}

    @cached_property
    def index(self) -> ToolIndex:
        """Made when somebody searches."""
        return ToolIndex(self.tools)

    @cached_property
    def definitions_tokens(self) -> int | None:
        """What a request takes that offers all tools by their names; None if it is too much."""
        return definitions_tokens(self.tools, self.tokens)

    def offer(self) -> str:
        """For an epoch that begins now: all servers with tools, or none if that were too much."""
        if not self.tools or self.definitions_tokens is None:
            return write_offer({})
        offered = {server.name: server for server in self.known if server.manifest.tools}
        hashes = {name: server.hash for name, server in offered.items()}
        alone = named_tools({name: server.manifest for name, server in offered.items()})
        if len(alone) != len(self.tools):  # servers without tools count, too: some tools have names that are theirs
            hashes |= dict.fromkeys(self.servers - offered.keys(), NO_TOOLS)
        return write_offer(hashes)

    def usable(self, rules: Sequence[Rule], fences: Fences) -> list[NamedTool]:
        """The tools that an agent with these rules is not denied wholly."""
        found: list[NamedTool] = []
        for server, tools in groupby(self.tools, key=lambda tool: tool.server):
            prefix = server_prefix(server)
            own, narrower = _about(rules, prefix), [_about(fence, prefix) for fence in fences]
            found += (tool for tool in tools if not wholly_denied(own, tool.name, narrower))
        return found

    def listed(self, rules: tuple[Rule, ...], fences: Fences) -> ListedServers:
        """What an agent with these rules is told. The same object until something changes."""
        key = (rules, tuple(map(tuple, fences)))
        if key not in self._listed:
            if len(self._listed) >= CACHED_RULE_SETS:
                self._listed.clear()
            usable = self.usable(rules, fences)
            named = self.definitions_tokens
            room = max(self.tokens - self._constant - (named or 0), self.tokens // 4)
            instructions = {server.name: server.manifest.instructions or "" for server in self.known}
            self._listed[key] = listed_servers(usable, instructions, room, described=named is None)
        return self._listed[key]


def _about(rules: Sequence[Rule], prefix: str) -> list[Rule]:
    """Those that can match a name with this prefix. A server may have a thousand tools, and most rules are about other
    things."""
    heads = ((rule, rule.action.replace("?", "*").partition("*")[0]) for rule in rules)
    return [rule for rule, head in heads if prefix.startswith(head) or head.startswith(prefix)]
