"""The services of one Location."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from holdfast.core.agent.agents import Agents
    from holdfast.core.agent.callable_agents import CallableAgents
    from holdfast.core.catalog.catalog import Catalog
    from holdfast.core.command.commands import Commands
    from holdfast.core.config.reload import LiveConfig
    from holdfast.core.form.forms import Forms
    from holdfast.core.form.global_forms import GlobalForms
    from holdfast.core.lazy import Lazy
    from holdfast.core.location.location_context import LocationContext
    from holdfast.core.location.terminals import Terminals
    from holdfast.core.mcp.authorizations import McpAuthorizations
    from holdfast.core.mcp.location_tools import McpTools
    from holdfast.core.mcp.servers import LocationServers
    from holdfast.core.permission.permission import Permissions
    from holdfast.core.plugin.plugins import Plugins
    from holdfast.core.plugin.request import RequestHooks
    from holdfast.core.process.sandbox.sandbox import Sandbox
    from holdfast.core.project.copies import ProjectCopies
    from holdfast.core.project.project import Project
    from holdfast.core.prompt.mentions import Mentions
    from holdfast.core.prompt.prompt_resources import PromptResources
    from holdfast.core.question.question import Questions
    from holdfast.core.runner.runner import Runner
    from holdfast.core.search.search import Search
    from holdfast.core.snapshot.snapshot import Snapshots
    from holdfast.core.tool.registry import ToolRegistry
    from holdfast.schema.location import Location


class LocationServices(Frozen):
    location: Location
    project: Project
    config: LiveConfig
    agents: Agents
    callable_agents: CallableAgents
    commands: Commands
    mentions: Mentions
    resources: PromptResources
    catalog: Catalog
    mcp_authorizations: Lazy[McpAuthorizations]
    mcp_tools: McpTools
    mcp: LocationServers
    permissions: Permissions
    questions: Questions
    forms: Forms
    global_forms: GlobalForms
    tools: ToolRegistry
    context: LocationContext
    plugins: Plugins
    request_hooks: RequestHooks
    snapshots: Snapshots
    sandbox: Sandbox
    search: Search
    terminals: Terminals
    copies: Lazy[ProjectCopies]
    runner: Runner
    opened: AsyncExitStack

    @property
    def busy(self) -> bool:
        """Whether something runs here that nobody need be looking at."""
        return self.terminals.busy or self.mcp.changed_by_hand

    async def close(self) -> None:
        await self.opened.aclose()
