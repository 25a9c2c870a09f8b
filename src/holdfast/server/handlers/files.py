"""Handlers of `protocol/files.py`. Nothing outside the Location is read, and what Holdfast itself keeps only by
admins."""

from __future__ import annotations

import asyncio
import mimetypes
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.filesystem.descriptor import read_file
from holdfast.core.filesystem.errors import PathError, TargetMissing
from holdfast.core.filesystem.listing import list_directory
from holdfast.core.filesystem.location_path import LocationPaths
from holdfast.core.search.glob import Glob
from holdfast.protocol.files import FileEntry
from holdfast.server.closed_folders import closed_folders, closed_to
from holdfast.server.finder import best_matches
from holdfast.server.types import RawBody

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.filesystem.location_path import Target
    from holdfast.protocol import files as protocol
    from holdfast.server.closed_folders import ClosedFolders
    from holdfast.server.types import ApiCall

FILE_LIMIT = 32 * 1024 * 1024
LOOKED_AT = 50_000
FOUND = 100
UNKNOWN = "application/octet-stream"


async def read(call: ApiCall) -> RawBody:
    return await asyncio.to_thread(_read, _directory(call), call.params.path, _closed(call))


async def list(call: ApiCall) -> Sequence[FileEntry]:
    return await asyncio.to_thread(_list, _directory(call), call.query.path or ".", _closed(call))


async def find(call: ApiCall) -> Sequence[FileEntry]:
    query: protocol.FindQuery = call.query
    async with call.services as services:
        found = await services.search.files(_directory(call), Glob("**"), LOOKED_AT, own=_closed(call).identities())
    return await asyncio.to_thread(best_matches, query.query, found.paths, query.type, query.limit or FOUND)


def _read(directory: Path, path: str, closed: ClosedFolders) -> RawBody:
    with _no_defect(path):
        data = read_file(_resolve(directory, path, closed), FILE_LIMIT)
    return RawBody(data, mimetypes.guess_type(path)[0] or UNKNOWN)


def _list(directory: Path, path: str, closed: ClosedFolders) -> Sequence[FileEntry]:
    with _no_defect(path):
        entries = list_directory(_resolve(directory, path, closed))
    return [FileEntry(path=entry.path, type=entry.type) for entry in entries]


@contextmanager
def _no_defect(path: str) -> Iterator[None]:
    """Converts errors of the file system to domain errors."""
    try:
        yield
    except FileNotFoundError:
        raise TargetMissing(path) from None
    except NotADirectoryError:
        raise PathError(path, "non_directory_ancestor") from None
    except OSError:
        raise PathError(path, "inaccessible") from None


def _resolve(directory: Path, path: str, closed: ClosedFolders) -> Target:
    target = LocationPaths(directory).resolve(path, external="deny")
    if closed.contain(str(target.path)):
        raise closed_to(path)
    if not target.exists:
        raise TargetMissing(path[:200])
    return target


def _closed(call: ApiCall) -> ClosedFolders:
    return closed_folders(call.runtime, call.caller)


def _directory(call: ApiCall) -> Path:
    assert call.location is not None
    return Path(call.location.directory)
