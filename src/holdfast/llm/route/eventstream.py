"""AWS event-stream frames (`application/vnd.amazon.eventstream`) from bytes, both checksums checked.

A frame is returned as one JSON document `{"kind", "type", "payload"}`, so that decoders get text as elsewhere. The
payload is a string in it and cannot change the other fields."""

from __future__ import annotations

import struct
import zlib

from holdfast.llm.errors import LLMError, invalid_output
from holdfast.schema.codec import encode
from holdfast.schema.sse import FrameTooLarge

_PRELUDE = struct.Struct(">III")
_OVERHEAD = 16
_BYTES, _STRING = 6, 7
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_NAMED_BY = {"event": ":event-type", "exception": ":exception-type", "error": ":error-code"}


class AwsFrames:
    """Feed chunks, get complete frames. Cost is linear in the bytes fed. An invalid frame raises after the frames
    before it were returned, so the result does not depend on chunking."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        self._buffer += chunk
        return self._frames()

    def finish(self) -> list[bytes]:
        self._frames()  # raises the delayed error
        if self._buffer:
            raise LLMError("Transport", "the stream was truncated: it ended inside a frame", kind="truncated")
        return []

    def _frames(self) -> list[bytes]:
        frames: list[bytes] = []
        start = 0
        try:
            while (length := self._frame_length(start)) is not None:
                frames += _read(bytes(self._buffer[start : start + length]))
                start += length
        except (LLMError, FrameTooLarge):
            if not frames:
                raise
        del self._buffer[:start]
        return frames

    def _frame_length(self, start: int) -> int | None:
        """None until the frame is complete."""
        held = len(self._buffer) - start
        if held < _PRELUDE.size:
            return None
        total, header_length, checksum = _PRELUDE.unpack_from(self._buffer, start)
        if zlib.crc32(self._buffer[start : start + 8]) != checksum:
            raise invalid_output("the stream has a frame whose prelude checksum is wrong")
        if total > self._limit:
            raise FrameTooLarge(self._limit)
        if total < _OVERHEAD + header_length:
            raise invalid_output("the stream has a frame with impossible lengths")
        return total if held >= total else None


def _read(frame: bytes) -> list[bytes]:
    if zlib.crc32(frame[:-4]) != int.from_bytes(frame[-4:], "big"):
        raise invalid_output("the stream has a frame whose checksum is wrong")
    header_end = 12 + int.from_bytes(frame[4:8], "big")
    headers = _headers(frame[12:header_end])
    payload = frame[header_end:-4].decode("utf-8", "replace")
    kind = headers.get(":message-type", "event")
    if kind == "event" and not payload:
        return []
    name = headers.get(_NAMED_BY.get(kind, ":event-type"), "")
    return [encode({"kind": kind, "type": name, "payload": payload or headers.get(":error-message", "")})]


def _headers(data: bytes) -> dict[str, str]:
    """The string headers; others are skipped."""
    found: dict[str, str] = {}
    position = 0
    try:
        while position < len(data):
            value = position + 1 + data[position]
            name = data[position + 1 : value].decode()
            kind = data[value]
            value += 1
            if kind in (_BYTES, _STRING):
                start = value + 2
                position = start + int.from_bytes(data[value:start], "big")
                if kind == _STRING:
                    found[name] = data[start:position].decode()
            else:
                position = value + _SIZES[kind]
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise invalid_output("the stream has a frame with unreadable headers") from error
    if position != len(data):
        raise invalid_output("the stream has a frame whose headers end in the middle of one")
    return found
