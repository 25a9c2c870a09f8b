"""`glob`: files by name, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from holdfast.core.search.glob import Glob, InvalidGlob
from holdfast.core.search.search import MOST_RESULTS, SearchFailed
from holdfast.core.search.target import SearchTarget, search_target
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.schema.record import Record
from holdfast.schema.session_message import TextContent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.filesystem.location_path import LocationPaths
    from holdfast.core.search.search import Files, Search
    from holdfast.core.tool.builtin.authorize import Authorizer

DEFAULT_LIMIT = 1000
DESCRIPTION = (
    "Find files by a glob such as `src/**/*.py`, newest first. Ignored files are left out, and hidden ones unless the "
    "pattern names them."
)
UNABLE = "Unable to find files matching {pattern}"
NOTHING = "No files found"
SHOWING = "(showing first {count}; narrow the pattern)"
PARTIAL = "(the search took too long; there may be more)"


class GlobInput(msgspec.Struct, frozen=True):
    pattern: Annotated[str, msgspec.Meta(description="A glob, relative to the directory that is searched")]
    path: (
        Annotated[str, msgspec.Meta(description="The directory to search; the project directory unless given")]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    limit: (
        Annotated[int, msgspec.Meta(ge=1, description=f"How many files at most; {DEFAULT_LIMIT} unless given")]
        | msgspec.UnsetType
    ) = msgspec.UNSET


class FileEntry(Record):
    path: str
    type: Literal["file"]


class GlobOutput(msgspec.Struct, frozen=True):
    entries: list[dict[str, str]]
    text: str


def glob_tool(
    paths: LocationPaths,
    search: Search,
    authorizer: Authorizer,
    *,
    external_paths: Callable[[], Literal["ask", "deny"]] = lambda: "ask",
) -> Tool[GlobInput, GlobOutput]:
    async def execute(given: GlobInput, context: ToolContext) -> GlobOutput:
        unable = UNABLE.format(pattern=given.pattern)
        try:
            glob = Glob(given.pattern)
        except InvalidGlob as problem:
            raise ToolFailure(f"{unable}: {problem}") from problem
        target = await search_target(paths, given.path, external_paths(), authorizer, context, unable)
        await authorizer.allow(context, "glob", (given.pattern,), save=("*",), metadata=_metadata(given, target))
        target.check(unable)
        if target.name is not None:
            raise ToolFailure(f"{unable}: {target.resource} is not a directory")
        limit = DEFAULT_LIMIT if given.limit is msgspec.UNSET else min(given.limit, MOST_RESULTS)
        try:
            found = await search.files(target.directory, glob, limit)
        except SearchFailed as problem:
            raise ToolFailure(f"{unable}: {problem}") from problem
        entries = [{"path": target.entry(path), "type": "file"} for path in found.paths]
        return GlobOutput(entries, _text(found, target))

    return Tool(
        looks_only=True,
        description=DESCRIPTION,
        input=GlobInput,
        output=GlobOutput,
        execute=execute,
        content=lambda given, value: (TextContent(text=value["text"]),),
        structured=lambda given, value: value["entries"],
        structured_type=list[FileEntry],
    )


def _metadata(given: GlobInput, target: SearchTarget) -> Mapping[str, Any]:
    path = {} if given.path is msgspec.UNSET else {"path": given.path}
    limit = {} if given.limit is msgspec.UNSET else {"limit": given.limit}
    return {"root": str(target.directory), **path, **limit}


def _text(found: Files, target: SearchTarget) -> str:
    lines = [str(target.directory / path) for path in found.paths] or [NOTHING]
    if found.total > len(found.paths):
        lines.append(SHOWING.format(count=len(found.paths)))
    if found.partial:
        lines.append(PARTIAL)
    return "\n".join(lines)
