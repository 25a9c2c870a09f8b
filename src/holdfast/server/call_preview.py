"""What a tool call that waits for permission would change, from its input and the files as they are.

It is the server that reads them, before anybody has approved the call: whoever is no admin sees only what they could
read over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.filesystem.errors import PathError
from holdfast.core.filesystem.location_files import FileSettings, LocationFiles
from holdfast.core.runtime.placement import ServedElsewhere
from holdfast.core.session.stored_conversation import StoredConversation
from holdfast.core.tool.builtin import apply_patch, edit, write
from holdfast.core.tool.tool import ToolFailure
from holdfast.server.closed_folders import closed_folders

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.filesystem.diff import FileDiff
    from holdfast.core.filesystem.location_path import Target
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.schema.session import Session
    from holdfast.schema.session_message import ToolPart
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
