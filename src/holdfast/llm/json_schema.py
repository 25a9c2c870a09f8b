"""Validates a value against a JSON Schema, for the keywords that tools and structured answers use. Other keywords are
ignored (`schema_check.py` refuses those that would matter). Time and depth are bounded."""

from __future__ import annotations

from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec

from holdfast.llm.bounded_pattern import MatchTooLong, PatternError, Steps, bounded_pattern
from holdfast.llm.tool_schema import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPTH = 64
"""Longest chain of references; a schema that only refers to itself permits everything."""
STEPS = 100_000
"""Most steps of one validation: nested alternatives multiply."""
PATTERN_STEPS = 200_000
"""Most steps of all patterns of one validation."""
TOO_LONG = "$: takes too long to validate"
PER_STEP = 10
"""Comparisons with a list of the schema that count as one step."""
_COMBINED = frozenset(("allOf", "anyOf", "oneOf", "not", "if"))
_OF_NUMBERS = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
_SORTED = msgspec.json.Encoder(order="sorted")


def violation(schema: Any, value: Any) -> str | None:
    """The first violation with its path; None if the value is valid. What is not checked after `STEPS` counts as
    valid."""
    found = violations(schema, value, most=1)
    return found[0] if found and found[0] != TOO_LONG else None


def violations(schema: Any, value: Any, *, root: Any = None, most: int = 5) -> list[str]:
    """The first violations with their paths; none if the value is valid. A value that takes too long to validate is
    not valid. References are looked up in `root`, by default the schema itself."""
    check = _Check(schema if root is None else root)
    # What is found after validation was cut off may be wrong: a pattern that is not tried counts as a match.
    certain = takewhile(lambda _: not check.is_cut_off, check.violations(schema, value, "$", 0))
    try:
        found = list(islice(certain, most))
    except RecursionError:
        return ["$: is nested too deeply"]
    return found or ([TOO_LONG] if check.is_cut_off else [])


