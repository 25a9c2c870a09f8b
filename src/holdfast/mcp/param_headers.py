"""HTTP headers that repeat parts of a request since 2026-07-28: proxies can route it without reading the body."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
ANNOTATION = "x-mcp-header"
POSITIONS = 10_000
"""Of subschemas that are looked at for annotations."""
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}")
_PLAIN = re.compile(r"[\x20-\x7e]*")
_ENCODED = re.compile(r"=\?base64\?.*\?=")
_SINGLE = frozenset(
    (
        *("items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties"),
        *("not", "if", "then", "else", "contentSchema"),
    )
)
_LISTS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_MAPS = frozenset(("patternProperties", "dependentSchemas", "$defs", "definitions"))


class InvalidAnnotation(ValueError):
    """A tool whose schema is annotated wrongly must not be used over HTTP."""


class ParamHeader(msgspec.Struct, frozen=True):
    """The argument at `path` is repeated in the header `name`."""

    path: tuple[str, ...]
    name: str


def routing_headers(
    version: str, method: str, params: Mapping[str, Any], annotated: tuple[ParamHeader, ...] = ()
) -> dict[str, str]:
    headers = {"mcp-protocol-version": version, "mcp-method": method}
    name = params.get(NAMED.get(method, ""))
    if isinstance(name, str):
        headers["mcp-name"] = header_value(name)
    for header in annotated:
        text = _text(_at(params.get("arguments"), header.path))
        if text is not None:
            headers[header.name] = header_value(text)
    return headers


def param_headers(schema: Any) -> tuple[ParamHeader, ...]:
    """The annotations of an input schema. Raises InvalidAnnotation."""
    found: dict[str, ParamHeader] = {}
    for path, part in _positions(schema):
        if ANNOTATION not in part:
            continue
        token = part[ANNOTATION]
        if not path:
            raise InvalidAnnotation(f"`{ANNOTATION}` is not on a property that every call has at the same place")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise InvalidAnnotation(f"`{ANNOTATION}` is not the name of a header")
        if part.get("type") not in ("string", "integer", "boolean"):
            raise InvalidAnnotation(f"`{ANNOTATION}` is on a property that is not a string, integer or boolean")
        name = f"mcp-param-{token.lower()}"
        if name in found:
            raise InvalidAnnotation(f"`{ANNOTATION}` names a header twice")
        found[name] = ParamHeader(path, name)
    return tuple(found.values())


def header_value(text: str) -> str:
    """As it is where a header can hold it, otherwise as base64 with a mark."""
    if _PLAIN.fullmatch(text) and text == text.strip() and not _ENCODED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def _text(value: Any) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case _:
            return None


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _positions(schema: Any) -> Iterator[tuple[tuple[str, ...] | None, dict[str, Any]]]:
    """Each subschema, with its path if only `properties` leads to it."""
    left: list[tuple[tuple[str, ...] | None, Any]] = [((), schema)]
    for _ in range(POSITIONS):
        if not left:
            return
        path, part = left.pop()
        if not isinstance(part, dict):
            continue
        yield path, part
        for keyword, value in part.items():
            if keyword == "properties" and isinstance(value, dict):
                left += [((*path, name) if path is not None else None, below) for name, below in value.items()]
            elif keyword in _SINGLE:
                left.append((None, value))
            elif keyword in _LISTS and isinstance(value, list):
                left += [(None, below) for below in value]
            elif keyword in _MAPS and isinstance(value, dict):
                left += [(None, below) for below in value.values()]
    raise InvalidAnnotation("the schema is too large to look for headers")
