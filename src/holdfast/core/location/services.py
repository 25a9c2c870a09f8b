"""What a Location has of its own. Nothing here is keyed by a Session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.agent.agents import Agents
    from holdfast.core.catalog.catalog import Catalog
    from holdfast.core.command.commands import Commands
    from holdfast.core.config.reload import LiveConfig
    from holdfast.core.lazy import Lazy
    from holdfast.core.location.location_context import LocationContext
    from holdfast.core.permission.permission import Permissions
    from holdfast.core.plugin.plugins import Plugins
    from holdfast.core.plugin.terminal import TerminalHooks
    from holdfast.core.process.process import Processes
    from holdfast.core.process.sandbox.sandbox import Sandbox
    from holdfast.core.project.copies import ProjectCopies
    from holdfast.core.project.project import Project
    from holdfast.core.pty.ptys import Ptys
    from holdfast.core.question.question import Questions
    from holdfast.core.runner.runner import Runner
    from holdfast.core.scope import Scope
    from holdfast.core.snapshot.snapshot import Snapshots
    from holdfast.core.tool.registry import ToolRegistry
    from holdfast.schema.location import Location


class LocationServices(Frozen):
    location: Location
    project: Project
    config: LiveConfig
    agents: Agents
    commands: Commands
    catalog: Catalog
    permissions: Permissions
    questions: Questions
    tools: ToolRegistry
    context: LocationContext
    plugins: Plugins
    snapshots: Snapshots
    processes: Processes
    sandbox: Sandbox
    terminals: Lazy[Ptys]
    terminal_hooks: TerminalHooks
    copies: Lazy[ProjectCopies]
    runner: Runner
    scope: Scope

    @property
    def ptys(self) -> Ptys:
        return self.terminals()

    async def pty_environment(self, cwd: str) -> dict[str, str]:
        """What this Location's plugins add to the variables of a terminal that starts in `cwd`. Waits for plugins that
        are still being loaded."""
        await self.plugins.booted()
        return await self.terminal_hooks.variables(self.location.directory, cwd)

    @property
    def busy(self) -> bool:
        return self.terminals.made is not None and self.terminals.made.busy

    async def close(self) -> None:
        """What asks people first, so that nobody waits for an answer; then what runs, then what was registered."""
        await self.permissions.close()
        await self.questions.close()
        await self.plugins.close()
        await self.context.close()
        await self.processes.close()
        await self.sandbox.close()
        if self.terminals.made is not None:
            await self.terminals.made.close()
        await self.catalog.close()
        self.snapshots.close()
        self.scope.close()