class _Check:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = STEPS
        self._pattern_steps = Steps(PATTERN_STEPS)

    @property
    def is_cut_off(self) -> bool:
        """Whether something was not checked because it would have taken too long."""
        return self._left < 0 or self._pattern_steps.left < 0

    def violations(self, schema: Any, value: Any, at: str, depth: int) -> Iterator[str]:
        self._left -= 1
        if self._left < 0:
            return
        if schema is False:
            yield f"{at}: nothing is allowed here"
        if not isinstance(schema, dict) or depth > DEPTH:
            return
        self._left -= (len(_list(schema.get("enum"))) + len(_list(schema.get("required")))) // PER_STEP
        if (named := lookup(self._root, schema.get("$ref"))) is not None:
            yield from self.violations(named, value, at, depth + 1)
        yield from self._of_value(schema, value, at)
        if not _COMBINED.isdisjoint(schema):
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
        if "if" in schema:
            holds = next(self.violations(schema["if"], value, at, depth), None) is None
            yield from self.violations(schema.get("then" if holds else "else"), value, at, depth)

    def _of_object(self, schema: dict[str, Any], value: dict[str, Any], at: str) -> Iterator[str]:
        for name in _list(schema.get("required")):
            if name not in value:
                yield f"{at}: {name!r} is missing"
        if _number(least := schema.get("minProperties")) and len(value) < least:
            yield f"{at}: has {len(value)} properties, fewer than {least}"
        if _number(most := schema.get("maxProperties")) and len(value) > most:
            yield f"{at}: has {len(value)} properties, more than {most}"
        for name, needed in _dict(schema.get("dependentRequired")).items():
            for other in _list(needed) if name in value else ():
                if other not in value:
                    yield f"{at}: {other!r} is missing, which {name!r} needs"
        for name, below in _dict(schema.get("dependentSchemas")).items():
            if name in value:
                yield from self.violations(below, value, at, 1)
        named = _dict(schema.get("properties"))
        patterns = _dict(schema.get("patternProperties"))
        for name, item in value.items():
            known = [named[name]] if name in named else []
            known += [below for pattern, below in patterns.items() if self._matches(pattern, name)]
            if "propertyNames" in schema:
                yield from self.violations(schema["propertyNames"], name, f"{at}: the name {name!r}", 0)
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
        if schema.get("uniqueItems") is True and not _all_differ(value):
            yield f"{at}: has the same item twice"
        yield from self._of_contained(schema, value, at)
        items = schema.get("items")
        first = _list(items) or _list(schema.get("prefixItems"))
        rest = schema.get("additionalItems") if isinstance(items, list) else items
        for index, item in enumerate(value):
            yield from self.violations(first[index] if index < len(first) else rest, item, f"{at}[{index}]", 0)

    def _of_contained(self, schema: dict[str, Any], value: list[Any], at: str) -> Iterator[str]:
        if "contains" not in schema:
            return
        fitting = sum(next(self.violations(schema["contains"], item, at, 0), None) is None for item in value)
        least, most = schema.get("minContains", 1), schema.get("maxContains")
        if _number(least) and fitting < least:
            yield f"{at}: {fitting} items are of the kind of which there must be at least {least}"
        if _number(most) and fitting > most:
            yield f"{at}: {fitting} items are of the kind of which there may be at most {most}"

    def _of_value(self, schema: dict[str, Any], value: Any, at: str) -> Iterator[str]:
        kinds = schema.get("type")
        if kinds is not None and not any(_is(kind, value) for kind in (kinds if isinstance(kinds, list) else [kinds])):
            wanted = " or ".join(map(str, kinds)) if isinstance(kinds, list) else kinds
            yield f"{at}: expected {wanted}, got {_kind(value)}"
        if isinstance(schema.get("enum"), list) and not any(_same(value, item) for item in schema["enum"]):
            yield f"{at}: is none of the allowed values"
        if "const" in schema and not _same(value, schema["const"]):
            yield f"{at}: is not the only allowed value"
        if _number(value) and not _OF_NUMBERS.isdisjoint(schema):
            yield from _of_number(schema, value, at)
        if isinstance(value, str):
            yield from _of_string(schema, value, at)
            pattern = schema.get("pattern")
            if isinstance(pattern, str) and not self._matches(pattern, value):
                yield f"{at}: does not match {pattern}"

    def _matches(self, pattern: str, text: str) -> bool:
        """A pattern that is not supported matches everything."""
        try:
            return bounded_pattern(pattern).search(text, self._pattern_steps)
        except (PatternError, MatchTooLong):
            return True


def _of_number(schema: dict[str, Any], value: float, at: str) -> Iterator[str]:
    if _number(least := schema.get("minimum")) and value < least:
        yield f"{at}: is less than {least}"
    if _number(most := schema.get("maximum")) and value > most:
        yield f"{at}: is more than {most}"
    if _number(least := schema.get("exclusiveMinimum")) and value <= least:
        yield f"{at}: is not more than {least}"
    if _number(most := schema.get("exclusiveMaximum")) and value >= most:
        yield f"{at}: is not less than {most}"
    if _number(step := schema.get("multipleOf")) and step > 0 and not _is_multiple(value, step):
        yield f"{at}: is not a multiple of {step}"


def _of_string(schema: dict[str, Any], value: str, at: str) -> Iterator[str]:
    if _number(least := schema.get("minLength")) and len(value) < least:
        yield f"{at}: is shorter than {least} characters"
    if _number(most := schema.get("maxLength")) and len(value) > most:
        yield f"{at}: is longer than {most} characters"


def _is_multiple(value: float, step: float) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    try:
        quotient = value / step
        return abs(quotient - round(quotient)) <= 1e-9 * max(1.0, abs(quotient))
    except (ArithmeticError, ValueError):  # beyond the range of a float
        return True


def _all_differ(values: list[Any]) -> bool:
    return len({_SORTED.encode(_canonical(item)) for item in values}) == len(values)


def _canonical(value: Any) -> Any:
    """The same for equal JSON values: 1.0 is 1."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_canonical(item) for item in value]
        case dict():
            return {name: _canonical(item) for name, item in value.items()}
        case _:
            return value


def _is(kind: Any, value: Any) -> bool:
    match kind:
        case "integer":
            return _number(value) and (isinstance(value, int) or value.is_integer())
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
