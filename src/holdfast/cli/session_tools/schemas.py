"""JSON Schemas of arguments and results, each whole in itself."""

from __future__ import annotations

from typing import Any

import msgspec

REFERENCE = "#/$defs/"


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """An object schema; what it refers to is among its own `$defs`."""
    (_,), components = msgspec.json.schema_components((kind,), ref_template=REFERENCE + "{name}")
    own = components.pop(kind.__name__)
    own.pop("title", None)
    return {**own, "$defs": components} if components else own
