"""JSON Schema dialects: what each provider accepts as a tool's parameters. Pure functions from schema to schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

_COMBINERS = ("anyOf", "oneOf", "allOf")
_GEMINI_KEYS = (
    *("description", "required", "format", "type", "nullable", "enum", "properties", "items"),
    *("allOf", "anyOf", "oneOf", "minLength"),
)


def openai_schema(schema: Schema) -> Schema:
    """The top level is one object; alternatives of objects are merged; null alternatives go."""
    top = {**schema, "type": "object"}
    variants = [item for item in top.get("anyOf", ()) if isinstance(item, Mapping) and _is_object(item)]
    if variants:
        del top["anyOf"]
        properties: Schema = {}
        for variant in reversed(variants):
            properties |= variant.get("properties", {})
        top["properties"] = {**properties, **schema.get("properties", {})}
        top["additionalProperties"] = False
        if "required" in top:
            top["required"] = [name for name in top["required"] if name in top["properties"]]
    projected: Schema = _without_null(top)
    return projected


def gemini_schema(schema: Schema) -> Schema | None:
    """None when nothing is left: a tool without parameters has none."""
    inlined = inline_refs(schema)
    projected: Schema | None = _gemini_project(gemini_sanitise(inlined))
    return projected


def gemini_sanitise(schema: Any) -> Any:
    if isinstance(schema, list):
        return [gemini_sanitise(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    node = {key: value if key == "enum" else gemini_sanitise(value) for key, value in schema.items()}
    if isinstance(node.get("properties"), dict):
        node["properties"] = {key: gemini_sanitise(value) for key, value in schema["properties"].items()}
    if isinstance(node.get("enum"), list):
        node["enum"] = [value if isinstance(value, str) else _text(value) for value in node["enum"]]
        if node.get("type") in ("integer", "number"):
            node["type"] = "string"
    if isinstance(node.get("required"), list) and isinstance(node.get("properties"), dict):
        node["required"] = [name for name in node["required"] if name in node["properties"]]
    combined = any(key in node for key in _COMBINERS)
    if not combined and node.get("type") == "array":
        items = node.get("items")
        node["items"] = items if isinstance(items, dict) and items else {"type": "string"}
    if not combined and node.get("type") not in (None, "object"):
        node.pop("properties", None)
        node.pop("required", None)
    return node


def moonshot_schema(schema: Any) -> Any:
    if isinstance(schema, list):
        return [moonshot_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    node = {key: moonshot_schema(value) for key, value in schema.items() if key != "unevaluatedItems"}
    prefix = node.pop("prefixItems", None)
    items = node.get("items")
    listed = items if isinstance(items, list) else prefix if items is None else None
    if isinstance(listed, list):
        node["items"] = {} if not listed else listed[0] if len(listed) == 1 else {"anyOf": listed}
    return node


def inline_refs(schema: Schema, depth: int = 24) -> Schema:
    """Local references replaced by what they name; a recursive one ends in an open object."""
    definitions = {
        f"#/{key}/{name}": value for key in ("$defs", "definitions") for name, value in schema.get(key, {}).items()
    }

    def walk(node: Any, seen: tuple[str, ...]) -> Any:
        if isinstance(node, list):
            return [walk(item, seen) for item in node]
        if not isinstance(node, dict):
            return node
        reference = node.get("$ref")
        if isinstance(reference, str) and reference in definitions:
            if reference in seen or len(seen) >= depth:
                return {"type": "object"}
            rest = {key: value for key, value in node.items() if key != "$ref"}
            return walk({**definitions[reference], **rest}, (*seen, reference))
        return {key: walk(value, seen) for key, value in node.items() if key not in ("$defs", "definitions")}

    return walk(schema, ())  # type: ignore[no-any-return]


def _gemini_project(schema: Any) -> Any:
    node = dict(schema)
    if "const" in node:
        node["enum"] = [node["const"] if isinstance(node["const"], str) else _text(node["const"])]
    if isinstance(node.get("type"), list):
        kinds = [kind for kind in node["type"] if kind != "null"]
        if "null" in node["type"]:
            node["nullable"] = True
        node["type"] = kinds[0] if kinds else "string"
    if isinstance(node.get("properties"), dict):
        projected = {
            name: _gemini_project(value) for name, value in node["properties"].items() if isinstance(value, dict)
        }
        node["properties"] = {name: value for name, value in projected.items() if value is not None}
        if isinstance(node.get("required"), list):
            node["required"] = [name for name in node["required"] if name in node["properties"]]
            if not node["required"]:
                del node["required"]
    if node.get("type") == "object" and not node.get("properties") and not node.get("additionalProperties"):
        return None
    if isinstance(node.get("items"), dict):
        node["items"] = _gemini_project(node["items"]) or {"type": "object"}
    for key in _COMBINERS:
        if isinstance(node.get(key), list):
            node[key] = [item for item in (_gemini_project(value) for value in node[key]) if item is not None]
    return {key: node[key] for key in _GEMINI_KEYS if key in node}


def _without_null(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_null(item) for item in node]
    if not isinstance(node, dict):
        return node
    out = {key: _without_null(value) for key, value in node.items()}
    variants = out.get("anyOf")
    if isinstance(variants, list):
        kept = [item for item in variants if not (isinstance(item, dict) and item.get("type") == "null")]
        if len(kept) == 1 and isinstance(kept[0], dict) and _is_object(kept[0]) and len(kept) != len(variants):
            del out["anyOf"]
            return {**kept[0], **out}
        out["anyOf"] = kept
    return out


def _is_object(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object" or "properties" in schema


def _text(value: Any) -> str:
    if value is True or value is False:
        return str(value).lower()
    return "null" if value is None else str(value)
