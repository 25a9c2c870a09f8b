"""Maps rows to structs: a column to the field of its name.

A field of type `bool` takes an integer, and a field whose type is a struct or a tuple takes JSON text. Any other value
is used as it is: the types of the columns are those of the schema."""

from __future__ import annotations

from functools import partial
from itertools import starmap
from operator import itemgetter
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin

import msgspec

from holdfast.schema.codec import decoder
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.core.database.unit import Row

T = TypeVar("T", bound="msgspec.Struct")

_COLUMN_TYPES = {name + optional for name in ("str", "int", "float", "bytes") for optional in ("", " | None")}
"""Annotations, as text, of fields that take a column as it is."""


def row_mapper(kind: type[T], columns: Sequence[str]) -> Callable[[Iterable[Row]], list[T]]:
    """Raises TypeError when the columns are not exactly the fields of the struct."""
    names = kind.__struct_fields__
    if sorted(names) != sorted(columns):
        raise TypeError(f"{kind.__name__} has the fields {list(names)}, the rows have the columns {list(columns)}")
    order = [list(columns).index(name) for name in names]
    pick = None if order == sorted(order) else itemgetter(*order)
    conversions = _conversions(kind)
    keywords = names if issubclass(kind, Record) else None

    def build(row: Row) -> T:
        values: list[Any] = list(row if pick is None else pick(row))
        for place, convert in conversions:
            if values[place] is not None:
                values[place] = convert(values[place])
        return kind(*values) if keywords is None else kind(**dict(zip(keywords, values, strict=True)))

    if pick is None and not conversions and keywords is None:
        return lambda rows: list(starmap(kind, rows))
    return lambda rows: list(map(build, rows))


def _conversions(kind: type[msgspec.Struct]) -> list[tuple[int, Callable[[Any], Any]]]:
    """Evaluating annotations takes longer than a query, so that is left out where all are names of column types."""
    declared = [vars(part).get("__annotations__", {}).values() for part in kind.__mro__]
    if all(annotation in _COLUMN_TYPES for annotations in declared for annotation in annotations):
        return []
    fields = msgspec.structs.fields(kind)
    return [(place, found) for place, field in enumerate(fields) if (found := _conversion(field.type))]


def _conversion(type: Any) -> Callable[[Any], Any] | None:
    alternatives = get_args(type) if get_origin(type) in (Union, UnionType) else (type,)
    kinds = [kind for kind in alternatives if kind is not NoneType]
    if kinds == [bool]:
        return bool
    if len(kinds) == 1 and (isinstance(kinds[0], msgspec.StructMeta) or get_origin(kinds[0]) is tuple):
        return partial(_decoded, kinds[0])
    return None


def _decoded(kind: Any, text: str) -> Any:
    return decoder(kind).decode(text)
