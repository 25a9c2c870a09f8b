"""Sources of plugins, isolated so that no fault of a plugin fails or delays a turn.

Invariants
- A plugin's exception, empty text or timeout is UNAVAILABLE with a diagnostic. The timeout holds even if the plugin
  ignores its cancellation.
- A stored value that its codec cannot decode leads to a new baseline, whatever the codec raises.
- A plugin source has a removal text, so that unloading it needs no new baseline."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.core.context.errors import InvalidPluginSourceError
from holdfast.core.context.source import REMOTE_TIMEOUT, UNAVAILABLE, Absent, Source, Unavailable
from holdfast.core.context.system_context import make

if TYPE_CHECKING:
    import msgspec

    from holdfast.core.context.registry import SystemContextRegistry
    from holdfast.core.context.source import AnySource
    from holdfast.core.scope import Scope

T = TypeVar("T")
Diagnose = Callable[[str, str], None]
"""`diagnose(key, message)` reports to people, never to the model."""


def register_plugin_source(
    registry: SystemContextRegistry, plugin_id: str, source: Source[T], scope: Scope, diagnose: Diagnose
) -> Callable[[], None]:
    """Contribute until the scope closes. To replace a set of sources, close its scope and register the new set without
    awaiting in between: a boundary then sees either the old set or the new one."""
    context = make(plugin_source(plugin_id, source, diagnose))
    return registry.register(source.key, lambda: context, scope)


def plugin_source(
    plugin_id: str, source: Source[T], diagnose: Diagnose, *, timeout: float = REMOTE_TIMEOUT
) -> Source[T]:
    namespace = plugin_namespace(plugin_id)
    if not source.key.startswith(namespace):
        raise InvalidPluginSourceError(f"{source.key} is not this plugin's: its keys begin with {namespace}")
    if source.removed is None:
        raise InvalidPluginSourceError(f"{source.key} needs a removal text: unloading must not force a new baseline")
    isolation = _Isolation(source, diagnose, timeout)
    return source.replace(
        codec=isolation,
        load=isolation.load,
        baseline=partial(isolation.render, "baseline", source.baseline),
        update=partial(isolation.render, "update", source.update),
        removed=partial(isolation.render, "removal", source.removed),
        optional=True,
        timeout=None,
        immediate=False,
    )


def plugin_namespace(plugin_id: str) -> str:
    slug = re.sub(r"[^a-z0-9._-]+", "-", plugin_id.lower()).strip("-._")
    if not slug:
        raise InvalidPluginSourceError(f"{plugin_id!r} cannot name a plugin's sources")
    return f"plugin/{slug}/"


class _Isolation:
    """The loader, renderers and codec that are used in place of a plugin's."""

    def __init__(self, source: AnySource, diagnose: Diagnose, timeout: float) -> None:
        self._source = source
        self._diagnose = diagnose
        self._timeout = timeout
        self._overdue: set[asyncio.Future[Any]] = set()
        self.encode = source.codec.encode  # `load` has encoded the value once: this cannot fail

    async def load(self) -> Any:
        try:
            loading: Any = self._source.load()
        except Exception as error:  # noqa: BLE001 - the defect is the plugin's
            return self._unavailable(f"could not be loaded: {type(error).__name__}")
        if not isinstance(loading, Awaitable):
            return self._unavailable("has a load function that is not asynchronous")
        task = asyncio.ensure_future(loading)
        try:
            await asyncio.wait({task}, timeout=self._timeout)
        finally:
            if late := not task.done():
                self._abandon(task)
        if late:
            return self._unavailable(f"did not answer within {self._timeout:g} s")
        if task.cancelled():
            return self._unavailable("was cancelled")
        if (raised := task.exception()) is not None:
            return self._unavailable(f"could not be loaded: {type(raised).__name__}")
        try:
            return self._stored(task.result())
        except Exception as failed:  # noqa: BLE001 - as above
            return self._unavailable(f"has a value that cannot be stored: {type(failed).__name__}")

    def render(self, kind: str, renderer: Callable[..., str | Unavailable], *values: Any) -> str | Unavailable:
        try:
            text = renderer(*values)
        except Exception as error:  # noqa: BLE001 - as above
            return self._unavailable(f"could not render its {kind}: {type(error).__name__}")
        if not isinstance(text, str) or not text:
            return self._unavailable(f"rendered an empty {kind}")
        return text

    def decode(self, data: bytes | msgspec.Raw) -> Any:
        try:
            return self._source.codec.decode(data)
        except Exception as error:
            raise ValueError(f"{self._source.key} cannot read its stored value: {type(error).__name__}") from error

    def _stored(self, value: Any) -> Any:
        """The value as it will be decoded from the snapshot, so that storing it cannot fail later."""
        codec = self._source.codec
        return value if isinstance(value, Unavailable | Absent) else codec.decode(codec.encode(value))

    def _abandon(self, task: asyncio.Future[Any]) -> None:
        self._overdue.add(task)
        task.add_done_callback(self._forget)
        task.cancel()

    def _forget(self, task: asyncio.Future[Any]) -> None:
        self._overdue.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it

    def _unavailable(self, message: str) -> Unavailable:
        self._diagnose(self._source.key, message)
        return UNAVAILABLE
