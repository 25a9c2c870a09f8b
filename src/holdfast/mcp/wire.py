"""Base of the records of the protocol. They say nothing about direction: a client and a server use the same ones."""

from __future__ import annotations

from typing import Any, TypeAlias, dataclass_transform

import msgspec

Json: TypeAlias = dict[str, Any]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Fields that are unknown are ignored; those that have their default are not sent."""


def meta_field() -> Any:
    """The field `_meta` of a record."""
    return msgspec.field(name="_meta", default=None)
