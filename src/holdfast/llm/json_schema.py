"""Validates a value against a JSON Schema, for the keywords that tools and structured answers use. Other keywords are
ignored."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeGuard

from holdfast.llm.tool_schema import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPTH = 64
"""Longest chain of references; a schema that only refers to itself permits everything."""
STEPS = 200_000
"""Most steps of one validation: nested alternatives multiply. What is not checked by then counts as valid."""


def violation(schema: Any, value: Any) -> str | None:
    """The first violation with its path; None if the value is valid."""
    try:
        return next(_Check(schema).violations(schema, value, "$", 0), None)
    except RecursionError:
        return "$: is nested too deeply"


class _Check:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = STEPS

    def violations(self, schema: Any, value: Any, at: str, depth: int) -> Iterator[str]:
        self._left -= 1
        if self._left < 0:
            return
        if schema is False:
            yield f"{at}: nothing is allowed here"
        if not isinstance(schema, dict) or depth > DEPTH:
            return
        if (named := lookup(self._root, schema.get("$ref"))) is not None:
            yield from self.violations(named, value, at, depth + 1)
        yield from _of_value(schema, value, at)
        yield from self._combined(schema, value, at, depth + 1)
        match value:
            case dict():
                yield from self._of_object(schema, value, at)
            case list():
                yield from self._of_array(schema, value, at)

    def _combined(self, schema: dict[str, Any], value: Any, at: str, depth: int) -> Iterator[str]:
        for item in _list(schema.get("allOf")):
            yield from self.violations(item, value, at, depth)
        for key in ("anyOf", "oneOf"):
            if not (alternatives := _list(schema.get(key))):
                continue
            failures = [next(self.violations(item, value, at, depth), None) for item in alternatives]
            fitting = failures.count(None)
            if fitting == 0:
                yield f"{at}: fits none of {len(alternatives)} alternatives ({failures[0]})"
            elif fitting > 1 and key == "oneOf":
                yield f"{at}: fits {fitting} alternatives where only one is allowed"
        if "not" in schema and next(self.violations(schema["not"], value, at, depth), None) is None:
            yield f"{at}: is what it must not be"

    def _of_object(self, schema: dict[str, Any], value: dict[str, Any], at: str) -> Iterator[str]:
        for name in _list(schema.get("required")):
            if name not in value:
                yield f"{at}: {name!r} is missing"
        named = _dict(schema.get("properties"))
        patterns = _dict(schema.get("patternProperties"))
        for name, item in value.items():
            known = [named[name]] if name in named else []
            known += [below for pattern, below in patterns.items() if _matches(pattern, name)]
            if not known and "additionalProperties" in schema:
                if schema["additionalProperties"] is False:
                    yield f"{at}: {name!r} is not allowed"
                    continue
                known = [schema["additionalProperties"]]
            for below in known:
                yield from self.violations(below, item, f"{at}.{name}", 0)

    def _of_array(self, schema: dict[str, Any], value: list[Any], at: str) -> Iterator[str]:
        if _number(least := schema.get("minItems")) and len(value) < least:
            yield f"{at}: has {len(value)} items, fewer than {least}"
        if _number(most := schema.get("maxItems")) and len(value) > most:
            yield f"{at}: has {len(value)} items, more than {most}"
        items = schema.get("items")
        first = _list(items) or _list(schema.get("prefixItems"))
        rest = schema.get("additionalItems") if isinstance(items, list) else items
        for index, item in enumerate(value):
            yield from self.violations(first[index] if index < len(first) else rest, item, f"{at}[{index}]", 0)


def _of_value(schema: dict[str, Any], value: Any, at: str) -> Iterator[str]:
    kinds = schema.get("type")
    if kinds is not None and not any(_is(kind, value) for kind in (kinds if isinstance(kinds, list) else [kinds])):
        wanted = " or ".join(map(str, kinds)) if isinstance(kinds, list) else kinds
        yield f"{at}: expected {wanted}, got {_kind(value)}"
    if isinstance(schema.get("enum"), list) and not any(_same(value, item) for item in schema["enum"]):
        yield f"{at}: is none of the allowed values"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{at}: is not the only allowed value"
    if _number(value):
        yield from _of_number(schema, value, at)
    if isinstance(value, str):
        yield from _of_string(schema, value, at)


def _of_number(schema: dict[str, Any], value: float, at: str) -> Iterator[str]:
    if _number(least := schema.get("minimum")) and value < least:
        yield f"{at}: is less than {least}"
    if _number(most := schema.get("maximum")) and value > most:
        yield f"{at}: is more than {most}"
    if _number(least := schema.get("exclusiveMinimum")) and value <= least:
        yield f"{at}: is not more than {least}"
    if _number(most := schema.get("exclusiveMaximum")) and value >= most:
        yield f"{at}: is not less than {most}"


def _of_string(schema: dict[str, Any], value: str, at: str) -> Iterator[str]:
    if _number(least := schema.get("minLength")) and len(value) < least:
        yield f"{at}: is shorter than {least} characters"
    if _number(most := schema.get("maxLength")) and len(value) > most:
        yield f"{at}: is longer than {most} characters"
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not _matches(pattern, value):
        yield f"{at}: does not match {pattern}"


def _matches(pattern: str, text: str) -> bool:
    """A pattern that Python cannot compile matches everything."""
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return True


def _is(kind: Any, value: Any) -> bool:
    match kind:
        case "integer":
            return _number(value) and float(value).is_integer()
        case "number":
            return _number(value)
        case _:
            return bool(kind == _kind(value))


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), type(value).__name__)


def _same(one: Any, other: Any) -> bool:
    """Equality of JSON values: true differs from 1, but 1 equals 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other)


def _number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
