"""`grep`: lines by a regular expression. It shows nothing of a file that `read` would not show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from holdfast.core.search.glob import Glob, InvalidGlob
from holdfast.core.search.search import MOST_RESULTS, InvalidPattern, SearchFailed
from holdfast.core.search.target import SearchTarget, search_target
from holdfast.core.tool.builtin.glob import NOTHING, PARTIAL, SHOWING, FileEntry
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.schema.record import Record
from holdfast.schema.session_message import TextContent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from holdfast.core.filesystem.location_path import LocationPaths
    from holdfast.core.search.match import Match
    from holdfast.core.search.search import Search
    from holdfast.core.tool.builtin.authorize import Authorizer
    from holdfast.schema.permission import Effect

    Readable = Callable[[str, str], Effect]

DEFAULT_LIMIT = 100
DESCRIPTION = "Search the contents of files with a regular expression. Ignored files are left out, hidden ones are not."
UNABLE = "Unable to grep for {pattern}"
FOUND = "Found {count} matches"
WITHHELD = "(matches in {count} files are withheld: reading these files needs approval)"


class GrepInput(msgspec.Struct, frozen=True):
    pattern: Annotated[str, msgspec.Meta(description="A regular expression")]
    path: (
        Annotated[str, msgspec.Meta(description="The file or directory to search; the project directory unless given")]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    include: (
        Annotated[str, msgspec.Meta(description="Only files that match this glob, such as `*.py`")] | msgspec.UnsetType
    ) = msgspec.UNSET
    limit: (
        Annotated[int, msgspec.Meta(ge=1, description=f"How many matches at most; {DEFAULT_LIMIT} unless given")]
        | msgspec.UnsetType
    ) = msgspec.UNSET


class SubmatchRecord(Record):
    text: str
    start: int
    end: int


class MatchRecord(Record):
    entry: FileEntry
    line: int
    offset: int
    text: str
    submatches: list[SubmatchRecord]


class GrepOutput(msgspec.Struct, frozen=True):
    matches: list[dict[str, Any]]
    text: str


def grep_tool(
    paths: LocationPaths,
    search: Search,
    authorizer: Authorizer,
    readable: Readable,
    *,
    external_paths: Callable[[], Literal["ask", "deny"]] = lambda: "ask",
) -> Tool[GrepInput, GrepOutput]:
    """`readable(agent, resource)` is what the rules for `read` say of a file."""

    async def execute(given: GrepInput, context: ToolContext) -> GrepOutput:
        unable = UNABLE.format(pattern=given.pattern)
        include = _checked(given, unable)
        target = await search_target(paths, given.path, external_paths(), authorizer, context, unable)
        await authorizer.allow(context, "grep", (given.pattern,), save=("*",), metadata=_metadata(given, target))
        target.check(unable)
        withheld: set[str] = set()

        def keep(path: str) -> bool:
            if include is not None and not include.matches(path):
                return False
            effect = readable(context.agent, target.entry(path))
            if effect == "ask":
                withheld.add(path)
            return effect == "allow"

        try:
            found = await search.lines(
                target.directory,
                given.pattern,
                DEFAULT_LIMIT if given.limit is msgspec.UNSET else min(given.limit, MOST_RESULTS),
                name=target.name,
                include=None if given.include is msgspec.UNSET else given.include,
                keep=keep,
            )
        except (InvalidPattern, SearchFailed) as problem:
            raise ToolFailure(f"{unable}: {problem}") from problem
        notes = [SHOWING.format(count=len(found.matches))] if found.cut else []
        notes += [PARTIAL] if found.partial else []
        notes += [WITHHELD.format(count=len(withheld))] if withheld else []
        text = "\n".join([*_lines(found.matches, target), *(["", *notes] if notes else [])])
        return GrepOutput([_record(match, target) for match in found.matches], text)

    return Tool(
        looks_only=True,
        description=DESCRIPTION,
        input=GrepInput,
        output=GrepOutput,
        execute=execute,
        content=lambda given, value: (TextContent(text=value["text"]),),
        structured=lambda given, value: value["matches"],
        structured_type=list[MatchRecord],
    )


def _checked(given: GrepInput, unable: str) -> Glob | None:
    if not given.pattern or any(char in given.pattern for char in "\0\r\n"):
        raise ToolFailure(f"{unable}: the pattern is empty or has line ends or zero bytes")
    if given.include is msgspec.UNSET:
        return None
    try:
        return Glob(given.include, dots=True)
    except InvalidGlob as problem:
        raise ToolFailure(f"{unable}: of the glob {given.include}, {problem}") from problem


def _metadata(given: GrepInput, target: SearchTarget) -> Mapping[str, Any]:
    values = {"path": given.path, "include": given.include, "limit": given.limit}
    return {"root": str(target.path), **{key: value for key, value in values.items() if value is not msgspec.UNSET}}


def _record(match: Match, target: SearchTarget) -> dict[str, Any]:
    return {
        "entry": {"path": target.entry(match.path), "type": "file"},
        "line": match.line,
        "offset": match.offset,
        "text": match.text,
        "submatches": [one._asdict() for one in match.submatches],
    }


def _lines(matches: Sequence[Match], target: SearchTarget) -> Iterator[str]:
    if not matches:
        yield NOTHING
        return
    yield FOUND.format(count=len(matches))
    current: str | None = None
    for match in matches:
        if match.path != current:
            if current is not None:
                yield ""
            current = match.path
            yield f"{target.directory / match.path}:"
        yield f"  Line {match.line}: {match.text}"
