"""Durable agent sessions.

`Holdfast` is the runtime in your own process, `HoldfastSync` the same in scripts; `connect` speaks to one elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.schema.version import __version__ as __version__

if TYPE_CHECKING:
    from holdfast.client.call import Located, Options, Page
    from holdfast.client.connect import connect, connect_sync
    from holdfast.client.errors import ActivityFailed, ClientError, check_outcome
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.client.generated.sync_client import Client
    from holdfast.client.resume import Patience, Reconnected, follow, follow_sync
    from holdfast.core.context.source import UNAVAILABLE, JsonCodec, Source
    from holdfast.core.database.errors import StorageError
    from holdfast.core.tool.tool import ToolContext, ToolFailure
    from holdfast.embedded.asgi import asgi
    from holdfast.embedded.blocking import HoldfastSync
    from holdfast.embedded.holdfast import Holdfast
    from holdfast.schema.exceptions import (
        ApiError,
        Conflict,
        HoldfastError,
        InvalidRequest,
        MessageNotFound,
        NotFound,
        ServiceUnavailable,
        SessionNotFound,
    )
    from holdfast.schema.location import Location
    from holdfast.schema.model import ModelRef
    from holdfast.schema.prompt import PromptInput
    from holdfast.schema.session import ForkBefore, ForkThrough, Session
    from holdfast.schema.typed_event import DurableEvent, Event, LiveEvent

_PUBLIC = {
    "ActivityFailed": "holdfast.client.errors",
    "ApiError": "holdfast.schema.exceptions",
    "AsyncClient": "holdfast.client.generated.async_client",
    "Client": "holdfast.client.generated.sync_client",
    "ClientError": "holdfast.client.errors",
    "Conflict": "holdfast.schema.exceptions",
    "DurableEvent": "holdfast.schema.typed_event",
    "Event": "holdfast.schema.typed_event",
    "ForkBefore": "holdfast.schema.session",
    "ForkThrough": "holdfast.schema.session",
    "Holdfast": "holdfast.embedded.holdfast",
    "HoldfastError": "holdfast.schema.exceptions",
    "HoldfastSync": "holdfast.embedded.blocking",
    "InvalidRequest": "holdfast.schema.exceptions",
    "JsonCodec": "holdfast.core.context.source",
    "LiveEvent": "holdfast.schema.typed_event",
    "Located": "holdfast.client.call",
    "Location": "holdfast.schema.location",
    "MessageNotFound": "holdfast.schema.exceptions",
    "ModelRef": "holdfast.schema.model",
    "NotFound": "holdfast.schema.exceptions",
    "Options": "holdfast.client.call",
    "Page": "holdfast.client.call",
    "Patience": "holdfast.client.resume",
    "PromptInput": "holdfast.schema.prompt",
    "Reconnected": "holdfast.client.resume",
    "ServiceUnavailable": "holdfast.schema.exceptions",
    "Session": "holdfast.schema.session",
    "SessionNotFound": "holdfast.schema.exceptions",
    "Source": "holdfast.core.context.source",
    "StorageError": "holdfast.core.database.errors",
    "ToolContext": "holdfast.core.tool.tool",
    "ToolFailure": "holdfast.core.tool.tool",
    "UNAVAILABLE": "holdfast.core.context.source",
    "asgi": "holdfast.embedded.asgi",
    "check_outcome": "holdfast.client.errors",
    "connect": "holdfast.client.connect",
    "connect_sync": "holdfast.client.connect",
    "follow": "holdfast.client.resume",
    "follow_sync": "holdfast.client.resume",
}
__all__ = [
    "UNAVAILABLE",
    "ActivityFailed",
    "ApiError",
    "AsyncClient",
    "Client",
    "ClientError",
    "Conflict",
    "DurableEvent",
    "Event",
    "ForkBefore",
    "ForkThrough",
    "Holdfast",
    "HoldfastError",
    "HoldfastSync",
    "InvalidRequest",
    "JsonCodec",
    "LiveEvent",
    "Located",
    "Location",
    "MessageNotFound",
    "ModelRef",
    "NotFound",
    "Options",
    "Page",
    "Patience",
    "PromptInput",
    "Reconnected",
    "ServiceUnavailable",
    "Session",
    "SessionNotFound",
    "Source",
    "StorageError",
    "ToolContext",
    "ToolFailure",
    "__version__",
    "asgi",
    "check_outcome",
    "connect",
    "connect_sync",
    "follow",
    "follow_sync",
]


def __getattr__(name: str) -> Any:
    """Names load on first use: importing the package costs nothing."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PUBLIC[name]), name)
