"""Checks that a caller's JSON Schema is one that answers can be validated against: well formed, complete in itself, of
bounded size. What would be ignored in silence is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.llm.bounded_pattern import PatternError, bounded_pattern
from holdfast.llm.tool_schema import DEFINITIONS, LISTS, MAPS, SINGLE, lookup
from holdfast.schema.codec import encode
from holdfast.schema.nesting import LEVELS, is_nested_deeper

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA_BYTES = 64 * 1024

TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_UNSUPPORTED = (
    *("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "dependencies"),
    *("unevaluatedProperties", "unevaluatedItems"),
)
_COUNTS = (
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("minContains", "maxContains"),
)
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
"""Keywords whose schemas apply to the same value, like `$ref`."""


class SchemaProblem(ValueError):
    """`place` is where, as a path from `$`."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place}: {why}")
        self.place = place


def check_schema(schema: dict[str, Any]) -> None:
    """Raises SchemaProblem for the first problem."""
    _check_size(schema)
    for place, node in _nodes(schema, root=schema):
        _check_node(schema, node, place)
    _check_cycles(schema)


def check_structure(schema: dict[str, Any]) -> None:
    """Whether the schema can be walked through: its size and depth, schemas in their places, references that lead to
    one of them and come to an end. Nothing is said about other keywords. Raises SchemaProblem for the first problem."""
    _check_size(schema)
    for place, node in _nodes(schema, root=schema):
        if "$ref" in node:
            _check_reference(schema, node["$ref"], f"{place}.$ref")
    _check_cycles(schema)


def _check_size(schema: dict[str, Any]) -> None:
    if is_nested_deeper(schema):
        raise SchemaProblem("$", f"the schema is nested more than {LEVELS} levels deep")
    size = len(encode(schema))
    if size > SCHEMA_BYTES:
        raise SchemaProblem("$", f"the schema has {size} bytes; at most {SCHEMA_BYTES} are allowed")


