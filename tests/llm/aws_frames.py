"""AWS event-stream frames, made by hand."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from holdfast.schema.codec import encode


def frame(headers: dict[str, str | bytes], payload: bytes = b"{}") -> bytes:
    """A header given as bytes is its type and value as they go on the wire."""
    encoded = b""
    for name, value in headers.items():
        body = value if isinstance(value, bytes) else b"\x07" + struct.pack(">H", len(value.encode())) + value.encode()
        encoded += bytes([len(name)]) + name.encode() + body
    return raw_frame(encoded, payload)


def raw_frame(headers: bytes, payload: bytes, *, header_length: int | None = None, total: int | None = None) -> bytes:
    prelude = struct.pack(
        ">II",
        16 + len(headers) + len(payload) if total is None else total,
        len(headers) if header_length is None else header_length,
    )
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))


def event(name: str, payload: dict[str, Any] | bytes) -> bytes:
    body = payload if isinstance(payload, bytes) else encode({**payload, "p": "abcdef"})
    return frame({":event-type": name, ":content-type": "application/json", ":message-type": "event"}, body)


def exception(name: str, payload: dict[str, Any] | bytes) -> bytes:
    body = payload if isinstance(payload, bytes) else encode(payload)
    return frame({":message-type": "exception", ":exception-type": name}, body)
