"""The reference to a model."""

from holdfast.schema.record import Record

DEFAULT_VARIANT = "default"


class ModelRef(Record):
    id: str
    provider_id: str
    variant: str | None = None
