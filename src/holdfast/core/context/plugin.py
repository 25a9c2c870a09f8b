"""Sources that plugins bring, kept at arm's length: whatever their code does, the turn goes on.

Invariants
- A plugin's failure, silence or slowness is UNAVAILABLE with a diagnostic; it is never raised and never waited for
  beyond the bound, even if the plugin ignores its cancellation.
- What its codec cannot read back is no value of it, whatever the codec raises: the baseline is replaced.
- A plugin source can always be removed: its removal text is required."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.core.context.errors import InvalidPluginSourceError
from holdfast.core.context.source import REMOTE_TIMEOUT, UNAVAILABLE, Source
from holdfast.core.context.system_context import make
from holdfast.core.context.together import awaits

if TYPE_CHECKING:
    from collections.abc import Awaitable

    import msgspec

    from holdfast.core.context.registry import SystemContextRegistry
    from holdfast.core.context.source import AnySource, Unavailable
    from holdfast.core.scope import Scope

T = TypeVar("T")
Diagnose = Callable[[str, str], None]
"""`diagnose(key, message)`: tell a person, never the model."""


def register_plugin_source(
    registry: SystemContextRegistry, plugin_id: str, source: Source[T], scope: Scope, diagnose: Diagnose
) -> Callable[[], None]:
    """Contribute until the scope closes. To replace a set of sources, close its scope and register anew without
    awaiting in between: a boundary then sees either all of the old or all of the new."""
    isolated = plugin_source(plugin_id, source, diagnose)
    return registry.register(isolated.key, lambda: make(isolated), scope)


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
    )


def plugin_namespace(plugin_id: str) -> str:
    slug = re.sub(r"[^a-z0-9._-]+", "-", plugin_id.lower()).strip("-._")
    if not slug:
        raise InvalidPluginSourceError(f"{plugin_id!r} cannot name a plugin's sources")
    return f"plugin/{slug}/"


class _Isolation:
    """Stands between a plugin's source and the turn, as its loader, its renderers and its codec."""

    def __init__(self, source: AnySource, diagnose: Diagnose, timeout: float) -> None:
        self._source = source
        self._diagnose = diagnose
        self._timeout = timeout
        self._overdue: set[asyncio.Future[Any]] = set()
        self.encode = source.codec.encode  # what was loaded has been encoded once already

    def load(self) -> Any:
        try:
            given = self._source.load()
            return self._wait(given) if awaits(given) else self._checked(given)
        except Exception as error:  # noqa: BLE001 - a plugin's defect is the plugin's
            return self._unavailable(f"could not be observed: {type(error).__name__}")

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

    async def _wait(self, given: Awaitable[Any]) -> Any:
        try:
            task = asyncio.ensure_future(given)
        except TypeError:
            return self._unavailable("cannot be awaited")
        try:
            await asyncio.wait({task}, timeout=self._timeout)
        finally:
            if late := not task.done():
                self._let_go(task)
        if late:
            return self._unavailable(f"did not answer within {self._timeout:g} s")
        if task.cancelled():
            return self._unavailable("was cancelled")
        if (error := task.exception()) is not None:
            return self._unavailable(f"could not be observed: {type(error).__name__}")
        try:
            return self._checked(task.result())
        except Exception as failed:  # noqa: BLE001 - as above
            return self._unavailable(f"has a value that cannot be stored: {type(failed).__name__}")

    def _checked(self, value: Any) -> Any:
        """As it would come back from storage, so that nothing can fail later."""
        codec = self._source.codec
        return value if value is UNAVAILABLE else codec.decode(codec.encode(value))

    def _let_go(self, task: asyncio.Future[Any]) -> None:
        self._overdue.add(task)
        task.add_done_callback(self._forget)
        task.cancel()

    def _forget(self, task: asyncio.Future[Any]) -> None:
        self._overdue.discard(task)
        if not task.cancelled():
            task.exception()  # seen: nobody waits for it any more

    def _unavailable(self, message: str) -> Unavailable:
        self._diagnose(self._source.key, message)
        return UNAVAILABLE
