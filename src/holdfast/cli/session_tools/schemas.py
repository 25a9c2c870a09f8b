"""JSON Schemas of arguments and results, each whole in itself and as short as possible: a model reads them."""

from __future__ import annotations

from typing import Any

import msgspec

REFERENCE = "#/$defs/"
NULL = {"type": "null"}


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """An object schema; what it refers to is among its own `$defs`."""
    _, components = msgspec.json.schema_components((kind,), ref_template=REFERENCE + "{name}")
    short = {name: _without_null(component) for name, component in components.items()}
    own = short.pop(kind.__name__)
    return {**own, "$defs": short} if short else own


def _without_null(component: dict[str, Any]) -> dict[str, Any]:
    """A field that may be missing need not be null. Titles repeat the names of classes."""
    fields = {name: _field(schema) for name, schema in component.get("properties", {}).items()}
    return {**{key: value for key, value in component.items() if key != "title"}, "properties": fields}


def _field(schema: dict[str, Any]) -> dict[str, Any]:
    choices = [choice for choice in schema.get("anyOf", ()) if choice != NULL]
    if schema.get("default", schema) is None and len(choices) == 1:
        return dict(choices[0])
    return schema
