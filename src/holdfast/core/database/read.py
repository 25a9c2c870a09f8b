"""A read as data: reads that are handed over together cost one round trip (`Database.fetch_many`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    import msgspec

    from holdfast.core.database.unit import Value


class Read(Frozen):
    """A short indexed query by name; each row is a tuple, or a struct of type `into`."""

    name: str
    params: Mapping[str, Value]
    into: type[msgspec.Struct] | None = None