def _nodes(schema: dict[str, Any], *, root: dict[str, Any] | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside this one, once, with its place; with `root` also what references lead to. Raises
    SchemaProblem where something else is in the place of a schema."""
    waiting: list[tuple[str, Any]] = [("$", schema)]
    seen: set[int] = set()
    while waiting:
        place, node = waiting.pop()
        if isinstance(node, bool) or id(node) in seen:
            continue
        if not isinstance(node, dict):
            raise SchemaProblem(place, "a schema is an object, true or false")
        seen.add(id(node))
        yield place, node
        waiting += _below(node, place)
        if root is not None and (target := lookup(root, node.get("$ref"))) is not None:
            waiting.insert(0, (node["$ref"], target))


def _below(node: dict[str, Any], place: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in node.items():
        at = f"{place}.{key}"
        if key in MAPS:
            if not isinstance(value, dict):
                raise SchemaProblem(at, "it must be an object of schemas")
            found += [(f"{at}.{name}", item) for name, item in value.items()]
        elif key in LISTS and (isinstance(value, list) or key not in SINGLE):
            if not isinstance(value, list) or (not value and key != "items"):
                raise SchemaProblem(at, "it must be a list of schemas")
            found += [(f"{at}[{index}]", item) for index, item in enumerate(value)]
        elif key in SINGLE:
            found.append((at, value))
    return found


def _check_node(root: dict[str, Any], node: dict[str, Any], place: str) -> None:
    for key in _UNSUPPORTED:
        if key in node:
            raise SchemaProblem(f"{place}.{key}", "this keyword is not supported")
    if "$ref" in node:
        _check_reference(root, node["$ref"], f"{place}.$ref")
    if "type" in node:
        kinds = node["type"] if isinstance(node["type"], list) else [node["type"]]
        if not kinds or any(kind not in TYPES for kind in kinds):
            raise SchemaProblem(f"{place}.type", f"it must be one or several of {', '.join(TYPES)}")
    if "enum" in node and not (isinstance(node["enum"], list) and node["enum"]):
        raise SchemaProblem(f"{place}.enum", "it must be a list of at least one value")
    for key in _COUNTS:
        if key in node and not _is_count(node[key]):
            raise SchemaProblem(f"{place}.{key}", "it must be a number of at least 0")
    for key in _NUMBERS:
        if key in node and not (_is_number(node[key]) and (key != "multipleOf" or node[key] > 0)):
            raise SchemaProblem(f"{place}.{key}", "it must be a number" + (" above 0" if key == "multipleOf" else ""))
    if "required" in node and not _is_names(node["required"]):
        raise SchemaProblem(f"{place}.required", "it must be a list of names")
    needed = node.get("dependentRequired", {})
    if not isinstance(needed, dict) or not all(map(_is_names, needed.values())):
        raise SchemaProblem(f"{place}.dependentRequired", "it must be an object of lists of names")
    if "pattern" in node:
        _check_pattern(node["pattern"], f"{place}.pattern")
    patterns = node.get("patternProperties")
    for pattern in patterns if isinstance(patterns, dict) else ():  # anything else is refused as no object of schemas
        _check_pattern(pattern, f"{place}.patternProperties")


def _check_reference(root: dict[str, Any], reference: Any, place: str) -> None:
    if not isinstance(reference, str):
        raise SchemaProblem(place, "it must be a string")
    if not reference.startswith("#"):
        raise SchemaProblem(place, f"{reference[:200]!r} is outside of the schema; nothing is fetched")
    if lookup(root, reference) is None:
        raise SchemaProblem(place, f"{reference[:200]!r} leads nowhere in this schema; use a path such as #/$defs/name")


def _check_pattern(pattern: Any, place: str) -> None:
    if not isinstance(pattern, str):
        raise SchemaProblem(place, "it must be a string")
    try:
        bounded_pattern(pattern)
    except PatternError as error:
        raise SchemaProblem(place, f"the pattern cannot be used: {error}") from None


def _check_cycles(schema: dict[str, Any]) -> None:
    """A reference may lead back to itself only through a property or an item, so that values come to an end."""
    finished: set[int] = set()
    for place, start in _nodes(schema, root=schema):
        path: list[tuple[dict[str, Any], Iterator[dict[str, Any]]]] = []
        entered: set[int] = set()
        if id(start) not in finished:
            path.append((start, _in_place(schema, start)))
            entered.add(id(start))
        while path:
            node, following = path[-1]
            below = next(following, None)
            if below is None:
                path.pop()
                entered.discard(id(node))
                finished.add(id(node))
            elif id(below) in entered:
                raise SchemaProblem(place, "it refers to itself without end")
            elif id(below) not in finished:
                path.append((below, _in_place(schema, below)))
                entered.add(id(below))


def _in_place(root: dict[str, Any], node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schemas that apply to the same value."""
    if (named := lookup(root, node.get("$ref"))) is not None:
        yield named
    for key in _IN_PLACE:
        value = node.get(key)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                yield item
    for item in node.get("dependentSchemas", {}).values():
        if isinstance(item, dict):
            yield item


def is_recursive(schema: dict[str, Any]) -> bool:
    """Whether a reference leads back to a schema that contains it."""
    references = {reference for _, node in _nodes(schema) if isinstance(reference := node.get("$ref"), str)}
    reaches = {reference: _referred(schema, reference) for reference in references}
    return any(_leads_to(reaches, reference, reference) for reference in references)


def _referred(root: dict[str, Any], reference: str) -> set[str]:
    target = lookup(root, reference)
    if target is None:
        return set()
    own = target if target is not root else {key: value for key, value in root.items() if key not in DEFINITIONS}
    return {found for _, node in _nodes(own) if isinstance(found := node.get("$ref"), str)}


def _leads_to(reaches: dict[str, set[str]], start: str, wanted: str) -> bool:
    seen: set[str] = set()
    waiting = list(reaches[start])
    while waiting:
        reference = waiting.pop()
        if reference == wanted:
            return True
        if reference not in seen:
            seen.add(reference)
            waiting += reaches.get(reference, ())
    return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and (isinstance(value, int) or value.is_integer())


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
