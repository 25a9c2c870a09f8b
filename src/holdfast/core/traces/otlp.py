"""Encodes spans for OTLP/HTTP: protobuf, which every collector takes, and JSON, for people. Both are
`ExportTraceServiceRequest` of version 1 of the protocol. Equal spans give equal bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from holdfast.core.traces.span import SCHEMA_URL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.traces.span import Span, Value

SCOPE = "holdfast"
NANOSECONDS = 1_000_000
ERROR = 2
VARINT, FIXED64, BYTES = 0, 1, 2


def protobuf(spans: Iterable[Span], service: str) -> bytes:
    scope_spans = _message(1, _text(1, SCOPE)) + b"".join(_message(2, _span(span)) for span in spans)
    scope_spans += _text(3, SCHEMA_URL)
    resource = _message(1, _attribute("service.name", service))
    return _message(1, _message(1, resource) + _message(2, scope_spans))


def json_value(spans: Sequence[Span], service: str) -> dict[str, Any]:
    """As the protocol's JSON has it: ids as hexadecimal digits, 64-bit integers as text."""
    resource = {"attributes": [_json_attribute("service.name", service)]}
    scope_spans = {"scope": {"name": SCOPE}, "spans": [_json_span(span) for span in spans], "schemaUrl": SCHEMA_URL}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope_spans]}]}


def _span(span: Span) -> bytes:
    """Fields in ascending order, defaults left out, as the official encoders do."""
    return b"".join(
        (
            _bytes(1, span.trace_id),
            _bytes(2, span.id),
            _bytes(4, span.parent_id),
            _text(5, span.name),
            _varint_field(6, span.kind),
            _fixed64(7, span.start * NANOSECONDS),
            _fixed64(8, span.end * NANOSECONDS),
            *(_message(9, _attribute(name, value)) for name, value in span.attributes),
            _message(15, _varint_field(3, ERROR)) if span.failed else b"",
        )
    )


def _attribute(name: str, value: Value) -> bytes:
    return _text(1, name) + _message(2, _any_value(value))


def _any_value(value: Value) -> bytes:
    """Exactly one field, which is written even if it is the default."""
    match value:
        case bool():
            return _key(2, VARINT) + _varint(int(value))
        case int():
            return _key(3, VARINT) + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)
        case float():
            return _key(4, FIXED64) + struct.pack("<d", value)
        case str():
            return _message(1, _utf8(value))
        case _:
            return _message(5, b"".join(_message(1, _any_value(item)) for item in value))


def _json_span(span: Span) -> dict[str, Any]:
    parent = {"parentSpanId": span.parent_id.hex()} if span.parent_id else {}
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.id.hex(),
        **parent,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start * NANOSECONDS),
        "endTimeUnixNano": str(span.end * NANOSECONDS),
        "attributes": [_json_attribute(name, value) for name, value in span.attributes],
        "status": {"code": ERROR} if span.failed else {},
    }


def _json_attribute(name: str, value: Value) -> dict[str, Any]:
    return {"key": name, "value": _json_any_value(value)}


def _json_any_value(value: Value) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": _utf8(value).decode()}
        case _:
            return {"arrayValue": {"values": [_json_any_value(item) for item in value]}}


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _message(number: int, data: bytes) -> bytes:
    return _key(number, BYTES) + _varint(len(data)) + data


def _bytes(number: int, data: bytes) -> bytes:
    return _message(number, data) if data else b""


def _text(number: int, text: str) -> bytes:
    return _bytes(number, _utf8(text))


def _varint_field(number: int, value: int) -> bytes:
    return _key(number, VARINT) + _varint(value) if value else b""


def _fixed64(number: int, value: int) -> bytes:
    return _key(number, FIXED64) + struct.pack("<Q", value) if value else b""


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
