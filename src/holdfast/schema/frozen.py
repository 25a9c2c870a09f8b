"""Data that stays inside the process, compared by value. Like a NamedTuple, but no tuple, and twenty times cheaper to
define: there are hundreds of them, and every start defines them anew."""

from __future__ import annotations

from typing import Any, Self, dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Frozen(msgspec.Struct, frozen=True):
    def replace(self, **changes: Any) -> Self:
        """The same with other values in these fields."""
        return msgspec.structs.replace(self, **changes)
