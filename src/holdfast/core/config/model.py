"""How configuration names a model."""

from __future__ import annotations

import msgspec

from holdfast.schema.model import ModelRef


def parse_model(text: str) -> ModelRef:
    """`provider/model`, cut at the first slash: the model's own id may have more of them."""
    provider, _, model = text.partition("/")
    return ModelRef(id=model, provider_id=provider)


def patched_model(former: ModelRef | None, model: str | None, variant: str | None) -> ModelRef | None:
    """Another model keeps the variant that was chosen; a variant without a model says nothing."""
    if model is not None:
        kept = former.variant if former is not None else None
        former = msgspec.structs.replace(parse_model(model), variant=kept)
    if former is not None and variant is not None:
        former = msgspec.structs.replace(former, variant=variant)
    return former
