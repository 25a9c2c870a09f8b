"""What a plugin is, and how one can fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from holdfast.core.plugin.host import Host


class Plugin(Protocol):
    """A module names it `plugin`; an entry point of the group `opencode.plugins` may be it, or such a module."""

    @property
    def id(self) -> str: ...

    def setup(self, host: Host, /) -> Awaitable[None] | None:
        """Register everything that this plugin brings. Nothing of it counts before setup has returned, and nothing if
        it fails. Synchronous code runs in a thread of its own."""


class PluginFailed(HoldfastError):
    """A plugin that could not be loaded or set up. The rest goes on without it."""

    def __init__(self, id: str, reason: str) -> None:
        super().__init__(f"Plugin {id}: {reason}")
        self.id = id
        self.reason = reason


class PluginBusy(HoldfastError, RuntimeError):
    """Adding or removing a plugin from inside its own loading."""


class PluginProblem(Frozen):
    """For a person; the model never sees it."""

    id: str
    message: str
    declared: str | None = None
    """The file that names the plugin, if one does."""


def check_plugin(found: Any, source: str) -> Plugin:
    plugin = getattr(found, "plugin", found)
    id = getattr(plugin, "id", None)
    if not isinstance(id, str) or not id or not callable(getattr(plugin, "setup", None)):
        raise PluginFailed(source, "it exposes no `plugin` with an `id` and a `setup`")
    return plugin  # type: ignore[no-any-return]
