"""Shows what a tool call that waits for permission would do, from its input and the files as they are.

It is the server that reads them, before anybody has approved the call: whoever is no admin sees only what they could
read over HTTP."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.filesystem.errors import PathError
from holdfast.core.filesystem.location_files import FileSettings, LocationFiles
from holdfast.core.runtime.placement import ServedElsewhere
from holdfast.core.session.errors import MessageNotFound
from holdfast.core.session.stored_conversation import StoredConversation
from holdfast.core.tool.builtin import apply_patch, edit, write
from holdfast.core.tool.tool import ToolFailure
from holdfast.schema.rendered import PermissionPreview, PreviewFile
from holdfast.schema.session_message import AssistantMessage, ToolPart, ToolPending
from holdfast.server.closed_folders import closed_folders
from holdfast.server.render.text import encodable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.filesystem.diff import FileDiff
    from holdfast.core.filesystem.location_path import Target
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.schema.permission import PermissionRequest
    from holdfast.schema.session import Session
    from holdfast.server.caller import Caller
    from holdfast.server.closed_folders import ClosedFolders

PLANS: dict[str, tuple[type, Callable[[LocationFiles, Any], tuple[FileDiff, ...]]]] = {
    "edit": (edit.EditInput, edit.planned),
    "write": (write.WriteInput, write.planned),
    "apply_patch": (apply_patch.PatchInput, apply_patch.planned),
}
NOT_KNOWN = "What it would change cannot be shown: {why}"


class _ReadableFiles(LocationFiles):
    """Only those of the Location that are in no closed folder."""

    def __init__(self, directory: Path, closed: ClosedFolders) -> None:
        super().__init__(directory, settings=lambda: FileSettings(external_paths="deny"))
        self._closed = closed

    def resolve(self, path: str, *arguments: Any, **options: Any) -> Target:
        target = super().resolve(path, *arguments, **options)
        if self._closed.contain(str(target.path)):
            raise PathError(path, "inaccessible")
        return target


async def preview_of(
    runtime: Runtime, session: Session, message_id: str, part: ToolPart, reader: Caller
) -> tuple[FileDiff, ...] | str | None:
    """None unless it waits for a person and would change files. A text says why the changes are not known to the
    reader."""
    if part.name not in PLANS:
        return None
    requests = await StoredConversation(runtime.database).requests(session.id)
    if (message_id, part.id) not in requests:
        return None
    kind, planned = PLANS[part.name]
    try:
        runtime.placement.check_files(session.location)
        given: Any = msgspec.convert(getattr(part.state, "input", None), kind)
        directory = Path(session.location.directory)
        files = (
            LocationFiles(directory)
            if reader.has("admin")
            else _ReadableFiles(directory, closed_folders(runtime, reader))
        )
        return await asyncio.to_thread(planned, files, given)
    except (msgspec.ValidationError, ToolFailure, ServedElsewhere) as error:
        return NOT_KNOWN.format(why=str(error)[:500])


async def permission_preview(
    runtime: Runtime, session: Session, request: PermissionRequest, reader: Caller
) -> PermissionPreview:
    """What an open request of the Session would allow, whole. The call that it names decides what is shown: its input
    is what will be executed. A request without a call has only what was sent with it."""
    metadata = request.metadata or {}
    directory = _text(metadata, "directory") or os.path.join(
        session.location.directory, _text(metadata, "workdir") or "."
    )
    directory = os.path.normpath(directory)
    part = await _call_of(runtime, session, request)
    if part is None or isinstance(part.state, ToolPending):
        return PermissionPreview(directory=directory, command=_text(metadata, "command"))
    given = part.state.input
    if part.name == "bash" and (command := _text(given, "command")) is not None:
        return PermissionPreview(directory=directory, command=command)
    source = request.source
    assert source is not None
    planned = await preview_of(runtime, session, source.message_id, part, reader)
    files = planned if isinstance(planned, tuple) else ()
    unknown = not files or any(file.patch is None for file in files)
    return PermissionPreview(
        directory=directory,
        files=tuple(
            PreviewFile(
                path=file.file,
                status=file.status,
                additions=file.additions,
                deletions=file.deletions,
                patch=encodable(file.patch) if file.patch is not None else None,
            )
            for file in files
        ),
        input=given if unknown else None,
        note=planned if isinstance(planned, str) else _text(metadata, "diff"),
    )


async def _call_of(runtime: Runtime, session: Session, request: PermissionRequest) -> ToolPart | None:
    """The newest call that the request names; None if it names none that is stored."""
    if request.source is None:
        return None
    try:
        message = (await runtime.store.message(session.id, request.source.message_id)).decode()
    except MessageNotFound:
        return None
    content = message.content if isinstance(message, AssistantMessage) else ()
    calls = (part for part in reversed(content) if isinstance(part, ToolPart) and part.id == request.source.call_id)
    return next(calls, None)


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    return encodable(value) if isinstance(value, str) else None
