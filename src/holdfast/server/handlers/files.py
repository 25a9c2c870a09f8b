"""Handlers of `protocol/files.py`. Nothing outside the Location is read, and what Holdfast itself keeps only by admins:
the password of the server is there, and the keys of providers."""

from __future__ import annotations

import asyncio
import mimetypes
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.filesystem.descriptor import read_file
from holdfast.core.filesystem.errors import PathError, TargetMissing
from holdfast.core.filesystem.listing import list_directory
from holdfast.core.filesystem.location_path import LocationPaths
from holdfast.core.search.glob import Glob
from holdfast.protocol.files import FileEntry
from holdfast.schema.exceptions import Forbidden
from holdfast.server.finder import best_matches
from holdfast.server.types import RawBody

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.filesystem.location_path import Target
    from holdfast.protocol import files as protocol
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
        found = await services.search.files(_directory(call), Glob("**"), LOOKED_AT)
    return await asyncio.to_thread(best_matches, query.query, found.paths, query.type, query.limit or FOUND)


def _read(directory: Path, path: str, closed: Sequence[str]) -> RawBody:
    with _no_defect(path):
        data = read_file(_resolve(directory, path, closed), FILE_LIMIT)
    return RawBody(data, mimetypes.guess_type(path)[0] or UNKNOWN)


def _list(directory: Path, path: str, closed: Sequence[str]) -> Sequence[FileEntry]:
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


def _resolve(directory: Path, path: str, closed: Sequence[str]) -> Target:
    target = LocationPaths(directory).resolve(path, external="deny")
    if any(target.path.is_relative_to(os.path.realpath(folder)) for folder in closed):
        raise Forbidden(f"{path[:200]} belongs to Holdfast itself, which needs the role admin.", role="admin")
    if not target.exists:
        raise TargetMissing(path[:200])
    return target


def _closed(call: ApiCall) -> Sequence[str]:
    """Folders of Holdfast that the caller may not look into."""
    if call.caller.has("admin"):
        return ()
    environment = call.runtime.environment
    home = environment.get("HOME") or os.path.expanduser("~")
    state = environment.get("XDG_STATE_HOME") or f"{home}/.local/state"
    config = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    return (str(call.runtime.paths.data), f"{state}/holdfast", f"{config}/opencode", f"{config}/holdfast")


def _directory(call: ApiCall) -> Path:
    assert call.location is not None
    return Path(call.location.directory)
