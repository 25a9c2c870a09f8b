"""Where a search may look: a directory, or one file of it, after the same resolution and approval as for reading."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, NamedTuple

from holdfast.core.filesystem.errors import PathError
from holdfast.core.tool.tool import ToolFailure

if TYPE_CHECKING:
    from pathlib import Path

    import msgspec

    from holdfast.core.filesystem.location_path import LocationPaths
    from holdfast.core.tool.builtin.authorize import Authorizer
    from holdfast.core.tool.tool import ToolContext


class SearchTarget(NamedTuple):
    path: Path
    resource: str
    directory: Path
    name: str | None
    """The file, if it is one."""

    def entry(self, found: str) -> str:
        """What was found, as a permission names it: relative to the Location, or absolute when outside."""
        base = self.resource if self.name is None else os.path.dirname(self.resource)
        return found if base in ("", ".") else f"{base.rstrip('/')}/{found}"

    def check(self, unable: str) -> None:
        """Still what it was when it was approved, no link in its place."""
        try:
            same = os.path.realpath(self.path, strict=True) == str(self.path)
        except OSError:
            raise ToolFailure(f"{unable}: {self.resource} does not exist") from None
        if not same or self.path.is_dir() is not (self.name is None):
            raise ToolFailure(f"{unable}: {self.resource} was replaced in the meantime")


async def search_target(
    paths: LocationPaths,
    path: str | msgspec.UnsetType,
    external: Literal["ask", "deny"],
    authorizer: Authorizer,
    context: ToolContext,
    unable: str,
) -> SearchTarget:
    try:
        target = paths.resolve(path if isinstance(path, str) else ".", kind="directory", external=external)
    except PathError as problem:
        raise ToolFailure(f"{unable}: {problem}") from problem
    if target.boundary is not None:
        await authorizer.allow(context, "external_directory", (target.boundary,), save=(target.boundary,))
    if not target.exists:
        raise ToolFailure(f"{unable}: {target.resource} does not exist")
    if target.path.is_dir():
        return SearchTarget(target.path, target.resource, target.path, None)
    if not target.path.is_file():
        raise ToolFailure(f"{unable}: {target.resource} is neither a file nor a directory")
    return SearchTarget(target.path, target.resource, target.path.parent, target.path.name)
