"""The System Context Registry of a Location: who contributes, until its scope closes. Looked at only at boundaries."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.context.errors import DuplicateContributionError
from holdfast.core.context.source import require_key
from holdfast.core.context.system_context import SystemContext, combine
from holdfast.core.context.together import awaits, together

if TYPE_CHECKING:
    from holdfast.core.context.metrics import Metrics
    from holdfast.core.scope import Scope

Producer = Callable[[], SystemContext | Awaitable[SystemContext]]
"""Confirmed absence is the empty context; what could not be observed is its source with UNAVAILABLE."""


class SystemContextRegistry:
    def __init__(self, metrics: Metrics | None = None) -> None:
        self._producers: dict[str, Producer] = {}
        self._metrics = metrics

    def register(self, key: str, load: Producer, scope: Scope) -> Callable[[], None]:
        """Contribute until the scope closes, or what is returned is called. The key orders contributions and is not
        the key of a source."""
        require_key(key)
        if key in self._producers:
            raise DuplicateContributionError(key)
        self._producers[key] = load
        return scope.add(lambda: self._remove(key))

    def load(self) -> SystemContext | Awaitable[SystemContext]:
        """Everything that is contributed right now, in the order of the contribution keys."""
        contexts = together([partial(self._ask, key) for key in sorted(self._producers)])
        return combine(contexts) if isinstance(contexts, list) else _combined(contexts)

    def _ask(self, key: str) -> SystemContext | Awaitable[SystemContext]:
        given = self._producers[key]()
        return _timed(key, given, self._metrics) if self._metrics is not None and awaits(given) else given

    def _remove(self, key: str) -> None:
        del self._producers[key]


async def compose(producers: Iterable[Producer]) -> SystemContext:
    """Ask all producers at once and combine their contexts in the given order. What they took is kept with them."""
    started = time.perf_counter()
    contexts = together(producers)
    if not isinstance(contexts, list):
        contexts = await contexts
    return combine(contexts, seconds=time.perf_counter() - started)


async def _timed(key: str, given: Awaitable[SystemContext], metrics: Metrics) -> SystemContext:
    started = time.perf_counter()
    try:
        return await given
    finally:
        metrics.record("context.observe.duration", time.perf_counter() - started, key)


async def _combined(contexts: Awaitable[list[SystemContext]]) -> SystemContext:
    return combine(await contexts)
