"""What MCP servers write: a bounded file for each server of a Location, which only its owner can read.

Standard error, log messages, bytes that are no messages, and what became of the server, one line each. A file that has
reached its size becomes the former one, which is the only one that is kept. Several processes may write to one file;
any process may read it."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import time
from typing import TYPE_CHECKING

from holdfast.core.secret import hide
from holdfast.private_files import make_directory
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from pathlib import Path

FILE_BYTES = 512 * 1024
LINE_BYTES = 4096
PARTIAL_BYTES = 64 * 1024
"""How much of an unfinished line is kept until it ends."""
READ_BYTES = 64 * 1024

log = logging.getLogger(__name__)


class LogPart(Frozen):
    """A part of a log. `position` is where the next part begins."""

    text: str
    position: str


def log_path(folder: Path, location: str, server: str) -> Path:
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", server)[:40]
    digest = hashlib.sha256(f"{location}\0{server}".encode()).hexdigest()[:16]
    return folder / f"{readable}-{digest}.log"


class ServerLog:
    """Never raises: a log that cannot be written is given up with a warning."""

    def __init__(self, path: Path, secrets: frozenset[str] = frozenset(), *, file_bytes: int = FILE_BYTES) -> None:
        self.path = path
        self._secrets = secrets
        self._file_bytes = file_bytes
        self._partial = b""
        self._cut = False
        self._broken = False
        self.last_line = ""
        """The last line that the server wrote to standard error."""

    def errors(self, chunk: bytes) -> None:
        """Bytes of standard error. An unfinished line waits for its end, up to a size."""
        *whole, rest = (self._partial + chunk).split(b"\n")
        if self._cut and whole:  # the rest of a line whose beginning is written
            del whole[0]
            self._cut = False
        if self._cut:
            rest = b""
        elif len(rest) > PARTIAL_BYTES:
            whole.append(rest)
            rest, self._cut = b"", True
        self._partial = rest
        lines = [text for line in whole if (text := self._shown(line))]
        if lines:
            self.last_line = lines[-1]
            self._append("stderr", lines)

    def end_of_errors(self) -> None:
        if self._partial:
            self.errors(b"\n")

    def line(self, kind: str, text: str) -> None:
        self._append(kind, [self._shown(text.encode("utf-8", "replace"))])

    def _shown(self, line: bytes) -> str:
        """Secrets are hidden before the line is cut, so that no half of one stays."""
        text = hide(line.decode("utf-8", "replace"), self._secrets).rstrip()[:LINE_BYTES]
        if text.isprintable():
            return text
        return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text)

    def _append(self, kind: str, lines: list[str]) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        data = "".join(f"{now} {kind}: {line}\n" for line in lines).encode("utf-8", "replace")
        if self._broken:
            return
        try:
            _append(self.path, data, self._file_bytes)
        except OSError as error:
            self._broken = True
            log.warning("the log of an MCP server cannot be written: %s: %s", self.path, error.strerror)


def former(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")


def _append(path: Path, data: bytes, file_bytes: int) -> None:
    try:
        handle = _open(path)
    except FileNotFoundError:
        make_directory(path.parent)
        handle = _open(path)
    try:
        if os.fstat(handle).st_size + len(data) > file_bytes:
            # Another process may do the same at this moment; then one of two full files is lost.
            os.replace(path, former(path))
            os.close(handle)
            handle = _open(path)
        os.write(handle, data[-file_bytes:])
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def read_log(path: Path, position: str | None = None, *, limit: int = READ_BYTES) -> LogPart:
    """Without a position, the end of the log, up to `limit` bytes and whole lines; otherwise what was added since. If
    the file was replaced since, its new beginning follows."""
    current = _read_file(path)
    if current is None:
        return LogPart("", position or "")
    inode, data = current
    known, _, offset = (position or "").partition(":")
    if position and known == str(inode) and offset.isdigit():
        start = min(int(offset), len(data))
        found = data[start : start + limit]
        return LogPart(_text(found), f"{inode}:{start + len(found)}")
    if position:
        return LogPart(_text(data[:limit]), f"{inode}:{min(limit, len(data))}")
    before = _read_file(former(path))
    both = (before[1] if before is not None else b"") + data
    if len(both) > limit:
        both = both[-limit:].partition(b"\n")[2]
    return LogPart(_text(both), f"{inode}:{len(data)}")


def _read_file(path: Path) -> tuple[int, bytes] | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    with open(handle, "rb") as file:
        return os.fstat(file.fileno()).st_ino, file.read(4 * FILE_BYTES)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
