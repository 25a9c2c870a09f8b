"""A model that can be called, and everything that the catalog adds to its requests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from holdfast.core.catalog.family import family_text
from holdfast.core.catalog.options import Overlay, merge
from holdfast.core.catalog.prices import cost
from holdfast.llm.request import Generation
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.llm.model import Model
    from holdfast.schema.catalog import ModelCost, ModelInfo, ModelLimit
    from holdfast.schema.model import ModelRef
    from holdfast.schema.session import Tokens

_LONG_ID = r"ses_([0-9a-f]{64})"
_CACHE_KEY = "promptCacheKey"


class RequestOverlay(Frozen):
    """The three option domains and the headers, as arguments of `make_request`."""

    generation: Generation | None
    options: dict[str, dict[str, Any]] | None
    body: dict[str, Any] | None
    headers: dict[str, str]


class ResolvedModel(Frozen):
    ref: ModelRef
    """As requested."""
    model: Model
    """Without its own defaults: they are in `layers`, where a higher layer can remove them."""
    info: ModelInfo
    variant: str | None
    """The variant in force, even if it was not requested."""
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
        """The options of every request of this Session."""
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
    """A cache key of at most 64 characters, the limit of providers."""
    long = re.fullmatch(_LONG_ID, session_id)
    return long[1] if long else session_id
