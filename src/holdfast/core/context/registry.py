"""The System Context Registry: contributions in the order of their keys, each until its scope closes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.core.context.errors import DuplicateContributionError
from holdfast.core.context.source import require_key
from holdfast.core.context.system_context import SystemContext, combine, contribute

if TYPE_CHECKING:
    from holdfast.core.scope import Scope

Producer = Callable[[], SystemContext]
"""Returns the sources that exist at this boundary, without loading them."""


class SystemContextRegistry:
    def __init__(self) -> None:
        self._producers: dict[str, Producer] = {}

    def register(self, key: str, producer: Producer, scope: Scope) -> Callable[[], None]:
        """Contribute until the scope closes or the returned function is called. The key orders contributions; the
        keys of the sources are independent of it."""
        require_key(key)
        if key in self._producers:
            raise DuplicateContributionError(key)
        self._producers[key] = producer
        return scope.add(lambda: self._remove(key))

    def compose(self) -> SystemContext:
        """Call every producer and combine the results in the order of the contribution keys."""
        return combine(contribute(key, self._producers[key]()) for key in sorted(self._producers))

    def _remove(self, key: str) -> None:
        del self._producers[key]
