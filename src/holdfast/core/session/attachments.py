"""The files of a prompt, resolved before it is admitted: read, recognised by their bytes, images decoded and made to
fit. A file of the caller that cannot be resolved refuses the whole prompt; one that the text mentions becomes a note.

Invariants
- Later turns and replays send the same bytes, whatever became of the files: what was behind a path is stored beside the
  prompt. A `data:` URI is its own store; an image that had to be changed takes the place of the one that was sent.
- A retry is recognised without resolving anything again, by what the caller sent."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.filesystem.content import (
    HEAD,
    Content,
    Examined,
    Unusable,
    data_type,
    examine,
    is_data_uri,
    read_data_uri,
)
from holdfast.core.filesystem.image import ImageLimits, convertible_type, image_type
from holdfast.core.session.attachment_source import Source, read_address
from holdfast.core.session.input_errors import AttachmentRefused, PromptTooLarge
from holdfast.core.session.mentioned import not_attached
from holdfast.schema.codec import encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.session_event import AttachmentStored

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from holdfast.core.session.mentioned import Mentioned
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
SECONDS = 30.0
AT_ONCE = 2
"""Number of files examined at the same time: decoding an image may use hundreds of megabytes."""

FULL = "the prompt has as many attachments as it may have"
ORIGINAL = ";original-sha256="


class AttachmentSource(Frozen):
    read: Callable[[], Source | Content]
    """Blocks. Raises Unusable."""
    name: str


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

    async def resolve(
        self, prompt: Prompt, session_id: str, location: Location, mentioned: Mentioned | None = None
    ) -> Resolved:
        """Read the files of a prompt, and add what its text mentions as far as the limits allow; the rest becomes a
        note. Raises `AttachmentRefused` or `PromptTooLarge` for the prompt's own files."""
        files: list[FileAttachment] = []
        contents: dict[int, Content] = {}
        limits = await self._limits(location) if prompt.files else ImageLimits()
        for index, given in enumerate(prompt.files or ()):
            try:
                read = mentioned.own.get(index) if mentioned is not None else None
                file, content = await self._resolve(given, Path(location.directory), limits, read)
            except Unusable as error:
                raise AttachmentRefused(session_id, index, _name(given), str(error)) from error
            files.append(file)
            if content is not None:
                contents[index] = content
            if _total(contents) > TOTAL_CHARACTERS:
                raise PromptTooLarge(session_id, "prompt.files", "what it attaches", TOTAL_CHARACTERS)
            if sum(len(file.uri) for file in files) > DATA_CHARACTERS:
                raise PromptTooLarge(session_id, "prompt.files", "what it attaches as data", DATA_CHARACTERS)
        resolved = replace(prompt, files=tuple(files) or None)
        return Resolved(resolved, contents) if mentioned is None else _with_mentioned(resolved, contents, mentioned)

    async def read(
        self, sources: Sequence[AttachmentSource], limits: ImageLimits
    ) -> AsyncGenerator[Examined | Unusable, None]:
        """Read and examine sources in threads, in their order. Several texts share a thread; media are given one by
        one, so that a caller that has enough of them can stop."""
        done = 0
        while done < len(sources):
            found: list[Examined | Source | Unusable] = []
            try:
                async with asyncio.timeout(SECONDS):
                    await asyncio.to_thread(_examine, sources[done:], limits, found)
                    if isinstance(image := found[-1], Source):
                        found[-1] = await self._examine_image(image, sources[done + len(found) - 1].name, limits)
            except TimeoutError:
                found = [item for item in found if not isinstance(item, Source)]  # a copy: the thread may go on
                found.append(Unusable(f"it could not be read within {SECONDS:g} s"))
            for item in found:
                assert not isinstance(item, Source)
                yield item
            done += len(found)

    async def _examine_image(self, image: Source, name: str, limits: ImageLimits) -> Examined | Unusable:
        async with self._slots:
            try:
                return await asyncio.to_thread(examine, image.data, image.claimed, name, limits)
            except Unusable as error:
                return error

    async def _resolve(
        self, file: FileAttachment, directory: Path, limits: ImageLimits, read: Source | Content | None
    ) -> tuple[FileAttachment, Content | None]:
        """The file as it is stored, and its content unless the URI contains all of it. `read` is what is behind it, if
        that was read before."""
        source = AttachmentSource(lambda: read or _read(file, directory), _name(file))
        async with aclosing(self.read((source,), limits)) as found:
            examined = await anext(found)
        if isinstance(examined, Unusable):
            raise examined
        content = examined.content
        stored = replace(file, mime=content.mime)
        if not is_data_uri(file.uri):
            return stored, content
        if not examined.changed:
            return stored, None
        if content.kind != "data":
            return stored, content
        return replace(stored, uri=f"{_changed_header(content.mime, file.uri)},{content.value}"), None


def _with_mentioned(prompt: Prompt, contents: dict[int, Content], mentioned: Mentioned) -> Resolved:
    files, agents, notes = list(prompt.files or ()), [*(prompt.agents or ())], [*(prompt.notes or ())]
    total = _total(contents)
    for file in mentioned.files:
        total += len(file.content.value)
        if len(files) >= FILES or total > TOTAL_CHARACTERS:
            total -= len(file.content.value)
            notes.append(not_attached(file.text, FULL))
            continue
        contents[len(files)] = file.content
        files.append(file.attachment)
    named = {agent.name for agent in agents}
    agents += (agent for agent in mentioned.agents if agent.name not in named)
    return Resolved(
        replace(
            prompt,
            files=tuple(files) or None,
            agents=tuple(agents) or None,
            notes=(*notes, *mentioned.notes) or None,
        ),
        contents,
    )


def _total(contents: dict[int, Content]) -> int:
    return sum(len(content.value) for content in contents.values())


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
    """Whether the stored prompt was made from the given one. A prompt that was resolved is compared by the digest of
    what was sent. Media types are not compared: the caller does not send them."""
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


def _read(file: FileAttachment, directory: Path) -> Source | Content:
    if is_data_uri(file.uri):
        return Source(read_data_uri(file.uri), data_type(file.uri))
    return read_address(file.uri, directory, file.mime)


def _examine(
    sources: Sequence[AttachmentSource], limits: ImageLimits, found: list[Examined | Source | Unusable]
) -> None:
    """Read and examine sources up to the first that is not text; an image is only read. Blocks."""
    for source in sources:
        try:
            item = _examine_text(source, limits)
        except Unusable as error:
            item = error
        found.append(item)
        if isinstance(item, Source) or (isinstance(item, Examined) and item.content.kind == "data"):
            return


def _examine_text(source: AttachmentSource, limits: ImageLimits) -> Examined | Source | Unusable:
    found = source.read()
    if isinstance(found, Content):
        return Examined(found, changed=False)
    head = found.data[:HEAD]
    is_image = image_type(head) is not None or convertible_type(head) is not None
    return found if is_image else examine(found.data, found.claimed, source.name, limits)
