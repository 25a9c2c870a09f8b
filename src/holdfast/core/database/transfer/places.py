"""Keys of rows as JSON text, to store how far a table was copied."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.core.database.unit import Value


def encode_key(key: tuple[Value, ...]) -> str:
    return json.dumps(key)


def decode_key(text: str) -> tuple[Value, ...]:
    return tuple(json.loads(text))
