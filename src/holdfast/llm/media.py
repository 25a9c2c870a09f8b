"""Media in requests: what counts as valid, and the forms protocols want. Refused here rather than at the provider."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, NamedTuple

from holdfast.llm.errors import invalid_request
from holdfast.schema.session_message import FileContent

if TYPE_CHECKING:
    from holdfast.llm.request import MediaPart

ENCODED_LIMIT = 28 * 1024 * 1024
DECODED_LIMIT = 20 * 1024 * 1024
IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
PDF = "application/pdf"


class Media(NamedTuple):
    mime: str
    data: str
    """Canonical base64."""
    filename: str | None = None

    @property
    def url(self) -> str:
        return f"data:{self.mime};base64,{self.data}"

    @property
    def is_image(self) -> bool:
        return self.mime in IMAGES


def read_media(part: MediaPart | FileContent) -> Media:
    if isinstance(part, FileContent):
        return _checked(part.mime, part.uri, part.name)
    return _checked(part.media_type, part.data, part.filename)


def _checked(declared: str, data: str | bytes, filename: str | None) -> Media:
    mime = declared.lower().partition(";")[0].strip()
    if mime == "image/jpg":
        mime = "image/jpeg"
    if isinstance(data, bytes):
        if len(data) > DECODED_LIMIT:
            raise _too_large(mime)
        return Media(mime, base64.b64encode(data).decode(), filename)
    if data.startswith("data:"):
        head, _, data = data[5:].partition(",")
        kind, *rest = head.split(";")
        if "base64" not in rest:
            raise invalid_request(f"media of type {mime} must be base64")
        if kind.lower().replace("image/jpg", "image/jpeg") != mime:
            raise invalid_request(f"a data URL of type {kind} was declared as {mime}")
    elif "://" in data[:40]:
        raise invalid_request(f"media of type {mime} was not resolved: {data[:80]}")
    if len(data) > ENCODED_LIMIT:
        raise _too_large(mime)
    try:
        decoded = base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise invalid_request(f"media of type {mime} is not valid base64: {error}") from error
    if not decoded or base64.b64encode(decoded).decode() != data:
        raise invalid_request(f"media of type {mime} is empty or not canonical base64")
    if len(decoded) > DECODED_LIMIT:
        raise _too_large(mime)
    return Media(mime, data, filename)


def _too_large(mime: str) -> Exception:
    return invalid_request(f"media of type {mime} is larger than {DECODED_LIMIT // 2**20} MiB")
