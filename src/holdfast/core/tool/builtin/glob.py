"""The `glob` tool: finds files by name, newest first."""

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.core.filesystem.location_path import LocationPaths
from holdfast.core.search.glob import Glob
from holdfast.core.search.search import Search, SearchFailed
from holdfast.core.tool.builtin.authorize import Authorizer
from holdfast.core.tool.builtin.searching import (
    NOTHING,
    FoundFile,
    SearchOutput,
    SearchScope,
    limit_of,
    notes,
    search_tool,
)
from holdfast.core.tool.tool import Tool, ToolContext

DEFAULT_LIMIT = 1000
DESCRIPTION = (
    "Find files by a glob such as `src/**/*.py`, newest first. Ignored files are left out, and hidden ones unless the "
    "pattern names them."
)
UNABLE = "Unable to find files matching {pattern}"


class GlobInput(msgspec.Struct, frozen=True):
    pattern: Annotated[str, Meta(description="A glob, relative to the directory that is searched")]
    path: (
        Annotated[str, Meta(description="The directory to search; the project directory unless given")] | UnsetType
    ) = UNSET
    limit: (
        Annotated[int, Meta(ge=1, description=f"How many files at most; {DEFAULT_LIMIT} unless given")] | UnsetType
    ) = UNSET


def glob_tool(
    paths: LocationPaths,
    search: Search,
    authorizer: Authorizer,
    *,
    external_paths: Callable[[], Literal["ask", "deny"]] = lambda: "ask",
) -> Tool[GlobInput, SearchOutput]:
    scope = SearchScope(paths, authorizer, external_paths)

    async def execute(given: GlobInput, context: ToolContext) -> SearchOutput:
        glob = Glob(given.pattern)
        target = await scope.authorize("glob", given, context)
        if target.name is not None:
            raise SearchFailed(f"{target.resource} is not a directory")
        limit = limit_of(given, DEFAULT_LIMIT)
        found = await search.files(target.directory, glob, limit, own=paths.own.identities())
        count = len(found.paths)
        lines = [str(target.directory / path) for path in found.paths] or [NOTHING]
        lines += notes(count, cut=found.total > count, partial=found.partial)
        return SearchOutput([target.entry(path) for path in found.paths], "\n".join(lines))

    return search_tool(
        description=DESCRIPTION, unable=UNABLE, input=GlobInput, results=list[FoundFile], execute=execute
    )
