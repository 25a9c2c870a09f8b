"""Model references in configuration."""

from __future__ import annotations

import msgspec

from holdfast.schema.model import ModelRef


def parse_model(text: str) -> ModelRef:
    """Splits `provider/model` at the first slash: the model's own id may contain slashes."""
    provider, _, model = text.partition("/")
    return ModelRef(id=model, provider_id=provider)


def patched_model(former: ModelRef | None, model: str | None, variant: str | None) -> ModelRef | None:
    """A new model keeps the former variant. A variant without a model has no effect."""
    if model is not None:
        kept = former.variant if former is not None else None
        former = msgspec.structs.replace(parse_model(model), variant=kept)
    if former is not None and variant is not None:
        former = msgspec.structs.replace(former, variant=variant)
    return former
