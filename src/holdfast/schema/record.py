"""The base of every public record: frozen, keyword-only, wire names in OpenCode's camelCase."""

from __future__ import annotations

from typing import Any, dataclass_transform

import msgspec


def wire_name(attribute: str) -> str:
    """`assistant_message_id` -> `assistantMessageID`: camelCase, except that OpenCode writes `ID` in capitals."""
    first, *rest = attribute.split("_")
    return first + "".join("ID" if word == "id" else word.capitalize() for word in rest)


class RecordMeta(msgspec.StructMeta):
    """msgspec does not inherit `kw_only`; records want it everywhere, so that field order follows the wire."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> RecordMeta:
        options.setdefault("kw_only", True)
        return super().__new__(mcs, name, bases, namespace, **options)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Record(msgspec.Struct, metaclass=RecordMeta, frozen=True, rename=wire_name, omit_defaults=True):
    """Fields only, compared by value. A field with a default is left out of the encoding while it has that default,
    so only fields that the wire treats as optional may have one."""
