"""What refusals taught about the windows of models. One per Location, because providers are configured there.

Invariants
- The newest window that a provider named counts. A refused estimate only ever makes a limit smaller.
- An answered request that was larger ends a limit, also for the Sessions whose log still has it.
- A limit is believed for a day: a local server may have been started anew with a larger window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.llm.overflow import is_about_tokens, stated_limit
from holdfast.schema.turn_event import LearnedLimit

if TYPE_CHECKING:
    from holdfast.core.clock import Clock
    from holdfast.llm.errors import LLMError
    from holdfast.llm.event import ProviderError
    from holdfast.schema.model import ModelRef
    from holdfast.schema.turn_event import TurnDispatched

BELIEVED_MS = 24 * 60 * 60 * 1000


class LearnedLimits:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._limits: dict[tuple[str, str], LearnedLimit] = {}
        self._refuted: dict[tuple[str, str], int] = {}
        """Until when what was learned turned out wrong."""

    def of(self, model: ModelRef) -> LearnedLimit | None:
        known = self._limits.get(_key(model))
        if known is None or self._clock.now() - known.time <= BELIEVED_MS:
            return known
        del self._limits[_key(model)]
        return None

    def refused(self, model: ModelRef, error: LLMError | ProviderError, estimate: int) -> None:
        """The provider found a request of so many estimated tokens too long. Its own number counts only as far as the
        estimate agrees that the request was over it: later requests are measured by the same estimate."""
        if not is_about_tokens(error):
            return
        stated = stated_limit(error)
        tokens = min(stated, estimate) if stated is not None else estimate
        known = self.of(model)
        if known is None or tokens == stated or tokens <= known.tokens:
            learned = LearnedLimit(tokens=tokens, stated=tokens == stated, time=self._clock.now())
            self._limits[_key(model)] = learned

    def answered(self, model: ModelRef, counted: int) -> None:
        """The provider answered a request in which it counted so many tokens."""
        known = self.of(model)
        if known is not None and counted > known.tokens:
            del self._limits[_key(model)]
            self._refuted[_key(model)] = self._clock.now()

    def restore(self, dispatched: TurnDispatched) -> None:
        """What an earlier process knew when it sent its last request."""
        learned, key = dispatched.learned, _key(dispatched.model)
        if learned is not None and learned.time > self._refuted.get(key, -1):
            self._limits.setdefault(key, learned)


def _key(model: ModelRef) -> tuple[str, str]:
    return model.provider_id, model.id
