"""Projections of the inbox: admitted, promoted and withdrawn inputs, and their attachments."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.database.unit import Statement, Value
from holdfast.core.session.input_errors import InputNotPending, LifecycleConflict, MessageIdInUse
from holdfast.core.session.projected_rows import (
    begin_activity,
    message,
)
from holdfast.schema import session_event as ev
from holdfast.schema.codec import encode_text
from holdfast.schema.prompt import Prompt

if TYPE_CHECKING:
    from holdfast.core.event.projection import Projected, Projector
    from holdfast.schema.prompt import InputKind
    from holdfast.schema.record import Record


USER_FIELDS = ("text", "files", "agents", "skills", "metadata", "options", "command")
"""What a user message takes over from its prompt."""


def prompt_admitted(event: Projected) -> tuple[Statement, ...]:
    data: ev.PromptAdmitted = event.data
    key = {"id": data.message_id}
    return (
        Statement("inbox.exists", key, found=False, error=MessageIdInUse),
        Statement("inbox.insert", _inbox_row(data, data.prompt, data.type or "user")),
        # After the row: a message that claims its id at the same moment is visible by then.
        Statement("message.exists", key, found=False, error=MessageIdInUse),
        *((Statement("task.deliver", {**key, "session_id": data.session_id}),) if data.type == "synthetic" else ()),
    )


def prompted(event: Projected) -> tuple[Statement, ...]:
    data: ev.Prompted = event.data
    row = _inbox_row(data, data.prompt, "user")
    content = {name: getattr(data.prompt, name) for name in USER_FIELDS}
    return (
        Statement("inbox.adopt", row),
        *_promoted(data, row),
        message(event, data.message_id, "user", content),
        *(() if row["no_reply"] else (begin_activity(data),)),
    )


def synthetic(event: Projected) -> tuple[Statement, ...]:
    data: ev.Synthetic = event.data
    content = {
        "sessionID": data.session_id,
        "text": data.text,
        "description": data.description,
        "metadata": data.metadata,
    }
    added = message(event, data.message_id, "synthetic", content)
    if data.delivery is None:
        return (added,)
    prompt = Prompt(text=data.text, metadata=data.metadata, description=data.description)
    return (*_promoted(data, _inbox_row(data, prompt, "synthetic")), added, begin_activity(data))


def input_withdrawn(event: Projected) -> tuple[Statement, ...]:
    data: ev.InputWithdrawn = event.data
    row = {"session_id": data.session_id, "id": data.message_id}
    promoted = partial(InputNotPending, data.session_id, data.message_id)
    return (
        Statement("inbox.withdraw", row, changes=1, error=promoted),
        Statement("inbox.woken", {"id": data.message_id}, operational=True),
    )


def input_delivery_changed(event: Projected) -> tuple[Statement, ...]:
    data: ev.InputDeliveryChanged = event.data
    row = {"session_id": data.session_id, "id": data.message_id, "delivery": data.delivery}
    unchanged = partial(InputNotPending, data.session_id, data.message_id)
    return (Statement("inbox.set_delivery", row, changes=1, error=unchanged),)


def attachment_stored(event: Projected) -> tuple[Statement, ...]:
    data: ev.AttachmentStored = event.data
    kinds = {"text": data.text, "data": data.data, "note": data.note}
    kind, content = next(((kind, content) for kind, content in kinds.items() if content is not None), ("note", ""))
    row: dict[str, Value] = {
        "session_id": data.session_id,
        "message_id": data.message_id,
        "index": data.index,
        "mime": data.mime,
        "kind": kind,
        "content": content,
    }
    return (Statement("attachment.insert", row),)


INBOX_PROJECTORS: dict[type[Record], Projector] = {
    ev.PromptAdmitted: prompt_admitted,
    ev.Prompted: prompted,
    ev.Synthetic: synthetic,
    ev.InputWithdrawn: input_withdrawn,
    ev.InputDeliveryChanged: input_delivery_changed,
    ev.AttachmentStored: attachment_stored,
}


def _promoted(data: ev.Prompted | ev.Synthetic, row: dict[str, Value]) -> tuple[Statement, ...]:
    return (
        Statement("inbox.promote", row, changes=1, error=partial(LifecycleConflict, data.message_id)),
        Statement("inbox.woken", {"id": data.message_id}, operational=True),
        Statement("blocked.clear", {"session_id": data.session_id}, operational=True),
    )


def _inbox_row(
    data: ev.PromptAdmitted | ev.Prompted | ev.Synthetic, prompt: Prompt, kind: InputKind
) -> dict[str, Value]:
    return {
        "session_id": data.session_id,
        "id": data.message_id,
        "kind": kind,
        "prompt": encode_text(prompt),
        "delivery": data.delivery,
        "timestamp": data.timestamp,
        "no_reply": int(prompt.options is not None and prompt.options.no_reply is True),
    }
