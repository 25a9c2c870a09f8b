"""Support for the tests of programs that use Holdfast: a model that plays a script, and hosts that use nothing of the
machine.

Importing this package, or the pytest plugin in it, imports neither the runtime nor pytest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.testing.requests import ModelRequest
    from holdfast.testing.scripted_model import Failure, ScriptedModel, Structured, ToolCall

_PUBLIC = {
    "Failure": "holdfast.testing.scripted_model",
    "ModelRequest": "holdfast.testing.requests",
    "ScriptedModel": "holdfast.testing.scripted_model",
    "Structured": "holdfast.testing.scripted_model",
    "ToolCall": "holdfast.testing.scripted_model",
}
__all__ = ["Failure", "ModelRequest", "ScriptedModel", "Structured", "ToolCall"]


def __getattr__(name: str) -> Any:
    """Names load on first use."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PUBLIC[name]), name)
