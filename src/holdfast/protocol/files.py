"""The files of a Location, read-only."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from holdfast.protocol.endpoint import Endpoint, LocationQuery, endpoint
from holdfast.protocol.scope import at_location
from holdfast.schema.errors import NotFoundError, ServiceUnavailableError
from holdfast.schema.record import Record

MOST_FOUND = 1_000


class FileEntry(Record):
    """Relative to the Location; a directory's path ends with a slash."""

    path: str
    type: Literal["file", "directory"]


class FilePath(Record):
    path: str


class ListFilesQuery(LocationQuery):
    path: str | None = None


class FindQuery(LocationQuery):
    query: Annotated[str, msgspec.Meta(max_length=1_024)]
    type: Literal["file", "directory"] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_FOUND)] | None = None


ENDPOINTS: tuple[Endpoint, ...] = at_location(
    endpoint(
        "files.read",
        "GET /api/fs/read/*",
        "v2.fs.read",
        "The bytes of a file, with its media type.",
        role="prompt",
        params=FilePath,
        raw=bytes,
        errors=(NotFoundError,),
    ),
    endpoint(
        "files.list",
        "GET /api/fs/list",
        "v2.fs.list",
        "The entries of a directory, directories first.",
        role="prompt",
        query=ListFilesQuery,
        location=list[FileEntry],
        errors=(NotFoundError,),
    ),
    endpoint(
        "files.find",
        "GET /api/fs/find",
        "v2.fs.find",
        "Files and directories whose path resembles a text, best matches first.",
        role="prompt",
        query=FindQuery,
        location=list[FileEntry],
        errors=(ServiceUnavailableError,),
    ),
)
