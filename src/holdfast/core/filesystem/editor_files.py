"""Files as an editor has them open: text that is not saved yet, and changes that go through the editor.

The editor goes by paths. What it answers counts only if the path led to the same file all the time (path_watch.py);
otherwise its text is thrown away. A change goes through the editor only if nothing was exchanged on the way just
before; if something was meanwhile, the change is reported as failed.

Only files that are text are asked for. What the editor does not have, or has as the disk does, is read from the disk;
so a Location without an editor, and a Session that no editor has open, behave as if this module did not exist."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Protocol

from holdfast.core.filesystem.descriptor import read_file
from holdfast.core.filesystem.errors import FileError, FileTooLarge, PathError, TargetMissing, WrongKind
from holdfast.core.filesystem.mutation import MAX_FILE_BYTES
from holdfast.core.filesystem.path_watch import SETTLED_NANOSECONDS, PathWatch
from holdfast.core.filesystem.text import decode, to_lf

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.core.filesystem.location_path import Target

UNSAVED = "{resource} has changes in the editor that are not saved. Ask the user to save it first."
NOT_BY_PATCH = (
    "{resource} has changes in the editor that are not saved. Change it with `edit`, or ask the user to save it."
)
REPLACED = "its path changed while the editor was asked for it, so nothing of the editor's text is used. Try again"
WRITTEN_ELSEWHERE = (
    "its path changed while the editor wrote it, so the text may be in another file. Read it, and look at what changed"
)
ATTEMPTS = 5


class EditorFiles(Protocol):
    """A host option. Both methods return within a bounded time."""

    async def read(self, session_id: str, path: Path) -> str | None:
        """The text of the file in the editor of this Session; None if it has none, or does not tell."""

    async def write(self, session_id: str, path: Path, text: str) -> bool:
        """Let the editor write the file. False if it does not write files for this Session, and nothing happened.
        Raises OSError if it could not."""


class UnsavedFiles:
    """What the tools of a Location know of an editor."""

    def __init__(self, editor: EditorFiles | None, on_edit: Callable[[Path], None], location: Path) -> None:
        """`on_edit` is told of files that the editor has written."""
        self._editor = editor
        self._location = location
        self._on_edit = on_edit

    @property
    def possible(self) -> bool:
        return self._editor is not None

    async def text(self, session_id: str, target: Target) -> str | None:
        """The text in the editor if it differs from that on the disk. Line endings are no difference. Raises FileError
        if the path does not stay as it is meanwhile."""
        if self._editor is None:
            return None
        try:
            saved = await asyncio.to_thread(_saved_text, target)
        except (WrongKind, FileTooLarge, _NotText):
            return None
        text = await self._read(session_id, target)
        if text is None or len(text) > MAX_FILE_BYTES:
            return None
        return None if saved is not None and to_lf(saved) == to_lf(text) else text

    async def write(self, session_id: str, target: Target, data: bytes) -> bool:
        """Whether the editor has written it. Raises OSError."""
        if self._editor is None or (text := decode(data)) is None:
            return False
        if (watch := await self._settled(target, written=True)) is None:
            return False
        if not await self._editor.write(session_id, target.path, text.content):
            return False
        if not await asyncio.to_thread(watch.unchanged, written=True):
            raise OSError(errno.ESTALE, WRITTEN_ELSEWHERE)
        self._on_edit(target.path)
        return True

    async def _read(self, session_id: str, target: Target) -> str | None:
        assert self._editor is not None
        for _ in range(ATTEMPTS):
            watch = await self._settled(target)
            text = await self._editor.read(session_id, target.path)
            if text is None or (watch is not None and await asyncio.to_thread(watch.unchanged)):
                return text
        raise FileError(REPLACED)

    async def _settled(self, target: Target, *, written: bool = False) -> PathWatch | None:
        """None if the path does not stay as it is."""
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(SETTLED_NANOSECONDS / 1e9)
            try:
                watch = await asyncio.to_thread(PathWatch, target, self._location)
            except PathError:
                continue
            if watch.settled(written=written):
                return watch
        return None


class _NotText(Exception):
    pass


def _saved_text(target: Target) -> str | None:
    """None if there is no such file. Blocks."""
    try:
        data = read_file(target, MAX_FILE_BYTES)
    except TargetMissing:
        return None
    text = decode(data)
    if text is None or "\0" in text.content:
        raise _NotText
    return text.content
