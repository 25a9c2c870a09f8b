"""A model that a turn can be taken with, and everything that the catalog adds to its request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.catalog.family import family_text
from holdfast.core.catalog.options import Overlay, merge
from holdfast.core.catalog.prices import cost
from holdfast.llm.request import Generation
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from holdfast.llm.model import Model
    from holdfast.schema.catalog import ModelCost, ModelInfo, ModelLimit
    from holdfast.schema.model import ModelRef
    from holdfast.schema.session import Tokens

_LONG_ID = pattern(r"ses_([0-9a-f]{64})")
_CACHE_KEY = "promptCacheKey"


class RequestOverlay(Frozen):
    """The three domains and the headers, as `make_request` takes them."""

    generation: Generation | None
    options: dict[str, dict[str, Any]] | None
    body: dict[str, Any] | None
    headers: dict[str, str]


class ResolvedModel(Frozen):
    ref: ModelRef
    """As it was chosen."""
    model: Model
    """Without defaults of its own: they are in the overlay, where a higher layer can take them away."""
    info: ModelInfo
    variant: str | None
    """The one in force, also when nobody named it."""
    layers: Overlay

    def __repr__(self) -> str:
        return f"ResolvedModel({self.ref.provider_id}/{self.ref.id}, variant={self.variant})"

    @property
    def limit(self) -> ModelLimit:
        return self.info.limit

    @property
    def prices(self) -> tuple[ModelCost, ...]:
        return self.info.cost

    @property
    def family_text(self) -> str:
        return family_text(self.model.id)

    def price(self, tokens: Tokens) -> float:
        return cost(self.info.cost, tokens)

    def overlay(self, session_id: str) -> RequestOverlay:
        """What goes into every request of that Session."""
        namespace = self.model.route.protocol.namespace
        mine = {namespace: {_CACHE_KEY: cache_key(session_id)}} if namespace in ("openai", "openrouter") else {}
        merged = merge(self.layers, Overlay(options=mine))
        return RequestOverlay(
            generation=Generation(**merged.generation) if merged.generation else None,
            options={name: dict(options) for name, options in merged.options.items()} or None,
            body=dict(merged.body) or None,
            headers={name: value for name, value in merged.headers.items() if value is not None},
        )


def cache_key(session_id: str) -> str:
    """At most 64 characters, as providers want it."""
    long = _LONG_ID.fullmatch(session_id)
    return long[1] if long else session_id
