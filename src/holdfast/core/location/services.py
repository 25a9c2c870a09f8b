"""What a Location has of its own: configuration, catalog, tools, runner. Nothing here is keyed by a Session."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.core.catalog.catalog import Catalog
    from holdfast.core.location.project import Project
    from holdfast.core.scope import Scope
    from holdfast.core.session.runner.runner import Runner
    from holdfast.core.tool.registry import ToolRegistry


class LocationServices:
    def __init__(self, project: Project, catalog: Catalog, tools: ToolRegistry, runner: Runner, scope: Scope) -> None:
        self.project = project
        self.catalog = catalog
        self.tools = tools
        self.runner = runner
        self._scope = scope

    async def close(self) -> None:
        self._scope.close()
