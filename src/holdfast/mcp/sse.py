"""Server-sent events with their ids, from bytes. No I/O. The result does not depend on chunk boundaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.mcp.errors import TooLarge

if TYPE_CHECKING:
    from collections.abc import Iterator

_BOM = b"\xef\xbb\xbf"
ID_BYTES = 4096
RETRY_DIGITS = 9


class Event(msgspec.Struct, frozen=True):
    """`data` is empty for an event that only sets an id. `retry_ms` is how long to wait before taking the stream up."""

    kind: str
    data: bytes
    id: str | None = None
    retry_ms: int | None = None


class Events:
    """Feed chunks, get complete events. Raises TooLarge beyond `limit` bytes of one event."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line: list[bytes] = []
        self._line_size = 0
        self._started = False
        self._after_cr = False
        self._kind = ""
        self._data: list[bytes] = []
        self._size = 0
        self._id: str | None = None
        self._retry: int | None = None

    def feed(self, chunk: bytes) -> Iterator[Event]:
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if chunk.endswith(b"\r"):
            self._after_cr = True
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *complete, rest = chunk.split(b"\n")
        for piece in complete:
            line = b"".join([*self._line, piece]) if self._line else piece
            self._line, self._line_size = [], 0
            event = self._take(line)
            if event is not None:
                yield event
        if rest:
            self._line.append(rest)
            self._line_size += len(rest)
            if self._line_size + self._size > self._limit:
                raise TooLarge("An event of the MCP server", self._limit)

    def _take(self, line: bytes) -> Event | None:
        if not self._started:
            self._started = True
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        if line.startswith(b":"):
            return None
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            if self._size > self._limit:
                raise TooLarge("An event of the MCP server", self._limit)
        elif name == b"event":
            self._kind = value[:100].decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value and len(value) <= ID_BYTES:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) <= RETRY_DIGITS:
            self._retry = int(value)
        return None

    def _dispatch(self) -> Event | None:
        event = Event(self._kind or "message", b"\n".join(self._data), self._id, self._retry)
        seen = bool(self._data) or self._id is not None or self._retry is not None
        self._kind, self._data, self._size, self._id, self._retry = "", [], 0, None, None
        return event if seen else None
