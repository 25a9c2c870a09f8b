"""The plugin protocol and its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from holdfast.core.plugin.host import PluginHost


class Plugin(Protocol):
    """A module exposes it as `plugin`. An entry point in the group `opencode.plugins` is a plugin or such a module."""

    @property
    def id(self) -> str: ...

    def setup(self, host: PluginHost, /) -> Awaitable[None] | None:
        """Register everything that the plugin adds. It takes effect after setup has returned, and not at all if it
        fails. Synchronous code runs in its own thread."""


class PluginFailed(HoldfastError):
    """A plugin that could not be loaded or set up. The rest goes on without it."""

    def __init__(self, id: str, reason: str) -> None:
        super().__init__(f"Plugin {id}: {reason}")
        self.id = id
        self.reason = reason


class PluginBusy(HoldfastError, RuntimeError):
    """Adding or removing a plugin from inside its own loading."""


class PluginProblem(Frozen):
    """A problem for the user; the model never sees it."""

    id: str
    message: str
    declared: str | None = None
    """The file that declares the plugin, if any."""


def check_plugin(found: Any, source: str) -> Plugin:
    plugin = getattr(found, "plugin", found)
    id = getattr(plugin, "id", None)
    if not isinstance(id, str) or not id or not callable(getattr(plugin, "setup", None)):
        raise PluginFailed(source, "it exposes no `plugin` with an `id` and a `setup`")
    return plugin  # type: ignore[no-any-return]
