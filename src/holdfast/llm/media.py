"""Media in requests: validation, and the note that replaces media which cannot be sent.

Invariant: no media fails a request. Broken media, and media that a protocol or a model does not accept, are replaced by
a short text."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from holdfast.llm.errors import LLMError, invalid_request, redact_url
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern
from holdfast.schema.session_message import FileContent

if TYPE_CHECKING:
    from holdfast.llm.request import MediaPart

ENCODED_LIMIT = 28 * 1024 * 1024
DECODED_LIMIT = 20 * 1024 * 1024
IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
PDF = "application/pdf"
NO_IMAGE = "[an image was left out: this model cannot see images]"
_SAME = {"image/jpg": "image/jpeg"}
_TEXTUAL = frozenset(
    ("application/json", "application/xml", "application/yaml", "application/toml", "application/javascript")
)
NAME_CHARACTERS = 200
_IMAGE_WORDS = pattern(r"image|vision|multimodal|multi-modal|mmproj", re.IGNORECASE)
_URI = pattern(r"[A-Za-z][A-Za-z0-9+.-]*:")


class Media(Frozen):
    mime: str
    data: str
    """Canonical base64."""
    filename: str | None = None
    source: str | None = None
    """Path of the file, if it came from one."""

    @property
    def url(self) -> str:
        return f"data:{self.mime};base64,{self.data}"

    @property
    def is_image(self) -> bool:
        return self.mime in IMAGES

    @property
    def is_text(self) -> bool:
        return self.mime.startswith("text/") or self.mime in _TEXTUAL

    @property
    def text(self) -> str:
        """A text file as text, with its name."""
        content = base64.b64decode(self.data).decode("utf-8", "replace")
        return f"[file: {self.filename or self.mime}]\n{content}"


def read_media(part: MediaPart | FileContent) -> Media:
    if isinstance(part, FileContent):
        return _checked(part.mime, part.uri, part.name)
    source = (part.metadata or {}).get("source")
    media = _checked(part.media_type, part.data, part.filename)
    return media.replace(source=source) if isinstance(source, str) else media


def readable(part: MediaPart | FileContent) -> Media | str:
    """The decoded media, or the note that replaces it if no protocol could send it."""
    try:
        return read_media(part)
    except LLMError as error:
        name = part.name if isinstance(part, FileContent) else part.filename
        return left_out(name, error.message)


def cannot_hold(protocol: str, media: Media) -> str:
    """The note for media that a protocol cannot send."""
    return _named(media, f"{protocol} requests cannot hold {media.mime}")


def no_documents(media: Media) -> str:
    return _named(media, "this model takes no PDF documents")


def left_out(name: str | None, why: str) -> str:
    shown = " ".join((name or "a file").split())[:NAME_CHARACTERS]
    return f"[{shown} was left out: {why}]"


def refuses_media(reason: str, message: str) -> bool:
    """Whether media may have caused a provider's failure: it refused the request or its content, or, as some local
    servers do, failed with a message about images."""
    if reason in ("ProviderInternal", "UnknownProvider"):
        return _IMAGE_WORDS.search(message) is not None
    return reason in ("InvalidRequest", "ContentPolicy")


def _named(media: Media, why: str) -> str:
    place = f". It is at {media.source}; a tool may be able to read it" if media.source else ""
    return left_out(media.filename or media.mime, why + place)


def _checked(declared: str, data: str | bytes, filename: str | None) -> Media:
    mime = _mime(declared)
    if isinstance(data, bytes):
        if not data:
            raise _empty(mime)
        if len(data) > DECODED_LIMIT:
            raise _too_large(mime)
        return Media(mime, base64.b64encode(data).decode(), filename)
    if data[:5].lower() == "data:":
        encoded = _of_data_url(mime, data)
    elif _URI.match(data):
        raise invalid_request(f"media of type {mime} was not resolved: {redact_url(data)[:80]}")
    else:
        encoded = data
    if len(encoded) > ENCODED_LIMIT:
        raise _too_large(mime)
    try:
        decoded = base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise invalid_request(f"media of type {mime} is not valid base64: {error}") from error
    if not decoded:
        raise _empty(mime)
    if len(decoded) > DECODED_LIMIT:
        raise _too_large(mime)
    if base64.b64encode(decoded).decode() != encoded:
        raise invalid_request(f"media of type {mime} is not canonical base64")
    return Media(mime, encoded, filename)


def _of_data_url(mime: str, url: str) -> str:
    head, _, data = url[5:].partition(",")
    kind, *rest = head.split(";")
    if "base64" not in (word.strip().lower() for word in rest):
        raise invalid_request(f"media of type {mime} must be base64")
    if _mime(kind) != mime:
        raise invalid_request(f"a data URL of type {kind[:80]} was declared as {mime}")
    return data


def _mime(declared: str) -> str:
    mime = declared.lower().partition(";")[0].strip()
    return _SAME.get(mime, mime)


def _empty(mime: str) -> LLMError:
    return invalid_request(f"media of type {mime} is empty")


def _too_large(mime: str) -> LLMError:
    return invalid_request(f"media of type {mime} is larger than {DECODED_LIMIT // 2**20} MiB")
