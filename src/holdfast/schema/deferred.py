"""Modules that are imported on first use. Start-up would otherwise import a hundred modules that the first request to a
model does not need, which takes 20 ms.

A module that defers another one names it twice: for the type checker, and for the interpreter:

    if TYPE_CHECKING:
        from holdfast.core.runner import compaction
    else:
        compaction = deferred("holdfast.core.runner.compaction")

A process that stays calls `load_next` until it returns False, so that no later request waits for an import."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_WAITING: dict[str, None] = {}
"""Names of deferred modules that nobody has used yet, in the order in which they were named."""


def deferred(name: str) -> Any:
    """A stand-in for the module; the first access to an attribute imports it."""
    _WAITING[name] = None
    return _DeferredModule(name)


def load_next() -> bool:
    """Import one deferred module. Returns whether there was one; the imported module may have deferred others."""
    if not _WAITING:
        return False
    import_module(_taken(next(iter(_WAITING))))
    return True


class _DeferredModule:
    def __init__(self, name: str) -> None:
        self._name = name
        self._module: Any = None

    def __getattr__(self, attribute: str) -> Any:
        if self._module is None:
            self._module = import_module(_taken(self._name))
        return getattr(self._module, attribute)


def _taken(name: str) -> str:
    _WAITING.pop(name, None)
    return name
