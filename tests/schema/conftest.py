"""Examples of records, derived from their declared types: every field, every alternative, and only what is required."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect


def examples(kind: Any) -> Iterator[Any]:
    """Wire values of a type: for each struct the bare one, the full one, and one for each further alternative."""
    yield from _examples(inspect.type_info(kind))


def _examples(kind: inspect.Type) -> Iterator[Any]:
    match kind:
        case inspect.StrType():
            yield f"{(kind.pattern or '').removeprefix('^')}1"
        case inspect.Metadata():
            yield from _examples(kind.type)
        case inspect.IntType():
            yield 7
        case inspect.FloatType():
            yield 0.5
        case inspect.BoolType():
            yield from (True, False)
        case inspect.LiteralType():
            yield from kind.values
        case inspect.AnyType() | inspect.RawType():
            yield "anything"
        case inspect.DictType():
            yield {"key": next(_examples(kind.value_type))}
        case inspect.VarTupleType() | inspect.ListType():
            yield list(_examples(kind.item_type))
        case inspect.UnionType():
            for member in kind.types:
                if not isinstance(member, inspect.NoneType):
                    yield from _examples(member)
        case inspect.StructType():
            yield from _structs(kind)
        case _:
            raise TypeError(f"no example for {kind}")


def _structs(kind: inspect.StructType) -> Iterator[dict[str, Any]]:
    tag = {kind.tag_field: kind.tag} if kind.tag_field is not None else {}
    values = {field.encode_name: list(_examples(field.type)) for field in kind.fields}
    required = {field.encode_name for field in kind.fields if field.required}
    full = {**tag, **{name: found[0] for name, found in values.items()}}
    yield full
    yield {**tag, **{name: found[0] for name, found in values.items() if name in required}}
    for name, found in values.items():
        yield from ({**full, name: other} for other in found[1:])


def field_names(kind: type[msgspec.Struct]) -> tuple[str | int | None, set[str], set[str]]:
    """A record's tag, its required and its optional fields, by their names on the wire."""
    fields = msgspec.structs.fields(kind)
    required = {field.encode_name for field in fields if field.required}
    return kind.__struct_config__.tag, required, {field.encode_name for field in fields} - required
