"""The schemas that records and events must fit: those that we publish, and OpenCode's where they were recorded."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest
from tests.conftest import RECORDINGS

from holdfast.protocol.openapi import document
from holdfast.schema.codec import decode_any

OPENCODE = RECORDINGS / "contract" / "opencode-v2-openapi.json"
OUR_NAMES = {
    "SessionV2Info": "Session",
    "SessionInputAdmitted": "Admission",
    "V2Event": "LiveEvent",
    "ProviderV2Info": "ProviderInfo",
    "ModelV2Info": "ModelInfo",
}
ADDED = frozenset(
    (
        *("options", "skills", "metadata", "command", "notes"),  # of a prompt and its message
        *("structured", "rejected", "saved"),  # of an answer and the end of its step
        "pinned",  # of the times of a Session
        *("code", "cost", "tokens"),  # of an error, and of a step whose answer was not usable
    )
)
"""Optional fields that Holdfast adds to OpenCode's records; clients ignore what they do not know."""
either_contract = pytest.mark.parametrize(
    "contract", [pytest.param("published"), pytest.param("opencode", marks=pytest.mark.recorded)]
)


@functools.cache
def schemas(contract: str) -> dict[str, Any]:
    """By OpenCode's names, also where ours are other ones."""
    found: dict[str, Any]
    if contract == "opencode":
        found = decode_any(OPENCODE.read_bytes())["components"]["schemas"]
        return found
    ours = document()
    found = {**ours["components"]["schemas"]}
    found |= {theirs: {"$ref": name} for theirs, name in OUR_NAMES.items()}
    page = ours["paths"]["/api/session/{sessionID}/message"]["get"]["responses"]["200"]["content"]["application/json"]
    found["SessionMessage"] = page["schema"]["properties"]["data"]["items"]
    return found


def problems(known: dict[str, Any], value: Any, schema: dict[str, Any], at: str = "$") -> Iterator[str]:
    """What a value lacks, has too much, or has of the wrong type. Patterns and bounds are not looked at."""
    if "$ref" in schema:
        yield from problems(known, value, known[schema["$ref"].rpartition("/")[2]], at)
    elif alternatives := schema.get("anyOf") or schema.get("oneOf"):
        found = [list(problems(known, value, alternative, at)) for alternative in alternatives]
        if all(found):
            nearest = min(found, key=lambda faults: (f"{at}.type:" in faults[0], len(faults)))
            yield f"{at}: fits none of {len(found)}; nearest: {nearest}"
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    elif "type" in schema and not _is_a(value, schema["type"]):
        yield f"{at}: {value!r} is no {schema['type']}"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from problems(known, item, schema.get("items", {}), f"{at}[{index}]")
    elif isinstance(value, dict):
        yield from _object_problems(known, value, schema, at)


def _object_problems(known: dict[str, Any], value: dict[str, Any], schema: dict[str, Any], at: str) -> Iterator[str]:
    fields, further = schema.get("properties", {}), schema.get("additionalProperties", True)
    yield from (f"{at}: lacks {name}" for name in schema.get("required", ()) if name not in value)
    for name, item in value.items():
        if name in fields:
            yield from problems(known, item, fields[name], f"{at}.{name}")
        elif further is False and name not in ADDED:
            yield f"{at}: has unknown {name}"
        elif isinstance(further, dict):
            yield from problems(known, item, further, f"{at}.{name}")


def _is_a(value: Any, kind: str) -> bool:
    kinds: dict[str, type | tuple[type, ...]] = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "null": type(None),
    }
    return isinstance(value, kinds[kind]) and (kind == "boolean" or not isinstance(value, bool))
