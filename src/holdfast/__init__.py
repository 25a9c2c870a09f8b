"""Durable agent sessions.

`Holdfast` is the runtime in your own process; `AsyncClient` speaks to one elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.schema.version import __version__ as __version__

if TYPE_CHECKING:
    from holdfast.client.errors import ApiError, ClientError
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.embedded.holdfast import Holdfast
    from holdfast.schema.prompt import PromptInput

_PUBLIC = {
    "Holdfast": "holdfast.embedded.holdfast",
    "AsyncClient": "holdfast.client.generated.async_client",
    "ApiError": "holdfast.client.errors",
    "ClientError": "holdfast.client.errors",
    "PromptInput": "holdfast.schema.prompt",
}
__all__ = ["ApiError", "AsyncClient", "ClientError", "Holdfast", "PromptInput", "__version__"]


def __getattr__(name: str) -> Any:
    """Names load on first use: importing the package costs nothing."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PUBLIC[name]), name)
