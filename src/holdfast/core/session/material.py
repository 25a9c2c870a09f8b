"""What is behind the files of a prompt, read once when it is admitted and kept beside it: later turns and replays send
the same bytes, whatever became of the files. What cannot be attached says why."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from holdfast.core.context.canonical import is_folder, printable
from holdfast.core.filesystem.image import ImageError, ImageLimits, image_type, normalize
from holdfast.core.filesystem.text import decode, is_binary
from holdfast.schema.session_event import AttachmentStored

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from holdfast.schema.prompt import FileAttachment, Prompt

TEXT_BYTES = 256 * 1024
MEDIA_BYTES = 20 * 1024 * 1024
TOTAL_CHARACTERS = 64 * 1024 * 1024
"""Of all that one prompt attaches, in which media is base64; what follows is not read."""
TOO_MUCH = "the files before it are all that one prompt can hold"
ENTRIES = 500


class _Refused(Exception):
    """Why a file is not attached."""


async def materialise(
    prompt: Prompt, session_id: str, message_id: str, directory: Path, now: int
) -> list[AttachmentStored]:
    """One event for each file that is named by its place. What came along as data needs none."""
    stored: list[AttachmentStored] = []
    size = 0
    for index, file in enumerate(prompt.files or ()):
        if file.uri.startswith("data:"):
            continue
        content = await asyncio.to_thread(_content, file, directory) if size < TOTAL_CHARACTERS else _note(TOO_MUCH)
        size += sum(map(len, content.values()))
        stored.append(
            AttachmentStored(timestamp=now, session_id=session_id, message_id=message_id, index=index, **content)
        )
    return stored


def _content(file: FileAttachment, directory: Path) -> dict[str, str]:
    try:
        path = _path(file.uri, directory)
        with _opened(path) as handle:
            if handle.folder:
                return {"mime": "text/plain", "text": _listing(path)}
            return _file(handle.read(), path)
    except _Refused as refusal:
        return _note(str(refusal))
    except OSError as error:
        return _note(error.strerror or type(error).__name__)


def _note(why: str) -> dict[str, str]:
    return {"mime": "text/plain", "note": why}


def _path(uri: str, directory: Path) -> Path:
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise _Refused("its address cannot be read") from None
    if parts.scheme not in ("file", "") or parts.netloc not in ("", "localhost"):
        raise _Refused(f"only files can be attached, not {parts.scheme or 'this'}:")
    name = unquote(parts.path) if parts.scheme else uri
    if "\0" in name or not name:
        raise _Refused("its address cannot be read")
    return directory / name


class _opened:
    """Never blocks on what is no file, and looks at exactly what it opened."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> _opened:
        self._handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        mode = os.fstat(self._handle).st_mode
        self.folder = stat.S_ISDIR(mode)
        if not self.folder and not stat.S_ISREG(mode):
            os.close(self._handle)
            raise _Refused("it is neither a file nor a directory")
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def read(self) -> bytes:
        if os.fstat(self._handle).st_size > MEDIA_BYTES:
            raise _Refused(f"it is larger than {MEDIA_BYTES} bytes")
        data = b""
        while (chunk := os.read(self._handle, 1 << 20)) and len(data) <= MEDIA_BYTES:
            data += chunk
        if len(data) > MEDIA_BYTES:
            raise _Refused(f"it is larger than {MEDIA_BYTES} bytes")
        return data


def _file(data: bytes, path: Path) -> dict[str, str]:
    if (kind := image_type(data[:64])) is not None:
        try:
            image, mime = normalize(data, kind, path.name, ImageLimits())
        except ImageError as error:
            raise _Refused(str(error)) from error
        return {"mime": mime, "data": base64.b64encode(image).decode("ascii")}
    if data.startswith(b"%PDF"):
        return {"mime": "application/pdf", "data": base64.b64encode(data).decode("ascii")}
    text = None if is_binary(data[: 64 * 1024]) else decode(_beginning(data))
    if text is None:
        raise _Refused("it is neither text nor an image")
    cut = f"\n[cut here: the file has {len(data)} bytes]" if len(data) > TEXT_BYTES else ""
    return {"mime": "text/plain", "text": text.content + cut}


def _beginning(data: bytes) -> bytes:
    """As much as is attached, up to the end of a line where there is one."""
    if len(data) <= TEXT_BYTES:
        return data
    end = data.rfind(b"\n", 0, TEXT_BYTES) + 1
    return data[: end or TEXT_BYTES]


def _listing(path: Path) -> str:
    with os.scandir(path) as found:
        names = sorted(printable(entry.name) + ("/" if is_folder(entry) else "") for entry in _some(found))
    more = "\n[more entries are not shown]" if len(names) > ENTRIES else ""
    return "\n".join(names[:ENTRIES]) + more


def _some(found: Iterable[os.DirEntry[str]]) -> Iterable[os.DirEntry[str]]:
    for number, entry in enumerate(found):
        if number > ENTRIES:
            return
        yield entry
