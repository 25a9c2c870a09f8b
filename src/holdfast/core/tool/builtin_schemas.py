"""The JSON Schemas of the built-in tools' types. They are made beforehand, because making them takes several
milliseconds of each start: `make generate` writes the file, and `make check` compares it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from holdfast.schema.codec import decode_any

FILE = Path(__file__).with_suffix(".json")
PACKAGE = "holdfast.core.tool.builtin."


def builtin_schema(kind: type) -> dict[str, Any] | None:
    """The schema of this type, if it belongs to a built-in tool and was written before."""
    name = name_of(kind)
    return _stored().get(name) if name.startswith(PACKAGE) else None


def name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


@cache
def _stored() -> dict[str, Any]:
    stored: dict[str, Any] = decode_any(FILE.read_bytes())
    return stored
