"""An example of a JSON Schema's values, made from a text: what the offline model answers to a prompt with a format."""

from __future__ import annotations

from typing import Any

from holdfast.llm.tool_schema import lookup
from holdfast.schema.pattern import pattern

DEPTH = 16

_NUMBER = pattern(r"-?\d{1,15}")


def example_value(schema: dict[str, Any], text: str) -> Any:
    """A value that matches simple schemas. Strings are the text, numbers are the first one in it."""
    return _example(schema, schema, text, DEPTH)


def _example(root: dict[str, Any], schema: Any, text: str, depth: int) -> Any:
    if not isinstance(schema, dict) or depth == 0:
        return None
    if (named := lookup(root, schema.get("$ref"))) is not None:
        return _example(root, named, text, depth - 1)
    if "const" in schema:
        return schema["const"]
    for key in ("enum", "anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            first = schema[key][0]
            return first if key == "enum" else _example(root, first, text, depth - 1)
    kinds = schema.get("type")
    match kinds[0] if isinstance(kinds, list) and kinds else kinds:
        case "object":
            known = schema.get("properties")
            return {
                name: _example(root, item, text, depth - 1)
                for name, item in (known if isinstance(known, dict) else {}).items()
            }
        case "array":
            least = schema.get("minItems")
            count = least if isinstance(least, int) else 1
            return [_example(root, schema.get("items"), text, depth - 1) for _ in range(min(count, 10))]
        case "integer" | "number":
            found = _NUMBER.search(text)
            number = int(found[0]) if found else 0
            low, high = schema.get("minimum", number), schema.get("maximum", number)
            return max(low, min(high, number))
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return text[: int(schema.get("maxLength", len(text)))]
