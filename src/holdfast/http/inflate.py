"""Decompression of a body as it arrives, bounded by ratio."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from holdfast.http.errors import InflationLimit, UndecodableBody, UnsupportedEncoding

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE = 64 * 1024
"""Most bytes that are produced at once, whatever the ratio of compression."""
ENCODINGS = ("gzip", "x-gzip", "deflate")


class Inflater:
    """Decompresses one body. Raises UndecodableBody, and InflationLimit once the result is larger than `floor` bytes
    and more than `ratio` times what was received."""

    def __init__(self, encoding: str, *, ratio: int, floor: int) -> None:
        self._deflate = encoding == "deflate"
        self._ratio = ratio
        self._floor = floor
        self._stream: zlib._Decompress | None = None
        self._consumed = self._produced = 0

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """What follows from these bytes. Call it with b"" at the end of the body, which has to be complete then."""
        try:
            yield from self._pieces(data)
        except zlib.error as error:
            raise UndecodableBody(str(error)) from error

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        if not data:
            if self._stream is not None and not self._stream.eof:
                raise UndecodableBody("the compressed body is not whole")
            return
        if self._stream is None:
            # A zlib header is part of `deflate`, but some servers leave it out.
            bare = self._deflate and data[0] & 0x0F != 8
            self._stream = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS | 32)
        stream = self._stream
        while data and not stream.eof:
            piece = stream.decompress(data, PIECE)
            self._produced += len(piece)
            self._consumed += len(data) - len(stream.unconsumed_tail)
            if self._produced > self._floor and self._produced > self._consumed * self._ratio:
                raise InflationLimit(self._ratio)
            if piece:
                yield piece
            data = stream.unconsumed_tail


def inflater(encoding: str, *, ratio: int, floor: int) -> Inflater | None:
    """For the value of a content-encoding header; None if the body is not compressed."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding not in ENCODINGS:
        raise UnsupportedEncoding(encoding)
    return Inflater(encoding, ratio=ratio, floor=floor)
