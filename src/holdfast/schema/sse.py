"""Parses server-sent events; the result does not depend on chunk boundaries. Used for provider streams and by
clients."""

from __future__ import annotations

from holdfast.schema.exceptions import HoldfastError

_BOM = b"\xef\xbb\xbf"


class FrameTooLarge(HoldfastError):
    """More than the limit arrived without the end of a frame."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a frame is larger than {limit} bytes")


class SSEFrames:
    """Feed chunks, get the `data` of complete frames, in linear time. `comments` counts frames with only comments,
    which servers send as heartbeats."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._started = False
        self._start = b""
        self._held_cr = False
        self.comments = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        chunk = self._normalise(chunk)
        across = bool(self._parts) and self._parts[-1].endswith(b"\n") and chunk.startswith(b"\n")
        if not across and b"\n\n" not in chunk:
            self._hold(chunk)
            return []
        head, _, tail = b"".join([*self._parts, chunk]).rpartition(b"\n\n")
        # If the tail is too long, the next chunk reports it: the complete frames count.
        self._parts, self._size = [tail] if tail else [], len(tail)
        return self._frames(head)

    def finish(self) -> list[bytes]:
        """The last frame, if it lacks its closing blank line."""
        if self._size > self._limit:
            raise FrameTooLarge(self._limit)
        buffer = b"".join(self._parts) + (b"" if self._started else self._start)
        self._parts, self._size = [], 0
        return self._frames(buffer)

    def _normalise(self, chunk: bytes) -> bytes:
        if not self._started:
            chunk = self._start + chunk
            if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
                self._start = chunk
                return b""
            self._started = True
            chunk = chunk.removeprefix(_BOM)
        if self._held_cr:
            self._held_cr = False
            chunk = b"\r" + chunk
        if b"\r" in chunk:
            if chunk.endswith(b"\r"):
                self._held_cr = True
                chunk = chunk[:-1]
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk

    def _hold(self, piece: bytes) -> None:
        if not piece:
            return
        self._parts.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            raise FrameTooLarge(self._limit)

    def _frames(self, block: bytes) -> list[bytes]:
        found: list[bytes] = []
        for frame in block.split(b"\n\n"):
            if frame.startswith(b"data: ") and b"\n" not in frame:
                data = frame[6:]
            else:
                lines = [line[5:].removeprefix(b" ") for line in frame.split(b"\n") if line.startswith(b"data:")]
                data = b"\n".join(lines)
            if data:
                found.append(data)
            elif frame.startswith(b":"):
                self.comments += 1
        return found
