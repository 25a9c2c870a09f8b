"""`core/model`: the model that the Session selected. A switch is told and keeps the epoch."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from holdfast.core.context.source import JsonCodec, Source, constant
from holdfast.core.context.system_context import make
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from holdfast.core.context.system_context import SystemContext
    from holdfast.schema.model import ModelRef

KEY = "core/model"
BASELINE = "The selected model is {}/{}."
UPDATE = "The selected model is now {}/{}."
REMOVED = "Which model is selected is no longer stated."


class SelectedModel(Record):
    provider_id: str
    model_id: str


_CODEC = JsonCodec(SelectedModel)


@lru_cache(maxsize=64)
def model(selected: ModelRef) -> SystemContext:
    value = SelectedModel(provider_id=selected.provider_id, model_id=selected.id)
    return make(
        Source(
            key=KEY,
            codec=_CODEC,
            load=constant(value),
            baseline=lambda current: BASELINE.format(current.provider_id, current.model_id),
            update=lambda _, current: UPDATE.format(current.provider_id, current.model_id),
            removed=lambda _: REMOVED,
            immediate=True,
        )
    )
