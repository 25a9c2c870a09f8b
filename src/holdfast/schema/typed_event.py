"""Events with decoded payloads, durable and live ones as separate types.

An unknown type or version keeps its payload as `msgspec.Raw`, so that an older client can follow a newer server.
Distinguish payloads by class: `match event.data: case TextDelta(delta=text): ...`."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from holdfast.schema import live_event as live
from holdfast.schema import mcp, pty
from holdfast.schema import session_event as ev
from holdfast.schema.codec import decoder
from holdfast.schema.event import DurablePosition, EventEnvelope
from holdfast.schema.location import Location
from holdfast.schema.manifest import MANIFEST
from holdfast.schema.record import Record

DurableData = (
    ev.SessionCreated
    | ev.SessionUpdated
    | ev.SessionDeleted
    | ev.AgentSwitched
    | ev.ModelSwitched
    | ev.Moved
    | ev.PromptAdmitted
    | ev.Prompted
    | ev.ContextUpdated
    | ev.Synthetic
    | ev.ShellStarted
    | ev.ShellEnded
    | ev.StepStarted
    | ev.StepEnded
    | ev.StepFailed
    | ev.TextStarted
    | ev.TextEnded
    | ev.ReasoningStarted
    | ev.ReasoningEnded
    | ev.ToolInputStarted
    | ev.ToolInputEnded
    | ev.ToolCalled
    | ev.ToolProgress
    | ev.ToolSuccess
    | ev.ToolFailed
    | ev.Retried
    | ev.CompactionStarted
    | ev.CompactionEnded
    | ev.CompactionFailed
    | ev.RevertStaged
    | ev.RevertCleared
    | ev.RevertCommitted
)
"""Payloads of durable events."""

LiveData = (
    live.TextDelta
    | live.ReasoningDelta
    | live.ToolInputDelta
    | live.CompactionDelta
    | live.ShellDelta
    | live.TodoUpdated
    | live.SessionStatus
    | live.SessionIdle
    | live.SessionCompacted
    | live.TreeConnected
    | live.SessionError
    | live.PermissionAskedLive
    | live.PermissionRepliedLive
    | live.QuestionAskedLive
    | live.QuestionRepliedLive
    | live.QuestionRejectedLive
    | live.FormCreatedLive
    | live.FormRepliedLive
    | live.FormCancelledLive
    | pty.PtyCreated
    | pty.PtyUpdated
    | pty.PtyExited
    | pty.PtyDeleted
    | live.FileEdited
    | live.CatalogUpdated
    | live.IntegrationUpdated
    | live.IntegrationConnectionUpdated
    | live.ReferenceUpdated
    | mcp.McpStatusChanged
    | mcp.McpResourcesChanged
    | live.PluginAdded
    | live.ModelsDevRefreshed
    | live.ServerConnected
    | live.GlobalDisposed
)
"""Payloads of live events."""


class DurableEvent(Record):
    """A stored event. `durable.seq` is the cursor to continue from."""

    id: str
    type: str
    durable: DurablePosition
    location: Location | None = None
    metadata: dict[str, Any] | None = None
    data: DurableData | msgspec.Raw
    cursor: str | None = None
    """Only in the stream of a tree, which continues after it."""


class LiveEvent(Record):
    """An event that is not stored: it has no position and is not replayed."""

    durable: ClassVar[None] = None
    id: str
    type: str
    location: Location | None = None
    metadata: dict[str, Any] | None = None
    data: LiveData | msgspec.Raw
    cursor: str | None = None
    """As that of a durable event."""


Event = DurableEvent | LiveEvent


def decode_event(wire: bytes | msgspec.Raw) -> Event:
    """Raises msgspec.DecodeError, also if the payload of a known type is invalid."""
    return typed(decoder(EventEnvelope).decode(wire))


def typed(envelope: EventEnvelope) -> Event:
    """Raises msgspec.DecodeError if the payload of a known type is invalid."""
    id, type, position = envelope.id, envelope.type, envelope.durable
    location, metadata, cursor = envelope.location, envelope.metadata, envelope.cursor
    if position is None:
        data = _payload(type, envelope.data)
        return LiveEvent(id=id, type=type, location=location, metadata=metadata, data=data, cursor=cursor)
    data = _payload(f"{type}.{position.version}", envelope.data)
    return DurableEvent(
        id=id, type=type, durable=position, location=location, metadata=metadata, data=data, cursor=cursor
    )


def _payload(key: str, data: msgspec.Raw) -> Any:
    payload = _PAYLOADS.get(key)
    return data if payload is None else decoder(payload).decode(data)


_PAYLOADS: dict[str, type[Record]] = {
    **{definition.type: definition.payload for definition in MANIFEST.latest.values() if not definition.durable},
    **{key: definition.payload for key, definition in MANIFEST.stored.items() if definition.announced},
}
