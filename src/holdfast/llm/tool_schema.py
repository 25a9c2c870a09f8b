"""JSON Schema dialects: what each provider accepts as a tool's parameters. Pure functions from schema to schema.

A property may be named like a keyword, and a default may look like a schema; only `_below` knows where schemas are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Schema = dict[str, Any]

DEPTH = 24
NODES = 5000

COMBINERS = ("anyOf", "oneOf", "allOf")
DEFINITIONS = ("$defs", "definitions")
MAPS = frozenset(("properties", "patternProperties", "dependentSchemas", *DEFINITIONS))
LISTS = frozenset((*COMBINERS, "prefixItems", "items"))
_CONDITIONS = ("not", "if", "then", "else")
SINGLE = frozenset(
    (
        *("items", "additionalItems", "unevaluatedItems", "contains"),
        *("additionalProperties", "unevaluatedProperties", "propertyNames"),
        *_CONDITIONS,
    )
)
_REFUSED_AT_THE_TOP = frozenset((*COMBINERS, "not", "enum"))
_GEMINI_KEYS = (
    *("description", "required", "format", "type", "nullable", "enum", "properties", "items"),
    *("allOf", "anyOf", "oneOf", "minLength"),
)
_SAYS_SOMETHING = frozenset(
    (
        *("type", "enum", "const", "$ref", "items", "prefixItems"),
        *("properties", "patternProperties", "additionalProperties", "required"),
        *_CONDITIONS,
        *COMBINERS,
    )
)
"""Keywords that constrain a value."""
KNOWN_SCHEMAS = 500


def _remembered(make: Callable[[Schema], Schema]) -> Callable[[Schema], Schema]:
    """The same, made once for each schema object: the tools of all Sessions share theirs. Neither a schema nor what was
    made of it is ever changed."""
    known: dict[int, tuple[Schema, Schema]] = {}

    def remembered(schema: Schema) -> Schema:
        found = known.get(id(schema))
        if found is None or found[0] is not schema:
            if len(known) >= KNOWN_SCHEMAS:
                known.clear()
            found = known[id(schema)] = (schema, make(schema))
        return found[1]

    return remembered


# -- OpenAI ------------------------------------------------------------------------------------------------------


@_remembered
def openai_schema(schema: Schema) -> Schema:
    """One object with properties, without null alternatives."""
    top = dict(object_schema(schema))
    top.setdefault("properties", {})
    return _without_null(top)


@_remembered
def object_schema(schema: Schema) -> Schema:
    """The top level as one object. Providers refuse a combination there, so its objects are merged: a property stays
    required only if all of them require it."""
    root = open_root(schema)
    top = {key: value for key, value in root.items() if key not in _REFUSED_AT_THE_TOP} | {"type": "object"}
    properties, required = dict(_dict(top.get("properties"))), _names(top)
    parts = [(key, _target(schema, item)) for key in COMBINERS for item in _list(root.get(key))]
    for key, part in parts:
        if not _is_object(part):
            continue
        for name, value in _dict(part.get("properties")).items():
            properties.setdefault(name, value)
        if key == "allOf":
            required += _names(part)
        else:
            top["additionalProperties"] = False
    if parts or not isinstance(top.get("properties", {}), dict):
        top["properties"] = properties
    if "required" in top or required:
        top["required"] = [name for name in dict.fromkeys(required) if name in properties] if parts else required
    return top


def _without_null(schema: Schema) -> Schema:
    node = _below(schema, _without_null)
    if not isinstance(node.get("anyOf"), list):
        return node
    kept = [item for item in node.pop("anyOf") if not _is_null(item)]
    if len(kept) == 1 and _is_object(kept[0]):
        properties = {**_dict(kept[0].get("properties")), **_dict(node.get("properties"))}
        return {**kept[0], **node, **({"properties": properties} if properties else {})}
    return {**node, "anyOf": kept} if kept else node


# -- Gemini ------------------------------------------------------------------------------------------------------


def gemini_schema(schema: Schema) -> Schema | None:
    """None if no parameters are left."""
    return _projected(gemini_sanitise(inline_refs(schema)))


def gemini_sanitise(schema: Schema) -> Schema:
    node = _below(schema, gemini_sanitise)
    combined = any(key in node for key in COMBINERS)
    if isinstance(node.get("enum"), list):
        node["enum"] = [_text(value) for value in node["enum"]]
        node |= {"type": _textual(node["type"])} if "type" in node else {}
    if isinstance(node.get("required"), list) and isinstance(node.get("properties"), dict):
        node["required"] = [name for name in _names(node) if name in node["properties"]]
    kinds = _kinds(node)
    if not combined and "array" in kinds:
        items = _single_items(node)
        node.pop("prefixItems", None)
        node["items"] = items if _SAYS_SOMETHING & set(items) else {**items, "type": "string"}
    if not combined and kinds and "object" not in kinds:
        node.pop("properties", None)
        node.pop("required", None)
    return node


def _projected(schema: Schema) -> Schema | None:
    node = dict(schema)
    _project_type(node)
    given = node["properties"] if isinstance(node.get("properties"), dict) else {}
    below = {name: _projected(value if isinstance(value, dict) else {}) for name, value in given.items()}
    node["properties"] = {name: value for name, value in below.items() if value is not None}
    node["required"] = [name for name in _names(node) if name in node["properties"]]
    items = node.pop("items", None)
    if isinstance(items, dict):
        node["items"] = _projected(items) or {"type": "object"}
    node = {key: value for key, value in node.items() if value or key not in ("required", "properties")}
    for key in COMBINERS:
        node = _project_alternatives(node, key)
    return None if _is_gone(schema, node) else {key: node[key] for key in _GEMINI_KEYS if key in node}


def _is_gone(schema: Schema, node: Schema) -> bool:
    """Whether this is an object without properties, or alternatives of such objects."""
    if "properties" in node or any(key in node for key in COMBINERS):
        return False
    if node.get("type") == "object":
        return node.get("additionalProperties", False) is False
    return "type" not in node and any(key in schema for key in COMBINERS)


def _project_type(node: Schema) -> None:
    """A single type; `enum` only for strings."""
    if isinstance(node.get("type"), list):
        kinds = [kind for kind in node["type"] if kind != "null"]
        if len(kinds) != len(node["type"]):
            node["nullable"] = True
        node["type"] = kinds[0] if kinds else "string"
    if "const" in node:
        node["enum"] = [_text(node["const"])]
    if isinstance(node.get("enum"), list):
        if node.get("type") == "boolean":
            del node["enum"]
        else:
            node["type"] = _textual(node.get("type", "string"))


def _project_alternatives(node: Schema, key: str) -> Schema:
    """A null alternative becomes `nullable`; a single remaining alternative replaces its parent."""
    if not isinstance(node.get(key), list):
        return node
    given = [item for item in node[key] if isinstance(item, dict)]
    kept = [item for item in given if not _is_null(item)]
    rest = {name: value for name, value in node.items() if name != key}
    projected = [item for item in map(_projected, kept) if item is not None]
    if len(kept) != len(given):
        rest["nullable"] = True
        if len(projected) == 1:
            merged = {**projected[0], **rest}
            _project_type(merged)  # the parent's type may differ from that of its values
            return merged
    return {**rest, key: projected} if projected else rest


# -- Moonshot ----------------------------------------------------------------------------------------------------


def moonshot_schema(schema: Schema) -> Schema:
    return _moonshot(open_root(schema))


def _moonshot(schema: Schema) -> Schema:
    if isinstance(schema.get("$ref"), str):
        return {"$ref": schema["$ref"]}
    node = _below(schema, _moonshot)
    node.pop("unevaluatedItems", None)
    if isinstance(node.get("items"), list) or "prefixItems" in node:
        node["items"] = _single_items(node)
        node.pop("prefixItems", None)
    return node


# -- common ------------------------------------------------------------------------------------------------------


def schema_of(kind: Any) -> Schema:
    """The JSON Schema of a type, without a root reference, title and unused definitions."""
    top = open_root(msgspec.json.schema(kind))
    named = top.pop("$defs", {})
    used: Schema = {}
    waiting = list(_references(top))
    while waiting:
        name = waiting.pop().removeprefix("#/$defs/")
        if name in named and name not in used:
            used[name] = named[name]
            waiting += _references(named[name])
    top.pop("title", None)
    return {**top, "$defs": used} if used else top


def open_root(schema: Schema) -> Schema:
    """Replaces a root that is only a reference by the definition."""
    return _target(schema, schema)


def inline_refs(schema: Schema) -> Schema:
    """Replaces local references by their targets. Recursive references, and those that would make the schema too large,
    become open objects."""
    left = NODES

    def walk(node: Schema, seen: tuple[str, ...]) -> Schema:
        nonlocal left
        left -= 1
        plain = {key: value for key, value in node.items() if key not in DEFINITIONS}
        name = plain.get("$ref")
        named = lookup(schema, name)
        if named is None:
            return _below(plain, lambda item: walk(item, seen))
        del plain["$ref"]
        if name in seen or len(seen) >= DEPTH or left <= 0:
            note = {key: plain[key] for key in ("description",) if key in plain}
            return {"type": "object", "additionalProperties": True, **note}
        return walk({**named, **plain}, (*seen, str(name)))

    return walk(schema, ())


def closed(schema: Schema) -> Schema:
    """Sets `additionalProperties: false` on every object that does not set it."""
    node = _below(schema, closed)
    return {"additionalProperties": False, **node} if _is_object(node) else node


def nullable_types(schema: Schema) -> Schema:
    """Writes `anyOf` of one simple type and null as a list of types, which no dialect removes."""
    node = _below(schema, nullable_types)
    given = _list(node.get("anyOf"))
    kept = [item for item in given if not _is_null(item)]
    simple = len(kept) == 1 and len(given) == 2 and isinstance(kept[0], dict) and "enum" not in kept[0]
    if not simple or kept[0].get("type") not in ("string", "number", "integer", "boolean"):
        return node
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    return {**kept[0], **rest, "type": [kept[0]["type"], "null"]}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    for item in _list(value):
        yield from _references(item)


def _below(schema: Schema, visit: Callable[[Schema], Schema]) -> Schema:
    """A copy of the node with `visit` applied to each schema directly below it, and to nothing else."""

    def one(value: Any) -> Any:
        return visit(value) if isinstance(value, dict) else value

    node = dict(schema)
    for key, value in schema.items():
        if key in MAPS and isinstance(value, dict):
            node[key] = {name: one(item) for name, item in value.items()}
        elif key in LISTS and isinstance(value, list):
            node[key] = [one(item) for item in value]
        elif key in SINGLE:
            node[key] = one(value)
    return node


def _target(root: Schema, node: Any) -> Schema:
    for _ in range(DEPTH):
        named = lookup(root, node.get("$ref")) if isinstance(node, dict) else None
        if named is None:
            break
        node = {**named, **{key: value for key, value in node.items() if key != "$ref"}}
    return node if isinstance(node, dict) else {}


def lookup(root: Schema, reference: Any) -> Schema | None:
    """The target of a local JSON pointer."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    node: Any = root
    for step in reference[1:].split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and name.isdecimal() and int(name) < len(node):
            node = node[int(name)]
        elif isinstance(node, dict) and name in node:
            node = node[name]
        else:
            return None
    return node if isinstance(node, dict) else None


def _single_items(node: Schema) -> Schema:
    """One schema for all items of an array, also for tuples."""
    items = node.get("items")
    if isinstance(items, dict):
        return items
    listed = [item for item in _list(items) or _list(node.get("prefixItems")) if isinstance(item, dict)]
    if len(listed) > 1:
        return {"anyOf": listed}
    return listed[0] if listed else {}


def _kinds(node: Schema) -> list[Any]:
    given = node.get("type")
    return given if isinstance(given, list) else [given] if given is not None else []


def _textual(kind: Any) -> Any:
    if isinstance(kind, list):
        return list(dict.fromkeys(_textual(item) for item in kind if isinstance(item, str)))
    return "string" if kind in ("integer", "number") else kind


def _is_object(schema: Any) -> bool:
    return isinstance(schema, dict) and ("object" in _kinds(schema) or "properties" in schema)


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _names(schema: Schema) -> list[str]:
    """The required properties."""
    return [name for name in _list(schema.get("required")) if isinstance(name, str)]


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)
