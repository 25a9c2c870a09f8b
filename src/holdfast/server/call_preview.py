"""What a tool call that waits for permission would change, from its input and the files as they are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.filesystem.location_files import LocationFiles
from holdfast.core.runtime.placement import ServedElsewhere
from holdfast.core.session.stored_conversation import StoredConversation
from holdfast.core.tool.builtin import apply_patch, edit, write
from holdfast.core.tool.tool import ToolFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.filesystem.diff import FileDiff
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.schema.session import Session
    from holdfast.schema.session_message import ToolPart

PLANS: dict[str, tuple[type, Callable[[LocationFiles, Any], tuple[FileDiff, ...]]]] = {
    "edit": (edit.EditInput, edit.planned),
    "write": (write.WriteInput, write.planned),
    "apply_patch": (apply_patch.PatchInput, apply_patch.planned),
}
NOT_KNOWN = "What it would change cannot be shown: {why}"


async def preview_of(
    runtime: Runtime, session: Session, message_id: str, part: ToolPart
) -> tuple[FileDiff, ...] | str | None:
    """None unless it waits for a person and would change files. A text says why the changes are not known."""
    if part.name not in PLANS:
        return None
    requests = await StoredConversation(runtime.database).requests(session.id)
    if (message_id, part.id) not in requests:
        return None
    kind, planned = PLANS[part.name]
    try:
        runtime.placement.check_files(session.location)
        given: Any = msgspec.convert(getattr(part.state, "input", None), kind)
        return await asyncio.to_thread(planned, LocationFiles(Path(session.location.directory)), given)
    except (msgspec.ValidationError, ToolFailure, ServedElsewhere) as error:
        return NOT_KNOWN.format(why=str(error)[:500])
