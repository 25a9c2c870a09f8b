"""The base of public records: immutable, keyword-only, with OpenCode's camelCase names on the wire."""

from __future__ import annotations

from functools import cache
from typing import Any, dataclass_transform

import msgspec


@cache  # records have 1,500 fields with 300 names
def wire_name(attribute: str) -> str:
    """`assistant_message_id` -> `assistantMessageID`: camelCase, except that OpenCode writes `ID` in capitals."""
    first, *rest = attribute.split("_")
    return first + "".join("ID" if word == "id" else word.capitalize() for word in rest)


class RecordMeta(msgspec.StructMeta):
    """Makes every record keyword-only, which msgspec does not inherit, so that fields can keep the order of the
    wire."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> RecordMeta:
        options.setdefault("kw_only", True)
        return super().__new__(mcs, name, bases, namespace, **options)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Record(msgspec.Struct, metaclass=RecordMeta, frozen=True, rename=wire_name, omit_defaults=True):
    """Fields only, compared by value. A field that equals its default is omitted from the encoding, so only fields that
    are optional on the wire may have a default."""
