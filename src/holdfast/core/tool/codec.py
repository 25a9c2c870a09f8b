"""How a tool's types meet JSON: a schema for the model, strict decoding of what it sent, validated encoding of what
came out. Structs, dataclasses, TypedDicts and anything else that msgspec knows; pydantic models; plain JSON Schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.llm.json_schema import violation
from holdfast.llm.tool_schema import open_root, schema_of
from holdfast.schema.codec import encode
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable

NULL_HINT = "null is not allowed here; leave an optional key out instead"


class Mismatch(ValueError):
    """A value that does not fit, and where."""


class Unencodable(Mismatch):
    """A value that has no JSON form at all."""


class JsonSchema(Frozen, eq=False):
    """In place of a type, for tools that come with a schema of their own. Their values stay plain JSON."""

    schema: dict[str, Any]


class Codec(Frozen):
    schema: dict[str, Any]
    decode: Callable[[Any], Any]
    """From JSON to the type; raises `Mismatch`."""
    encode: Callable[[Any], Any]
    """From what an executor returned to JSON that fits the type; raises `Mismatch`."""


def codec_of(kind: Any) -> Codec:
    """Raises TypeError for a type that JSON cannot describe."""
    if isinstance(kind, JsonSchema):
        return _of_schema(kind.schema)
    if isinstance(kind, type) and hasattr(kind, "model_validate_json"):
        return _of_pydantic(kind)
    return _of_type(kind)


def plain(value: Any) -> Any:
    """The value as JSON has it; raises `Unencodable`."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_foreign)
    except (TypeError, ValueError, RecursionError) as error:
        raise Unencodable(str(error)) from error


def _of_type(kind: Any) -> Codec:
    schema = schema_of(kind)

    def decode(value: Any) -> Any:
        try:
            return msgspec.convert(value, kind, strict=True, str_keys=True)
        except msgspec.ValidationError as error:
            raise Mismatch(_hinted(str(error), null="got `null`" in str(error))) from error

    # A constructor of msgspec checks nothing, so what an executor returned is read back before it is believed.
    return Codec(schema, decode, lambda value: plain(decode(plain(value))))


def _of_schema(schema: dict[str, Any]) -> Codec:
    def decode(value: Any) -> Any:
        if (wrong := violation(schema, value)) is not None:
            raise Mismatch(_hinted(wrong, null=wrong.endswith("got null")))
        return value

    return Codec(schema, decode, lambda value: decode(plain(value)))


def _of_pydantic(kind: Any) -> Codec:
    schema = open_root(kind.model_json_schema())
    schema.pop("title", None)

    def decode(value: Any) -> Any:
        try:
            return kind.model_validate_json(encode(value), strict=True)
        except ValueError as error:
            raise Mismatch(_pydantic_message(error)) from error

    def to_json(value: Any) -> Any:
        return plain(value if isinstance(value, kind) else decode(plain(value)))

    return Codec(schema, decode, to_json)


def _pydantic_message(error: Any) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    return _hinted(f"{first['msg']} - at `${place}`", null=first["input"] is None)


def _hinted(message: str, *, null: bool) -> str:
    return f"{message} ({NULL_HINT})" if null else message


def _foreign(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"objects of type {type(value).__name__} have no JSON form")
