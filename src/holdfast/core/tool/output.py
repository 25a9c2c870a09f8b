"""Model Tool Output: one limit for all text of a settlement, and managed files with what did not fit.

Invariants
- A success stays a success: what goes wrong with a file is told to operators, and the preview says that it is lossy.
- A file appears under its name only when it is complete; its owner alone can read it; no name is used twice.
- `structured` is never shortened and never holds a managed path."""

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
from holdfast.core.tool.tool import ToolOutput
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen
from holdfast.schema.session_message import FileContent, TextContent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from pathlib import Path
    from types import TracebackType

    from holdfast.core.clock import Clock, Ids
    from holdfast.core.tool.preview import OutputLimits

PREFIX = "tool_"
UNFINISHED = ".part"
FILE_BYTES = 64 * 1024 * 1024
FILE_CUT = b"\n\n[output cut here: the rest exceeds the size of a saved file]\n"
QUOTA_BYTES = 1024 * 1024 * 1024
RETENTION_SECONDS = 7 * 24 * 60 * 60
SWEEP_SECONDS = 60 * 60
WRITE_SECONDS = 10.0

log = logging.getLogger(__name__)


class OutputNotSaved(HoldfastError):
    """Why an output could not be kept. For operators; the model sees only that it was not."""

    def __init__(self, operation: Literal["encode", "write"], cause: Exception) -> None:
        super().__init__(f"Failed to {operation} tool output: {cause}")
        self.operation = operation
        self.cause = cause


async def bound(output: ToolOutput, limits: OutputLimits, store: OutputStore | None) -> ToolOutput:
    """The output itself if its text fits, else a preview of it. Without a store, what is cut is lost."""
    if fits(_measured(output), limits):
        return output.replace(content=tuple(map(_scrubbed, output.content)))
    taken = await asyncio.to_thread(sample, _measured(output), limits)
    saved = await store.save(_measured(output)) if store is not None else None
    text = preview(taken, limits, saved.marker if saved is not None else LOST)
    return ToolOutput(
        output.structured,
        (TextContent(text=text), *(part for part in output.content if isinstance(part, FileContent))),
        tuple(dict.fromkeys((*output.output_paths, *((str(saved.path),) if saved is not None else ())))),
    )


def _measured(output: ToolOutput) -> Iterator[str]:
    """What counts: the text parts as one text, or the structured value when there is no content."""
    if not output.content:
        return pretty(output.structured)
    return (part.text for part in output.content if isinstance(part, TextContent))


def _scrubbed(part: TextContent | FileContent) -> TextContent | FileContent:
    if isinstance(part, FileContent) or (text := scrub(part.text)) is part.text:
        return part
    return TextContent(text=text)


class Saved(Frozen):
    path: Path
    complete: bool

    @property
    def marker(self) -> str:
        return (SAVED if self.complete else PARTLY_SAVED).format(path=self.path)


class OutputStore:
    """The managed directory, one per process and data directory."""

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
        self._late: set[asyncio.Task[Saved | None]] = set()
        self._accounting = threading.Lock()
        self._used: int | None = None
        """Bytes in the directory, as far as this process knows."""

    def open_managed(self) -> ManagedFile:
        """A file that a tool fills itself. Nothing is created before the first write."""
        return ManagedFile(self.directory / self._ids.of("tool"), self._largest, self._account)

    async def save(self, pieces: Iterable[str]) -> Saved | None:
        """A new managed file with this text; None when it could not be had in time."""
        file, given_up = self.open_managed(), threading.Event()
        writing = asyncio.ensure_future(asyncio.to_thread(_write, file, pieces, given_up))
        await asyncio.wait({writing}, timeout=self._deadline)
        if writing.done():
            return writing.result()
        given_up.set()
        log.error("%s", OutputNotSaved("write", TimeoutError(f"not done after {self._deadline} s")))
        self._late.add(writing)
        writing.add_done_callback(self._drop)
        return None

    def is_managed(self, path: Path) -> bool:
        """Whether this is one of our files: directly in the directory, by its name, and no link."""
        if not path.name.startswith(PREFIX) or path.name.endswith(UNFINISHED):
            return False
        try:
            inside = path.parent.resolve(strict=True) == self.directory.resolve(strict=True)
            return inside and stat.S_ISREG(path.lstat().st_mode)
        except (OSError, RuntimeError, ValueError):
            return False

    async def sweep_hourly(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Until cancelled. Run it once per process."""
        while True:
            await asyncio.to_thread(self.sweep)
            await sleep(SWEEP_SECONDS)

    def sweep(self) -> None:
        """Remove what is older than the retention, then the oldest beyond the quota."""
        oldest = self._clock.now() / 1000 - RETENTION_SECONDS
        with self._accounting:
            self._trim([entry for entry in self._entries() if not (entry.changed < oldest and _remove(entry.path))])

    def _drop(self, writing: asyncio.Task[Saved | None]) -> None:
        """It finished after all, when its call was already settled without it."""
        self._late.discard(writing)
        if not writing.cancelled() and writing.exception() is None and (saved := writing.result()) is not None:
            _remove(str(saved.path))

    def _account(self, size: int) -> None:
        """After each new file. The directory is read again only when it may be over the quota."""
        with self._accounting:
            if self._used is not None:
                self._used += size
            if self._used is None or self._used > self._quota:
                self._trim(self._entries())

    def _trim(self, entries: list[_Entry]) -> None:
        used = sum(entry.size for entry in entries)
        finished = [entry for entry in entries if not entry.name.endswith(UNFINISHED)]
        for entry in finished[:-1]:  # the newest stays, whatever its size
            if used <= self._quota:
                break
            if _remove(entry.path):
                used -= entry.size
        self._used = used

    def _entries(self) -> list[_Entry]:
        """Ours alone, oldest first."""
        found = []
        with suppress(OSError), os.scandir(self.directory) as scan:
            for item in scan:
                if item.name.startswith(PREFIX):
                    with suppress(OSError):
                        status = item.stat(follow_symlinks=False)
                        found.append(_Entry(status.st_mtime, item.name, status.st_size, item.path))
        return sorted(found)


class ManagedFile:
    """A bounded writer which never raises: what cannot be written is dropped, and `keep` says so. Leaving it without
    `keep` removes what was written. Its methods block for the time of the disk."""

    def __init__(self, path: Path, largest: int, account: Callable[[int], None]) -> None:
        self.path = path
        self.complete = True
        """Whether everything that was written is in it."""
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

    def keep(self) -> Saved | None:
        """Give it its name. None when there is nothing to name: something failed, or nothing was written."""
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
        return Saved(self.path, self.complete)

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def _fail(self, error: OSError) -> None:
        log.error("%s", OutputNotSaved("write", error))
        self.complete = False
        self.discard()


class _Entry(NamedTuple):
    changed: float
    name: str
    size: int
    path: str


def _write(file: ManagedFile, pieces: Iterable[str], given_up: threading.Event) -> Saved | None:
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
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(path.parent, 0o700)
        return os.open(path, flags, 0o600)


def _publish(partial: Path, path: Path) -> None:
    """A rename that never takes the place of another file, where the filesystem has links."""
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
