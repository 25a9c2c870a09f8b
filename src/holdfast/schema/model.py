"""The reference to a model."""

from holdfast.schema.exceptions import InvalidRequest
from holdfast.schema.record import Record

DEFAULT_VARIANT = "default"


class ModelRef(Record):
    id: str
    provider_id: str
    variant: str | None = None


def model_ref(given: ModelRef | str) -> ModelRef:
    """The model that `provider/model` or `provider/model#variant` names. Only the first slash separates: the id of a
    model may contain others. Raises InvalidRequest for another text."""
    if isinstance(given, ModelRef):
        return given
    name, separator, variant = given.rpartition("#") if "#" in given else (given, "", "")
    provider, _, id = name.partition("/")
    if not provider or not id or bool(separator) != bool(variant):
        raise InvalidRequest(
            f"A model is named provider/model or provider/model#variant, not {given[:200]!r}",
            kind="Payload",
            field="model",
        )
    return ModelRef(id=id, provider_id=provider, variant=variant or None)
