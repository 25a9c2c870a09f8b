"""AWS event-stream frames (`application/vnd.amazon.eventstream`) from bytes, both checksums checked.

A frame comes out as one JSON document `{"kind", "type", "payload"}`, so that decoders see text as elsewhere."""

from __future__ import annotations

import struct
import zlib

from holdfast.llm.errors import invalid_output
from holdfast.schema.codec import encode
from holdfast.schema.sse import FrameTooLarge

_PRELUDE = struct.Struct(">III")
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}


class AwsFrames:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        self._buffer += chunk
        frames: list[bytes] = []
        start = 0
        while len(self._buffer) - start >= _PRELUDE.size:
            total, header_length, checksum = _PRELUDE.unpack_from(self._buffer, start)
            if zlib.crc32(self._buffer[start : start + 8]) != checksum:
                raise invalid_output("Bedrock sent a frame whose prelude checksum is wrong")
            if total > self._limit:
                raise FrameTooLarge(self._limit)
            if total < 16 + header_length:
                raise invalid_output("Bedrock sent a frame with impossible lengths")
            if len(self._buffer) - start < total:
                break
            frame = bytes(self._buffer[start : start + total])
            frames += _read(frame, header_length)
            start += total
        del self._buffer[:start]
        return frames

    def finish(self) -> list[bytes]:
        if self._buffer:
            raise invalid_output("Bedrock's stream ended inside a frame")
        return []


def _read(frame: bytes, header_length: int) -> list[bytes]:
    if zlib.crc32(frame[:-4]) != int.from_bytes(frame[-4:], "big"):
        raise invalid_output("Bedrock sent a frame whose checksum is wrong")
    headers = _headers(frame[12 : 12 + header_length])
    payload = frame[12 + header_length : -4]
    kind = headers.get(":message-type", "event")
    if kind == "event" and not payload:
        return []
    name = headers.get(":event-type") or headers.get(":exception-type") or headers.get(":error-code") or ""
    text = payload.decode("utf-8", "replace") or headers.get(":error-message", "")
    return [encode({"kind": kind, "type": name, "payload": text})]


def _headers(data: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    position = 0
    try:
        while position < len(data):
            length = data[position]
            name = data[position + 1 : position + 1 + length].decode()
            position += 1 + length
            kind = data[position]
            position += 1
            if kind in (6, 7):
                size = int.from_bytes(data[position : position + 2], "big")
                position += 2
                if kind == 7:
                    found[name] = data[position : position + size].decode()
                position += size
            else:
                position += _SIZES[kind]
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise invalid_output("Bedrock sent a frame with unreadable headers") from error
    return found
