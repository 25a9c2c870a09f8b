"""A tar archive in a zstd frame, written and read as a stream.

Written entries depend on names and contents only, so equal contents give equal bytes. The reader takes what the writer
writes and nothing else: regular files with plain names. It never writes a file, and reads no more than it was allowed
to: Python's tarfile would load headers of any size into memory."""

from __future__ import annotations

import re
import tarfile
from typing import IO, TYPE_CHECKING, NamedTuple

from holdfast.core.bundle.errors import BundleInvalid
from holdfast.core.bundle.zstd import (
    CompressionParameter,
    DecompressionParameter,
    ZstdCompressor,
    ZstdDecompressor,
    ZstdError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK = 512
LEVEL = 6
WINDOW_LOG = 23
"""8 MiB: the most memory that decompression needs. Level 6 uses less."""
READ_BYTES = 256 * 1024
END = bytes(2 * BLOCK)
NAME = re.compile(r"manifest\.json|events/[0-9]{6}\.jsonl|files/[0-9]{6}")


class ArchiveWriter:
    """Writes entries to a file that its caller owns. `finish` ends the archive."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        options: dict[int, int] = {
            CompressionParameter.compression_level: LEVEL,
            CompressionParameter.window_log: WINDOW_LOG,
            CompressionParameter.checksum_flag: 1,
        }
        self._compressor = ZstdCompressor(options=options)
        self._left = 0
        self._padding = 0

    def begin(self, name: str, size: int) -> None:
        """The entry before must be complete."""
        assert self._left == 0
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = size, 0o600
        self._write(bytes(self._padding) + entry.tobuf(tarfile.USTAR_FORMAT))
        self._left, self._padding = size, -size % BLOCK

    def write(self, data: bytes) -> None:
        self._left -= len(data)
        assert self._left >= 0
        self._write(data)

    def finish(self) -> None:
        assert self._left == 0
        self._write(bytes(self._padding) + END)
        self._file.write(self._compressor.flush())

    def _write(self, data: bytes) -> None:
        self._file.write(self._compressor.compress(data))


class Entry(NamedTuple):
    name: str
    size: int


class ArchiveReader:
    """Reads the entries of an archive one after the other. Raises BundleInvalid for whatever the writer does not
    write."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decompressor = ZstdDecompressor(options={DecompressionParameter.window_log_max: WINDOW_LOG})
        self._buffer = b""
        self._left = 0
        self._padding = 0

    def next(self, most: int) -> Entry | None:
        """The next entry, of at most `most` bytes; None at the end. What of the entry before was not read is an
        error."""
        assert self._left == 0
        if any(self._exactly(self._padding)):
            raise BundleInvalid("it has data between its parts")
        header = self._exactly(BLOCK)
        if header == bytes(BLOCK):
            self._expect_end()
            return None
        entry = _entry(header)
        if entry.size > most:
            raise BundleInvalid(f"its part {entry.name} has {entry.size:,} bytes, and {most:,} are allowed here")
        self._left, self._padding = entry.size, -entry.size % BLOCK
        return entry

    def chunks(self) -> Iterator[bytes]:
        """The content of the entry, in pieces."""
        while self._left:
            piece = self._some(min(self._left, READ_BYTES))
            self._left -= len(piece)
            yield piece

    def _expect_end(self) -> None:
        if any(self._exactly(BLOCK)):
            raise BundleInvalid("its archive does not end where it should")
        if self._buffer or not self._finished() or self._decompressor.unused_data or self._file.read(1):
            raise BundleInvalid("there is more data behind its end")

    def _finished(self) -> bool:
        """Whether the compressed frame ends here, checksum included."""
        try:
            while not self._decompressor.eof:
                data = self._file.read(READ_BYTES) if self._decompressor.needs_input else b""
                if self._decompressor.needs_input and not data:
                    raise BundleInvalid("it is cut off")
                if self._decompressor.decompress(data, 1):
                    return False
        except ZstdError as error:
            raise BundleInvalid(f"it is damaged ({error})") from error
        return True

    def _exactly(self, size: int) -> bytes:
        pieces = []
        while size:
            piece = self._some(size)
            size -= len(piece)
            pieces.append(piece)
        return b"".join(pieces)

    def _some(self, most: int) -> bytes:
        """At least one byte."""
        while not self._buffer:
            if self._decompressor.eof:
                raise BundleInvalid("it is cut off")
            data = b""
            if self._decompressor.needs_input and not (data := self._file.read(READ_BYTES)):
                raise BundleInvalid("it is cut off")
            try:
                self._buffer = self._decompressor.decompress(data, READ_BYTES)
            except ZstdError as error:
                raise BundleInvalid(f"it is damaged, or not compressed with zstd ({error})") from error
        piece, self._buffer = self._buffer[:most], self._buffer[most:]
        return piece


def _entry(header: bytes) -> Entry:
    try:
        found = tarfile.TarInfo.frombuf(header, "ascii", "strict")
    except (tarfile.HeaderError, UnicodeDecodeError) as error:
        raise BundleInvalid(f"its archive is damaged ({error})") from error
    written = tarfile.TarInfo(found.name)
    written.size, written.mode = found.size, 0o600
    if NAME.fullmatch(found.name) is None or found.size < 0 or written.tobuf(tarfile.USTAR_FORMAT) != header:
        raise BundleInvalid(f"its archive has an entry that no bundle has: {found.name[:100]!r}")
    return Entry(found.name, found.size)
