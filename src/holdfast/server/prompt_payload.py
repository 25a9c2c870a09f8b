"""The two shapes of a prompt: inside `prompt`, or its fields beside `id`, `delivery` and `resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.protocol.sessions import PROMPT_FIELDS
from holdfast.schema.exceptions import InvalidRequest
from holdfast.schema.prompt import PromptInput, TextFormat

if TYPE_CHECKING:
    from holdfast.protocol.sessions import PromptPayload

INSIDE = "prompt."
ASK_NOTHING: tuple[object, ...] = (False, "", {}, (), TextFormat())
"""Values that are the same as a missing field."""


def prompt_of(payload: PromptPayload) -> PromptInput:
    """The prompt in either shape. Raises InvalidRequest for none or for both."""
    beside = {name: value for name in PROMPT_FIELDS if (value := getattr(payload, name, None)) is not None}
    if payload.prompt is not None:
        if asking := [name for name, value in beside.items() if value not in ASK_NOTHING]:
            raise _both_shapes(asking)
        return payload.prompt
    if "text" not in beside:
        raise InvalidRequest(f'Missing key\n  at ["{"text" if beside else "prompt"}"]', kind="Payload")
    return PromptInput(**beside)


def in_shape(payload: PromptPayload, error: InvalidRequest) -> InvalidRequest:
    """The refusal of a prompt with the name of the field in the shape that the caller used."""
    return error if payload.prompt is not None else renamed(error)


def renamed(error: InvalidRequest, **names: str) -> InvalidRequest:
    """The refusal of a prompt whose fields the caller sent by themselves, some of them under another name."""
    if error.field is not None and error.field.startswith(INSIDE):
        field = error.field.removeprefix(INSIDE)
        error.field = names.get(field, field)
    return error


def _both_shapes(names: list[str]) -> InvalidRequest:
    wire = {field.name: field.encode_name for field in msgspec.structs.fields(PromptInput)}
    shown = ", ".join(f"`{wire[name]}`" for name in names)
    message = f"`prompt` and {shown}: a prompt has one of the two shapes, not both. The prompt was not admitted."
    return InvalidRequest(message, kind="Payload", field=wire[names[0]])
