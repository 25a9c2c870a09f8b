"""Converts between a tool's types and JSON: a schema for the model, strict decoding of the input, validated encoding of
the output. Supports every type msgspec supports, pydantic models and bare JSON Schemas."""

from __future__ import annotations

from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.tool.builtin_schemas import builtin_schema
from holdfast.core.tool.pydantic_types import uses_pydantic
from holdfast.llm.tool_schema import open_root, schema_of
from holdfast.schema.codec import encode
from holdfast.schema.deferred import deferred
from holdfast.schema.frozen import Frozen
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.llm import json_schema
else:
    json_schema = deferred("holdfast.llm.json_schema")

NULL_HINT = "null is not allowed here; leave an optional key out instead"


class SchemaMismatch(ValueError):
    """A value does not match its schema; the message says where."""


class NotJson(SchemaMismatch):
    """A value cannot be represented as JSON."""


class JsonSchema(Frozen, eq=False):
    """A JSON Schema in place of a Python type. Values stay JSON values: dict, list, str, numbers."""

    schema: dict[str, Any]


class JsonCodec:
    def __init__(
        self, schema: Callable[[], dict[str, Any]], decode: Callable[[Any], Any], encode: Callable[[Any], Any]
    ) -> None:
        self._schema = schema
        self.decode = decode
        """Converts a JSON value to the type; raises `SchemaMismatch`."""
        self.encode = encode
        """Converts an executor's return value to JSON that fits the schema; raises `SchemaMismatch`."""

    @cached_property
    def schema(self) -> dict[str, Any]:
        """Made on first use: half of the built-in tools' types are not shown to anybody."""
        return self._schema()


def codec_of(kind: Any) -> JsonCodec:
    """Raises TypeError for a type that has no JSON Schema."""
    if isinstance(kind, JsonSchema):
        return _of_schema(kind.schema)
    if uses_pydantic(kind):
        return _of_pydantic(kind)
    return _of_class(kind) if isinstance(kind, type) else _of_type(kind)


def json_value(value: Any) -> Any:
    """Convert to dict, list, str, int, float, bool or None; raises `NotJson`."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_pydantic)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(str(error)) from error


@lru_cache(256)
def _of_class(kind: type) -> JsonCodec:
    """Kept: every Location registers the built-in tools, and their schemas took two thirds of its opening."""
    return _of_type(kind)


def _of_type(kind: Any) -> JsonCodec:
    """Makes the schema now, to know that there is one, unless the type is a record of ours, or of a built-in tool."""
    known = builtin_schema(kind) if isinstance(kind, type) else None
    if known is not None:
        schema = _constant(known)
    elif isinstance(kind, type) and issubclass(kind, Record):
        schema = partial(schema_of, kind)
    else:
        schema = _constant(schema_of(kind))

    def decode(value: Any) -> Any:
        try:
            return msgspec.convert(value, kind, strict=True, str_keys=True)
        except msgspec.ValidationError as error:
            raise SchemaMismatch(_hinted(str(error), null="got `null`" in str(error))) from error

    # msgspec constructors do not validate, so the return value is decoded again to check it.
    return JsonCodec(schema, decode, lambda value: json_value(decode(json_value(value))))


def _of_schema(schema: dict[str, Any]) -> JsonCodec:
    def decode(value: Any) -> Any:
        if (wrong := json_schema.violation(schema, value)) is not None:
            raise SchemaMismatch(_hinted(wrong, null=wrong.endswith("got null")))
        return value

    return JsonCodec(_constant(schema), decode, lambda value: decode(json_value(value)))


def _of_pydantic(kind: Any) -> JsonCodec:
    from pydantic import TypeAdapter

    adapter: Any = TypeAdapter(kind)
    schema = open_root(adapter.json_schema())
    schema.pop("title", None)

    def decode(value: Any) -> Any:
        try:
            return adapter.validate_json(encode(value), strict=True)
        except ValueError as error:
            raise SchemaMismatch(_pydantic_message(error)) from error

    def to_json(value: Any) -> Any:
        checked = isinstance(kind, type) and isinstance(value, kind)
        return json_value(value if checked else decode(json_value(value)))

    return JsonCodec(_constant(schema), decode, to_json)


def _constant(schema: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    return lambda: schema


def _pydantic_message(error: Any) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    return _hinted(f"{first['msg']} - at `${path}`", null=first["input"] is None)


def _hinted(message: str, *, null: bool) -> str:
    return f"{message} ({NULL_HINT})" if null else message


def _encode_pydantic(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"objects of type {type(value).__name__} have no JSON form")
