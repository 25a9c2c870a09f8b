"""The files of a Location, read-only."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from holdfast.protocol.endpoint import Endpoint, Envelope, LocationQuery
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


ENDPOINTS: tuple[Endpoint, ...] = tuple(
    map(
        at_location,
        (
            Endpoint(
                group="files",
                name="read",
                operation="v2.fs.read",
                method="GET",
                path="/api/fs/read/*",
                summary="The bytes of a file, with its media type.",
                params=FilePath,
                envelope=Envelope.RAW,
                errors=(NotFoundError,),
            ),
            Endpoint(
                group="files",
                name="list",
                operation="v2.fs.list",
                method="GET",
                path="/api/fs/list",
                summary="The entries of a directory, directories first.",
                query=ListFilesQuery,
                envelope=Envelope.LOCATION,
                success=list[FileEntry],
                errors=(NotFoundError,),
            ),
            Endpoint(
                group="files",
                name="find",
                operation="v2.fs.find",
                method="GET",
                path="/api/fs/find",
                summary="Files and directories whose path resembles a text, the best first.",
                query=FindQuery,
                envelope=Envelope.LOCATION,
                success=list[FileEntry],
                errors=(ServiceUnavailableError,),
            ),
        ),
    )
)
