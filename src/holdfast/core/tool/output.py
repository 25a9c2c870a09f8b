"""Bounds Model Tool Output: one limit for all text of a settlement, and managed files that hold the complete text.

Invariants
- A failure to save never fails the call: it is logged, and the preview says that text was lost.
- A file gets its final name only when it is complete; only its owner can read it; no name is used twice.
- `structured` is never shortened and never contains a managed path."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from holdfast.core.filesystem.staged import write_all
from holdfast.core.tool.preview import LOST, PARTLY_SAVED, SAVED, blocks, fits, pretty, preview, sample, scrub
from holdfast.core.tool.tool import CallOutput
from holdfast.private_files import make_directory
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern
from holdfast.schema.session_message import FileContent, TextContent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from pathlib import Path

    from holdfast.core.clock import Clock, Ids
    from holdfast.core.tool.preview import OutputLimits

PREFIX = "tool_"
UNFINISHED = ".part"
MANAGED_NAME = pattern(rb"/(tool_[0-9A-Za-z]{8,64})")
"""Finds the names of managed files in the data of events."""
FILE_BYTES = 64 * 1024 * 1024
FILE_CUT = b"\n\n[output cut here: the rest exceeds the size of a saved file]\n"
QUOTA_BYTES = 1024 * 1024 * 1024
RETENTION_SECONDS = 7 * 24 * 60 * 60
SWEEP_SECONDS = 60 * 60
WRITE_SECONDS = 10.0

log = logging.getLogger(__name__)


class OutputNotSaved(HoldfastError):
    """A tool output could not be encoded or written. Only logged; the model is told that output was lost."""

    def __init__(self, operation: Literal["encode", "write"], cause: Exception) -> None:
        super().__init__(f"Failed to {operation} tool output: {cause}")
        self.operation = operation
        self.cause = cause


async def bound(output: CallOutput, limits: OutputLimits, store: OutputStore | None) -> CallOutput:
    """Return the output if its text fits, else a preview. Without a store, the omitted text is lost."""
    if fits(_text_of(output), limits):
        return output.replace(content=tuple(map(_scrubbed, output.content)))
    sampled = await asyncio.to_thread(sample, _text_of(output), limits)
    saved = await store.save(_text_of(output)) if store is not None else None
    marker, paths = (LOST, ()) if saved is None else (saved.marker, (str(saved.path),))
    text = TextContent(text=preview(sampled, limits, marker))
    files = (part for part in output.content if isinstance(part, FileContent))
    return CallOutput(output.structured, (text, *files), tuple(dict.fromkeys((*output.output_paths, *paths))))


def _text_of(output: CallOutput) -> Iterator[str]:
    """The text that counts towards the limits: the text parts, or the structured value when there is no content."""
    if not output.content:
        return pretty(output.structured)
    return (part.text for part in output.content if isinstance(part, TextContent))


def _scrubbed(part: TextContent | FileContent) -> TextContent | FileContent:
    if isinstance(part, FileContent) or (text := scrub(part.text)) is part.text:
        return part
    return TextContent(text=text)


class SavedOutput(Frozen):
    path: Path
    complete: bool

    @property
    def marker(self) -> str:
        return (SAVED if self.complete else PARTLY_SAVED).format(path=self.path)


class OutputStore:
    """The directory of managed files. Use one per process and data directory."""

    def __init__(
        self,
        directory: Path,
        ids: Ids,
        clock: Clock,
        *,
        quota: int = QUOTA_BYTES,
        largest: int = FILE_BYTES,
        deadline: float = WRITE_SECONDS,
    ) -> None:
        self.directory = directory.absolute()
        self._ids = ids
        self._clock = clock
        self._quota = quota
        self._largest = largest
        self._deadline = deadline
        self._late: set[asyncio.Task[SavedOutput | None]] = set()
        self._accounting = threading.Lock()
        self._used: int | None = None
        """Bytes in the directory as counted by this process; None before the first count."""

    def open_managed(self) -> ManagedFile:
        """A new file for a tool to write to. It is created by the first write."""
        return ManagedFile(self.directory / self._ids.of("tool"), self._largest, self._account)

    async def save(self, pieces: Iterable[str]) -> SavedOutput | None:
        """Write the text to a new managed file; None if that fails or takes longer than the deadline."""
        file, given_up = self.open_managed(), threading.Event()
        writing = asyncio.ensure_future(asyncio.to_thread(_write, file, pieces, given_up))
        await asyncio.wait({writing}, timeout=self._deadline)
        if writing.done():
            return writing.result()
        given_up.set()
        log.error("%s", OutputNotSaved("write", TimeoutError(f"not done after {self._deadline} s")))
        self._late.add(writing)
        writing.add_done_callback(self._discard_late)
        return None

    async def save_file(self, data: bytes) -> str | None:
        """Write the bytes to a new managed file; its path, or None if that fails."""
        file = self.open_managed()

        def write() -> SavedOutput | None:
            with file:
                file.write(data)
                return file.keep()

        saved = await asyncio.to_thread(write)
        return str(saved.path) if saved is not None else None

    def is_managed(self, path: Path) -> bool:
        """Whether the path is a managed file: a regular file directly in the directory, with our prefix."""
        if not path.name.startswith(PREFIX) or path.name.endswith(UNFINISHED):
            return False
        try:
            inside = path.parent.resolve(strict=True) == self.directory.resolve(strict=True)
            return inside and stat.S_ISREG(path.lstat().st_mode)
        except (OSError, RuntimeError, ValueError):
            return False

    def remove(self, names: Iterable[str]) -> list[int]:
        """Remove managed files by their names; the sizes of those that were there. Blocks."""
        removed = []
        for path in (self.directory / name for name in names):
            if self.is_managed(path):
                with suppress(OSError):
                    size = path.lstat().st_size
                    path.unlink()
                    removed.append(size)
        return removed

    async def sweep_hourly(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Run `sweep` every hour until cancelled."""
        while True:
            await asyncio.to_thread(self.sweep)
            await sleep(SWEEP_SECONDS)

    def sweep(self) -> None:
        """Remove files older than the retention, then the oldest ones until the quota is met."""
        oldest = self._clock.now() / 1000 - RETENTION_SECONDS
        with self._accounting:
            self._trim([entry for entry in self._entries() if not (entry.changed < oldest and _remove(entry.path))])

    def _discard_late(self, writing: asyncio.Task[SavedOutput | None]) -> None:
        """Remove a file that was finished after its call was settled without it."""
        self._late.discard(writing)
        if not writing.cancelled() and writing.exception() is None and (saved := writing.result()) is not None:
            _remove(str(saved.path))

    def _account(self, size: int) -> None:
        """Add a new file's size. The directory is listed only when the quota may be exceeded."""
        with self._accounting:
            if self._used is not None:
                self._used += size
            if self._used is None or self._used > self._quota:
                self._trim(self._entries())

    def _trim(self, entries: list[_StoredFile]) -> None:
        used = sum(entry.size for entry in entries)
        finished = [entry for entry in entries if not entry.name.endswith(UNFINISHED)]
        for entry in finished[:-1]:  # the newest stays, whatever its size
            if used <= self._quota:
                break
            if _remove(entry.path):
                used -= entry.size
        self._used = used

    def _entries(self) -> list[_StoredFile]:
        """Managed files, oldest first."""
        found = []
        with suppress(OSError), os.scandir(self.directory) as scan:
            for item in scan:
                if item.name.startswith(PREFIX):
                    with suppress(OSError):
                        status = item.stat(follow_symlinks=False)
                        found.append(_StoredFile(status.st_mtime, item.name, status.st_size, item.path))
        return sorted(found)


