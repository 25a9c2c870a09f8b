"""`core/environment`: the working directory, the project and the platform."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from holdfast.core.context.source import JsonCodec, Source, constant
from holdfast.core.context.system_context import make

if TYPE_CHECKING:
    from holdfast.core.context.system_context import SystemContext
    from holdfast.core.project.project import Project
    from holdfast.schema.location import Location

KEY = "core/environment"
BASELINE = "This is the environment that you work in:"
UPDATE = "You now work in this environment:"

_CODEC = JsonCodec(str)


def environment(location: Location, project: Project) -> SystemContext:
    value = "\n".join(
        (
            "<env>",
            f"  Working directory: {location.directory}",
            f"  Workspace root folder: {project.directory}",
            f"  Is directory a git repo: {'yes' if project.store is not None else 'no'}",
            f"  Platform: {sys.platform}",
            "</env>",
        )
    )
    return make(
        Source(
            key=KEY,
            codec=_CODEC,
            load=constant(value),
            baseline=lambda current: f"{BASELINE}\n{current}",
            update=lambda _, current: f"{UPDATE}\n{current}",
            immediate=True,
        )
    )
