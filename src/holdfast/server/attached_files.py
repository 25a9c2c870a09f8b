"""Files of this machine that a prompt names by their paths, for callers that may not read whatever the server can read.

A caller without the role admin attaches what it could read over the API: files of the Session's Location, and none in
Holdfast's own folders. They are opened without following links, so that it is the file that was checked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.filesystem.content import Content, Unusable, is_data_uri
from holdfast.core.filesystem.errors import PathError
from holdfast.core.filesystem.location_path import LocationPaths
from holdfast.core.session.attachment_source import Source, parse_address, read_target
from holdfast.core.session.attachments import check_size
from holdfast.core.session.input_errors import AttachmentRefused
from holdfast.server.closed_folders import closed_folders

if TYPE_CHECKING:
    from collections.abc import Container

    from holdfast.schema.prompt import FileAttachment, Prompt
    from holdfast.server.closed_folders import ClosedFolders
    from holdfast.server.types import ApiCall

ELSEWHERE = ("external_denied", "location_escape", "relative_escape")
OUTSIDE = "it is outside of the Session's directory; only a caller with the role admin can attach it"
CLOSED = "it belongs to Holdfast itself; only a caller with the role admin can attach it"


def reads_own_files(call: ApiCall, prompt: Prompt) -> bool:
    """Whether the prompt may have files that have to be read here."""
    return not call.caller.has("admin") and not all(is_data_uri(file.uri) for file in prompt.files or ())


async def own_files(call: ApiCall, prompt: Prompt, read: Container[int]) -> dict[int, Source | Content]:
    """What is behind the files of a prompt but those that were `read` before, by their index. Every address counts that
    is neither data nor was that of a resource: there are many spellings for a file. Raises AttachmentRefused."""
    assert call.session is not None
    check_size(prompt, call.session.id)
    directory = Path(call.session.location.directory)
    closed = closed_folders(call.runtime, call.caller)
    found: dict[int, Source | Content] = {}
    for index, file in enumerate(prompt.files or ()):
        if index in read or is_data_uri(file.uri):
            continue
        try:
            found[index] = await asyncio.to_thread(_read, file, directory, closed)
        except Unusable as error:
            raise AttachmentRefused(call.session.id, index, file.name or file.uri, str(error)) from error
    return found


def _read(file: FileAttachment, directory: Path, closed: ClosedFolders) -> Source | Content:
    address = parse_address(file.uri, directory)
    try:
        target = LocationPaths(directory).resolve(str(address.path), external="deny")
    except PathError as error:
        raise Unusable(OUTSIDE if error.reason in ELSEWHERE else str(error)) from error
    if closed.contain(str(target.path)):
        raise Unusable(CLOSED)
    return read_target(target, file.mime, address.lines)
