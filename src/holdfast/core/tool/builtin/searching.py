"""What the `glob` and `grep` tools share: path resolution, permission checks, output and failures."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import msgspec

from holdfast.core.filesystem.errors import PathError
from holdfast.core.search.glob import InvalidGlob
from holdfast.core.search.search import MOST_RESULTS, InvalidPattern, SearchFailed
from holdfast.core.tool.builtin.authorize import Authorizer, allow_outside
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.schema.frozen import Frozen
from holdfast.schema.record import Record
from holdfast.schema.session_message import TextContent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from holdfast.core.filesystem.location_path import LocationPaths

NOTHING = "No files found"
SHOWING = "(showing first {count}; narrow the pattern)"
PARTIAL = "(the search took too long; there may be more)"


class SearchInput(Protocol):
    @property
    def pattern(self) -> str: ...
    @property
    def path(self) -> str | msgspec.UnsetType: ...
    @property
    def limit(self) -> int | msgspec.UnsetType: ...


In = TypeVar("In", bound=SearchInput)


class FoundFile(Record):
    path: str
    type: Literal["file"]


class SearchOutput(msgspec.Struct, frozen=True):
    results: list[dict[str, Any]]
    """The structured value."""
    text: str


class SearchTarget(Frozen):
    """A directory to search, or one file in it."""

    path: Path
    resource: str
    directory: Path
    name: str | None
    """The file's name; None for the whole directory."""

    def entry(self, found: str) -> dict[str, str]:
        return {"path": self.resource_of(found), "type": "file"}

    def resource_of(self, found: str) -> str:
        """A found path as a permission resource: relative to the Location, or absolute when outside."""
        base = self.resource if self.name is None else os.path.dirname(self.resource)
        return found if base in ("", ".") else f"{base.rstrip('/')}/{found}"


class SearchScope(Frozen):
    """The paths a Location's searches may access, resolved and approved as for reading."""

    paths: LocationPaths
    authorizer: Authorizer
    external: Callable[[], Literal["ask", "deny"]]

    async def authorize(self, action: str, given: SearchInput, context: ToolContext) -> SearchTarget:
        path = given.path if isinstance(given.path, str) else "."
        target = self.paths.resolve(path, kind="directory", external=self.external())
        await allow_outside(self.authorizer, context, [target])
        if not target.exists:
            raise SearchFailed(f"{target.resource} does not exist")
        name = None if target.path.is_dir() else target.path.name
        found = SearchTarget(target.path, target.resource, target.path if name is None else target.path.parent, name)
        if name is not None and not target.path.is_file():
            raise SearchFailed(f"{found.resource} is neither a file nor a directory")
        options = {key: value for key, value in msgspec.to_builtins(given).items() if key != "pattern"}
        metadata = {"root": str(found.path), **options}
        await self.authorizer.allow(context, action, (given.pattern,), save=("*",), metadata=metadata)
        _check(found)
        return found


def search_tool(
    *,
    description: str,
    unable: str,
    input: type[In],
    results: type[Any],
    execute: Callable[[In, ToolContext], Awaitable[SearchOutput]],
) -> Tool[In, SearchOutput]:
    """`unable` is the prefix of every failure and names the pattern; `results` is the type of the result list."""

    async def search(given: In, context: ToolContext) -> SearchOutput:
        try:
            return await execute(given, context)
        except (PathError, InvalidGlob, InvalidPattern, SearchFailed) as problem:
            raise ToolFailure(f"{unable.format(pattern=given.pattern)}: {problem}") from problem

    return Tool(
        read_only=True,
        description=description,
        input=input,
        output=SearchOutput,
        execute=search,
        content=lambda given, value: (TextContent(text=value["text"]),),
        structured=lambda given, value: value["results"],
        structured_type=results,
    )


def limit_of(given: SearchInput, default: int) -> int:
    return min(given.limit, MOST_RESULTS) if isinstance(given.limit, int) else default


def notes(count: int, *, cut: bool, partial: bool) -> list[str]:
    """Tell the model that the results are incomplete, and why."""
    return [*([SHOWING.format(count=count)] if cut else []), *([PARTIAL] if partial else [])]


def _check(target: SearchTarget) -> None:
    """Fail if the target was replaced while approval was pending."""
    try:
        same = os.path.realpath(target.path, strict=True) == str(target.path)
    except OSError:
        raise SearchFailed(f"{target.resource} does not exist") from None
    if not same or target.path.is_dir() is not (target.name is None):
        raise SearchFailed(f"{target.resource} was replaced in the meantime")
