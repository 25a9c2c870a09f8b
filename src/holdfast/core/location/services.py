"""What a Location has of its own: configuration, catalog, tools, runner. Nothing here is keyed by a Session."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.core.catalog.catalog import Catalog
    from holdfast.core.location.project import Project
    from holdfast.core.session.runner.runner import Runner


class LocationServices:
    def __init__(self, project: Project, catalog: Catalog, runner: Runner) -> None:
        self.project = project
        self.catalog = catalog
        self.runner = runner

    async def close(self) -> None:
        """Nothing in here holds a resource yet."""
