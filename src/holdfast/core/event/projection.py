"""Projectors: from one decoded event to the statements that keep its projections. Pure: no clock, no reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.core.database.unit import Statement
from holdfast.schema.record import Record


class Projected(msgspec.Struct, frozen=True):
    """What a projector sees: the payload and the envelope's metadata. `:seq` is bound when the unit runs."""

    data: Any
    metadata: Mapping[str, Any] | None


Projector = Callable[[Projected], tuple[Statement, ...]]
Projectors = Mapping[type[Record], Projector]
