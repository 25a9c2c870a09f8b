"""The files of a prompt, resolved before it is admitted: read, recognised by their bytes, images decoded and made to
fit. What cannot be resolved refuses the whole prompt.

Invariants
- Later turns and replays send the same bytes, whatever became of the files: what was behind a path is stored beside the
  prompt. A `data:` URI is its own store; an image that had to be changed takes the place of the one that was sent.
- A retry is recognised without resolving anything again, by what the caller sent."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from holdfast.core.filesystem.canonical import is_folder, printable
from holdfast.core.filesystem.content import (
    MEDIA_BYTES,
    PLAIN,
    Content,
    Unusable,
    data_type,
    examine,
    is_data_uri,
    read_data_uri,
)
from holdfast.core.filesystem.image import ImageLimits
from holdfast.core.session.errors import AttachmentRefused, PromptTooLarge
from holdfast.schema.codec import encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.session_event import AttachmentStored

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from holdfast.schema.location import Location
    from holdfast.schema.prompt import FileAttachment, Prompt

TEXT_BYTES = 4 * 1024 * 1024
"""Limit of a prompt's own text, larger than the window of any model."""
FILES = 64
LABEL_BYTES = 1024 * 1024
"""Limit of the names and descriptions of files and agents."""
DATA_CHARACTERS = 16 * 1024 * 1024
"""Limit of the URIs of a prompt, sent and stored. `data:` URIs contain their content."""
TOTAL_CHARACTERS = 28 * 1024 * 1024
"""Limit of all content stored with one prompt, media as base64. Providers accept requests of about this size."""
ENTRIES = 500
SECONDS = 30.0
AT_ONCE = 2
"""Number of files examined at the same time: decoding an image may use hundreds of megabytes."""

DIRECTORY = "application/x-directory"
ORIGINAL = ";original-sha256="


class Resolved(Frozen):
    """A prompt as it is stored, and the content of its files by their index."""

    prompt: Prompt
    contents: dict[int, Content]

    def events(self, session_id: str, message_id: str, now: int) -> list[AttachmentStored]:
        return [
            AttachmentStored(
                timestamp=now,
                session_id=session_id,
                message_id=message_id,
                index=index,
                mime=content.mime,
                **{content.kind: content.value},
            )
            for index, content in self.contents.items()
        ]


async def default_limits(location: Location) -> ImageLimits:
    return ImageLimits()


class Attachments:
    """`limits` gives the configured image limits of a Location."""

    def __init__(self, limits: Callable[[Location], Awaitable[ImageLimits]] = default_limits) -> None:
        self._limits = limits
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def resolve(self, prompt: Prompt, session_id: str, location: Location) -> Resolved:
        """Raises `AttachmentRefused` or `PromptTooLarge`."""
        if not prompt.files:
            return Resolved(prompt, {})
        limits = await self._limits(location)
        files: list[FileAttachment] = []
        contents: dict[int, Content] = {}
        for index, given in enumerate(prompt.files):
            try:
                file, content = await self._resolve(given, Path(location.directory), limits)
            except Unusable as error:
                raise AttachmentRefused(session_id, index, _name(given), str(error)) from error
            files.append(file)
            if content is not None:
                contents[index] = content
            if sum(len(content.value) for content in contents.values()) > TOTAL_CHARACTERS:
                raise PromptTooLarge(session_id, "prompt.files", "what it attaches", TOTAL_CHARACTERS)
            if sum(len(file.uri) for file in files) > DATA_CHARACTERS:
                raise PromptTooLarge(session_id, "prompt.files", "what it attaches as data", DATA_CHARACTERS)
        return Resolved(replace(prompt, files=tuple(files)), contents)

    async def _resolve(
        self, file: FileAttachment, directory: Path, limits: ImageLimits
    ) -> tuple[FileAttachment, Content | None]:
        """The file as it is stored, and its content unless the URI contains all of it."""
        try:
            async with asyncio.timeout(SECONDS):
                source = await asyncio.to_thread(_read, file, directory)
                if isinstance(source, Content):
                    return replace(file, mime=DIRECTORY), source
                async with self._slots:
                    examined = await asyncio.to_thread(examine, source.data, source.claimed, _name(file), limits)
        except TimeoutError:
            raise Unusable(f"it could not be read within {SECONDS:g} s") from None
        content = examined.content
        stored = replace(file, mime=content.mime)
        if not is_data_uri(file.uri):
            return stored, content
        if not examined.changed:
            return stored, None
        if content.kind != "data":
            return stored, content
        return replace(stored, uri=f"{_changed_header(content.mime, file.uri)},{content.value}"), None


