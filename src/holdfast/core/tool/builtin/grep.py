"""The `grep` tool: finds lines by a regular expression. It shows only files that the agent may read."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.core.filesystem.location_path import LocationPaths
from holdfast.core.permission.protected import effect_on_file
from holdfast.core.search.glob import Glob, InvalidGlob
from holdfast.core.search.search import InvalidPattern, Search
from holdfast.core.tool.builtin.authorize import AuthorityOf, Authorizer
from holdfast.core.tool.builtin.searching import (
    NOTHING,
    FoundFile,
    SearchOutput,
    SearchScope,
    SearchTarget,
    limit_of,
    notes,
    search_tool,
)
from holdfast.core.tool.tool import Tool, ToolContext
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from holdfast.core.search.match import Match

DEFAULT_LIMIT = 100
DESCRIPTION = "Search the contents of files with a regular expression. Ignored files are left out, hidden ones are not."
UNABLE = "Unable to grep for {pattern}"
FOUND = "Found {count} matches"
CHANGED = "(matches in {count} files are left out: the files changed during the search)"
WITHHELD = "(matches in {count} files are withheld: reading these files needs approval)"


class GrepInput(msgspec.Struct, frozen=True):
    pattern: Annotated[str, Meta(description="A regular expression")]
    path: (
        Annotated[str, Meta(description="The file or directory to search; the project directory unless given")]
        | UnsetType
    ) = UNSET
    include: Annotated[str, Meta(description="Only files that match this glob, such as `*.py`")] | UnsetType = UNSET
    limit: (
        Annotated[int, Meta(ge=1, description=f"How many matches at most; {DEFAULT_LIMIT} unless given")] | UnsetType
    ) = UNSET


class SubmatchRecord(Record):
    text: str
    start: int
    end: int


class MatchRecord(Record):
    entry: FoundFile
    line: int
    offset: int
    text: str
    submatches: list[SubmatchRecord]


def grep_tool(
    paths: LocationPaths,
    search: Search,
    authorizer: Authorizer,
    authority_of: AuthorityOf,
    *,
    external_paths: Callable[[], Literal["ask", "deny"]] = lambda: "ask",
) -> Tool[GrepInput, SearchOutput]:
    """Shows what the rules let the caller read."""
    scope = SearchScope(paths, authorizer, external_paths)

    async def execute(given: GrepInput, context: ToolContext) -> SearchOutput:
        include = _checked(given)
        target = await scope.authorize("grep", given, context)
        authority = await authority_of(context)
        withheld: set[str] = set()

        def keep(path: str) -> bool:
            if include is not None and not include.matches(path):
                return False
            effect = effect_on_file(authority, "read", target.resource_of(path), str(target.directory / path))
            if effect == "ask":
                withheld.add(path)
            return effect == "allow"

        found = await search.lines(
            target.directory,
            given.pattern,
            limit_of(given, DEFAULT_LIMIT),
            name=target.name,
            include=None if given.include is UNSET else given.include,
            keep=keep,
            own=paths.own.identities(),
        )
        remarks = notes(len(found.matches), cut=found.cut, partial=found.partial)
        remarks += [WITHHELD.format(count=len(withheld))] if withheld else []
        remarks += [CHANGED.format(count=found.changed)] if found.changed else []
        text = "\n".join([*_lines(found.matches, target), *(["", *remarks] if remarks else [])])
        return SearchOutput([_record(match, target) for match in found.matches], text)

    return search_tool(
        description=DESCRIPTION, unable=UNABLE, input=GrepInput, results=list[MatchRecord], execute=execute
    )


def _checked(given: GrepInput) -> Glob | None:
    if not given.pattern or any(char in given.pattern for char in "\0\r\n"):
        raise InvalidPattern("the pattern is empty or has line ends or zero bytes")
    if given.include is UNSET:
        return None
    try:
        return Glob(given.include, dots=True)
    except InvalidGlob as problem:
        raise InvalidPattern(f"of the glob {given.include}, {problem}") from problem


def _record(match: "Match", target: SearchTarget) -> dict[str, Any]:
    return {
        "entry": target.entry(match.path),
        "line": match.line,
        "offset": match.offset,
        "text": match.text,
        "submatches": [one._asdict() for one in match.submatches],
    }


def _lines(matches: "Sequence[Match]", target: SearchTarget) -> Iterator[str]:
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
