"""What `glob` and `grep` share: where they may look, what they ask for it, and how they tell what they found."""

from __future__ import annotations

import os
from contextlib import contextmanager
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
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from holdfast.core.filesystem.location_path import LocationPaths

NOTHING = "No files found"
SHOWING = "(showing first {count}; narrow the pattern)"
PARTIAL = "(the search took too long; there may be more)"


class Given(Protocol):
    @property
    def pattern(self) -> str: ...
    @property
    def path(self) -> str | msgspec.UnsetType: ...
    @property
    def limit(self) -> int | msgspec.UnsetType: ...


In = TypeVar("In", bound=Given)


class FileEntry(Record):
    path: str
    type: Literal["file"]


class Found(msgspec.Struct, frozen=True):
    results: list[dict[str, Any]]
    """For Session consumers."""
    text: str


class SearchTarget(Frozen):
    """A directory, or one file of it."""

    path: Path
    resource: str
    directory: Path
    name: str | None
    """The file, if it is one."""

    def entry(self, found: str) -> dict[str, str]:
        return {"path": self.resource_of(found), "type": "file"}

    def resource_of(self, found: str) -> str:
        """What was found, as a permission names it: relative to the Location, or absolute when outside."""
        base = self.resource if self.name is None else os.path.dirname(self.resource)
        return found if base in ("", ".") else f"{base.rstrip('/')}/{found}"


class SearchPlaces(Frozen):
    """Where this Location's searches may look, after the same resolution and approval as for reading."""

    paths: LocationPaths
    authorizer: Authorizer
    external: Callable[[], Literal["ask", "deny"]]

    async def approved(self, action: str, given: Given, context: ToolContext) -> SearchTarget:
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
    execute: Callable[[In, ToolContext], Awaitable[Found]],
) -> Tool[In, Found]:
    """`unable` begins every failure and names the pattern; `results` is the type of a whole list."""

    async def search(given: In, context: ToolContext) -> Found:
        with _explaining(unable.format(pattern=given.pattern)):
            return await execute(given, context)

    return Tool(
        looks_only=True,
        description=description,
        input=input,
        output=Found,
        execute=search,
        content=lambda given, value: (TextContent(text=value["text"]),),
        structured=lambda given, value: value["results"],
        structured_type=results,
    )


def limit_of(given: Given, default: int) -> int:
    return min(given.limit, MOST_RESULTS) if isinstance(given.limit, int) else default


def notes(count: int, *, cut: bool, partial: bool) -> list[str]:
    """What the model should know of results that are not all there are."""
    return [*([SHOWING.format(count=count)] if cut else []), *([PARTIAL] if partial else [])]


@contextmanager
def _explaining(unable: str) -> Iterator[None]:
    try:
        yield
    except (PathError, InvalidGlob, InvalidPattern, SearchFailed) as problem:
        raise ToolFailure(f"{unable}: {problem}") from problem


def _check(target: SearchTarget) -> None:
    """Still what it was when it was approved, no link in its place."""
    try:
        same = os.path.realpath(target.path, strict=True) == str(target.path)
    except OSError:
        raise SearchFailed(f"{target.resource} does not exist") from None
    if not same or target.path.is_dir() is not (target.name is None):
        raise SearchFailed(f"{target.resource} was replaced in the meantime")
