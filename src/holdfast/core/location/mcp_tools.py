"""Builds what requests of a Location need of its MCP servers: their tools, and the rule that makes them ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.location.settings import mcp_tokens, remembered
from holdfast.core.mcp.location_tools import McpTools
from holdfast.core.state import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from holdfast.core.agent.agents import Agents
    from holdfast.core.agent.draft import AgentDraft
    from holdfast.core.config.reload import LiveConfig
    from holdfast.core.mcp.servers import LocationServers
    from holdfast.core.scope import Scope
    from holdfast.core.tool.authorization import PermissionAuthorizer


def open_mcp_tools(
    servers: LocationServers,
    config: LiveConfig,
    agents: Agents,
    authorizer: PermissionAuthorizer,
    registered: Callable[[], Iterable[str]],
    scope: Scope,
) -> McpTools:
    """`registered` gives the names of all other tools. Whoever changes the servers reloads the agents."""

    def names() -> Collection[str]:
        return servers.wanted().keys()

    def ask(draft: AgentDraft) -> None:
        if names():
            from holdfast.core.mcp.default_rules import ask_for_servers

            ask_for_servers(names)(draft)

    agents.state.transform(ask, scope, phase=Phase.TOOL_RULES)
    return McpTools(servers, names, remembered(config, mcp_tokens), authorizer, registered)
