"""The output of one command: kept whole while it is small; later its head and tail, and the rest in a managed file.

Invariants
- At most `KEPT_BYTES` and one chunk are in memory, however much a command writes.
- The file is opened before the first byte would be lost, and begins with the first byte.
- `lost` means that some byte is neither in the text nor in the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from holdfast.core.tool.output import ManagedFile, OutputStore

KEPT_BYTES = 1024 * 1024
SHOWN_BYTES = 40 * 1024
SHOWN_LINES = 1600
SNIFF_BYTES = 8 * 1024
HALF = KEPT_BYTES // 2

NO_OUTPUT = "(no output)"
BINARY_OUTPUT = "(binary output, {size} bytes)"
LEFT_OUT = "... {size} bytes left out; output saved to {path} ..."
DISCARDED = "... {size} bytes discarded ..."
CAPTURE_LIMIT = "[capture limit reached: output beyond it was discarded]"


class Shown(NamedTuple):
    text: str
    """For the model: without terminal codes, progress lines in their last state."""
    truncated: bool
    """Whether more was written than is kept in memory."""
    path: str | None


class CommandOutput:
    """A sink for a process. `finish` is called once, whatever became of the command."""

    def __init__(self, store: OutputStore | None = None) -> None:
        self._store = store
        self._file: ManagedFile | None = None
        self._head = bytearray()
        self._tail = bytearray()
        self._overflowed = False
        self.size = 0

    def __call__(self, chunk: bytes) -> bool:
        self.size += len(chunk)
        if not self._overflowed and self.size > KEPT_BYTES:
            self._overflowed = True
            self._open()
        if self._file is not None:
            self._file.write(chunk)
        room = HALF - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        # Cut rarely: each cut moves what is left.
        if self._overflowed and len(self._tail) > 2 * HALF:
            del self._tail[:-HALF]
        return True

    def last(self, size: int) -> str:
        """The newest output, at most so many bytes of it."""
        newest = bytes((self._tail if len(self._tail) >= size else self._head + self._tail)[-size:])
        return BINARY_OUTPUT.format(size=self.size) if self._is_binary() else clean(_decode_tail(newest))

    def finish(self) -> Shown:
        binary = self._is_binary()
        if binary and not self._overflowed:
            self._open()
        saved = self._file.keep() if self._file is not None else None
        path = str(saved.path) if saved is not None else None
        lost = self._overflowed and not (saved is not None and saved.complete)
        text = BINARY_OUTPUT.format(size=self.size) if binary else self._text(path)
        return Shown(f"{text}\n\n{CAPTURE_LIMIT}" if lost else text, self._overflowed, path)

    def _open(self) -> None:
        if self._store is not None:
            self._file = self._store.open_managed()
            self._file.write(bytes(self._head + self._tail))

    def _text(self, path: str | None) -> str:
        if not self._overflowed:
            return clean((self._head + self._tail).decode("utf-8", "replace")) or NO_OUTPUT
        # With a file to look into a glance is enough; without one this is all there will ever be.
        head, tail = bytes(self._head), bytes(self._tail[-HALF:])
        if path is not None:
            head, tail = _first_lines(head[: SHOWN_BYTES // 2]), _last_lines(tail[-SHOWN_BYTES // 2 :])
        left_out = self.size - len(head) - len(tail)
        marker = DISCARDED.format(size=left_out) if path is None else LEFT_OUT.format(size=left_out, path=path)
        return f"{clean(_decode_head(head))}\n\n{marker}\n\n{clean(_decode_tail(tail))}"

    def _is_binary(self) -> bool:
        return b"\0" in self._head[:SNIFF_BYTES]


def clean(text: str) -> str:
    """What a terminal would show in the end: no escape sequences, of an overwritten line only its last state."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" not in text:
        return text
    return "\n".join(_last_state(line) for line in text.split("\n"))


# Each alternative stops at the next escape, so that no input is looked at twice.
_ESCAPES = pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]P^_X][^\x07\x1b\n]*(?:\x07|\x1b\\)|[ -/]*[0-~])?")


def _last_state(line: str) -> str:
    return next((state for state in reversed(line.split("\r")) if state), "") if "\r" in line else line


def _first_lines(data: bytes) -> bytes:
    return b"\n".join(data.split(b"\n")[: SHOWN_LINES // 2])


def _last_lines(data: bytes) -> bytes:
    return b"\n".join(data.split(b"\n")[-SHOWN_LINES // 2 :])


def _decode_head(data: bytes) -> str:
    """Without the beginning of a character that the cut has split."""
    for back in range(1, min(4, len(data)) + 1):
        lead = data[-back]
        if lead >= 0xC0:
            needed = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return data[: -back if back < needed else None].decode("utf-8", "replace")
        if lead < 0x80:
            break
    return data.decode("utf-8", "replace")


def _decode_tail(data: bytes) -> str:
    start = next((index for index, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)
    return data[start:].decode("utf-8", "replace")