class ManagedFile:
    """A bounded writer that never raises: bytes that cannot be written are dropped, and `keep` reports it. Leaving the
    context without `keep` removes the file. Methods block on disk I/O."""

    def __init__(self, path: Path, largest: int, account: Callable[[int], None]) -> None:
        self.path = path
        self.complete = True
        """Whether the file contains all written bytes."""
        self._partial = path.with_name(path.name + UNFINISHED)
        self._largest = largest
        self._account = account
        self._handle: int | None = None
        self._unnamed = False
        self._size = 0
        self._broken = False

    def write(self, data: bytes) -> None:
        if self._broken or not self.complete:
            return
        if len(data) > self._largest - self._size:
            self.complete = False
            data = _whole_characters(data, self._largest - self._size) + FILE_CUT
        try:
            if self._handle is None:
                self._handle, self._unnamed = _create(self._partial), True
            write_all(self._handle, data)
            self._size += len(data)
        except OSError as error:
            self._fail(error)

    def keep(self) -> SavedOutput | None:
        """Move the file to its final name. None if nothing was written or a write failed."""
        if self._handle is None:
            return None
        try:
            handle, self._handle = self._handle, None
            os.close(handle)
            _publish(self._partial, self.path)
        except OSError as error:
            self._fail(error)
            return None
        self._unnamed = False
        self._account(self._size)
        return SavedOutput(self.path, self.complete)

    def discard(self) -> None:
        self._broken = True
        if self._handle is not None:
            handle, self._handle = self._handle, None
            with suppress(OSError):
                os.close(handle)
        if self._unnamed:
            self._unnamed = False
            _remove(str(self._partial))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.discard()

    def _fail(self, error: OSError) -> None:
        log.error("%s", OutputNotSaved("write", error))
        self.complete = False
        self.discard()


class _StoredFile(NamedTuple):
    changed: float
    name: str
    size: int
    path: str


def _write(file: ManagedFile, pieces: Iterable[str], given_up: threading.Event) -> SavedOutput | None:
    with file:
        for block in blocks(pieces):
            file.write(block.encode())
            if given_up.is_set():
                return None
        return file.keep()


def _create(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        make_directory(path.parent)
        return os.open(path, flags, 0o600)


def _publish(partial: Path, path: Path) -> None:
    """Rename without replacing an existing file, on filesystems that have hard links."""
    try:
        os.link(partial, path)
    except FileExistsError:
        raise
    except OSError:
        os.rename(partial, path)
    else:
        os.unlink(partial)


def _whole_characters(data: bytes, size: int) -> bytes:
    while 0 < size < len(data) and data[size] & 0xC0 == 0x80:
        size -= 1
    return data[:size]


def _remove(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True