def check_size(prompt: Prompt, session_id: str) -> None:
    """Check the limits that do not depend on the content of files. Raises PromptTooLarge."""
    if len(prompt.text.encode("utf-8", "replace")) > TEXT_BYTES:
        raise PromptTooLarge(session_id, "prompt.text", "its text", TEXT_BYTES)
    files = prompt.files or ()
    if len(files) > FILES:
        raise PromptTooLarge(session_id, "prompt.files", "its list of files", FILES, unit="files")
    if sum(len(file.uri) for file in files) > DATA_CHARACTERS:
        raise PromptTooLarge(session_id, "prompt.files", "what it attaches as data", DATA_CHARACTERS)
    labels = (prompt.agents, [(file.name, file.description, file.source) for file in files])
    if len(encode(labels)) > LABEL_BYTES:
        raise PromptTooLarge(session_id, "prompt", "its names and descriptions", LABEL_BYTES)


def is_retry(known: Prompt, given: Prompt) -> bool:
    """Whether the stored prompt was made from the given one. Media types are not compared: the caller does not send
    them. A prompt that was resolved is compared by what was sent."""
    if known.sent is not None or given.sent is not None:
        return known.sent == given.sent
    if replace(known, files=None, notes=None) != replace(given, files=None, notes=None):
        return False
    one, other = known.files or (), given.files or ()
    return len(one) == len(other) and all(map(_is_same_file, one, other))


def _is_same_file(known: FileAttachment, given: FileAttachment) -> bool:
    told = (known.name, known.description, known.source) == (given.name, given.description, given.source)
    return told and (known.uri == given.uri or known.uri.partition(",")[0] == _changed_header(known.mime, given.uri))


def _changed_header(mime: str, sent: str) -> str:
    """The header of a `data:` URI that replaces another one; it has the digest of the original."""
    digest = hashlib.sha256(sent.encode("utf-8", "replace")).hexdigest()
    return f"data:{mime}{ORIGINAL}{digest};base64"


def _name(file: FileAttachment) -> str:
    if file.name:
        return file.name
    return file.uri if not is_data_uri(file.uri) else f"data of type {file.mime}"


class _Source(Frozen):
    data: bytes
    claimed: str


def _read(file: FileAttachment, directory: Path) -> _Source | Content:
    """Read the bytes of a file, or the listing of a directory. Blocks."""
    if is_data_uri(file.uri):
        return _Source(read_data_uri(file.uri), data_type(file.uri))
    path = _path(file.uri, directory)
    try:
        with _opened(path) as handle:
            if handle.folder:
                return Content("text", PLAIN, _listing(path))
            return _Source(handle.read(), file.mime)
    except OSError as error:
        raise Unusable(error.strerror or type(error).__name__) from error


def _path(uri: str, directory: Path) -> Path:
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise Unusable("its address cannot be read") from None
    if parts.scheme not in ("file", ""):
        raise Unusable(f"only file: and data: addresses can be attached, not {parts.scheme}:")
    if parts.netloc not in ("", "localhost"):
        raise Unusable("a file: address names a file of this machine, not of another host")
    name = unquote(parts.path) if parts.scheme else uri
    if "\0" in name or not name:
        raise Unusable("its address cannot be read")
    return directory / name


class _opened:
    """Opens without blocking on pipes and devices, and checks the type of what was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> _opened:
        self._handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        mode = os.fstat(self._handle).st_mode
        self.folder = stat.S_ISDIR(mode)
        if not self.folder and not stat.S_ISREG(mode):
            os.close(self._handle)
            raise Unusable("it is neither a file nor a directory")
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def read(self) -> bytes:
        """Read at most one byte more than allowed."""
        if os.fstat(self._handle).st_size > MEDIA_BYTES:
            raise Unusable(f"it has more than {MEDIA_BYTES} bytes")
        data = bytearray()
        while len(data) <= MEDIA_BYTES and (chunk := os.read(self._handle, min(1 << 20, MEDIA_BYTES + 1 - len(data)))):
            data += chunk
        return bytes(data)


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
