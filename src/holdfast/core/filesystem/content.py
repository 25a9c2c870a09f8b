"""Converts a file into content for a model: text, media, or a note that only names it. The bytes decide; the claimed
type counts only where the bytes do not tell.

Invariants
- `recognise` is a pure function of the bytes and the claimed type, and never fails: history is rebuilt with it.
- `examine` does the same and more: it decodes and resizes images, and rejects unusable files. An image that cannot be
  decoded becomes a note."""

from __future__ import annotations

import base64
import binascii
import codecs
from typing import Literal
from urllib.parse import unquote_to_bytes

from holdfast.core.filesystem.image import (
    CONVERTED,
    ImageBroken,
    ImageError,
    ImageLimits,
    convertible_type,
    image_type,
    normalize,
)
from holdfast.core.filesystem.text import SAMPLE_BYTES, UTF8, Text, bom_encoding, decode, is_binary
from holdfast.schema.frozen import Frozen

TEXT_BYTES = 256 * 1024
MEDIA_BYTES = 20 * 1024 * 1024
PDF = "application/pdf"
PLAIN = "text/plain"
UNKNOWN = "application/octet-stream"
NATIVE = ("image/png", "image/jpeg", "image/gif", "image/webp")
HEAD = 64
TYPE_CHARACTERS = 100


Kind = Literal["text", "data", "note"]


class Content(Frozen):
    kind: Kind
    mime: str
    value: str
    """The text, the base64 data, or the reason why there is no content."""


class Examined(Frozen):
    content: Content
    changed: bool
    """Whether `recognise` gives another result for the same bytes."""


class Unusable(Exception):
    """Why a source cannot be used: broken, empty, or too large."""


def is_data_uri(uri: str) -> bool:
    return uri[:5].lower() == "data:"


def data_type(uri: str) -> str:
    """The media type that a `data:` URI claims."""
    end = uri.find(",")  # searched first, to avoid copying megabytes of content
    claimed = uri[5 : end if end >= 0 else None].partition(";")[0].strip().lower()
    return claimed[:TYPE_CHARACTERS] or PLAIN


def read_data_uri(uri: str) -> bytes:
    """Decode a `data:` URI. Base64 must be complete; escapes and white space in it are allowed."""
    comma = uri.find(",")
    if comma < 0:
        raise Unusable("it is no complete data: URI, which has a comma before its content")
    header, content = uri[5:comma], uri[comma + 1 :]
    if "base64" not in (word.strip().lower() for word in header.split(";")[1:]):
        return unquote_to_bytes(content)
    try:
        plain = content.encode("ascii") if "%" not in content else unquote_to_bytes(content)
        return base64.b64decode(b"".join(plain.split()), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise Unusable("its base64 is broken") from None


def recognise(data: bytes, claimed: str) -> Content:
    """Convert the bytes without decoding images."""
    if not data:
        return Content("note", claimed, "it is empty")
    if (mime := image_type(data[:HEAD])) is not None:
        return _media(data, mime)
    if data.startswith(b"%PDF"):
        return _media(data, PDF)
    if (text := _plain_text(data)) is not None:
        return _text(data, text, claimed)
    return Content("note", claimed, f"it is neither text nor an image ({claimed}, {len(data)} bytes)")


def examine(data: bytes, claimed: str, name: str, limits: ImageLimits) -> Examined:
    """Convert the bytes into a form that providers accept. Raises `Unusable`. Slow; run it in a thread."""
    if not data:
        raise Unusable("it is empty")
    if len(data) > MEDIA_BYTES:
        raise Unusable(f"it has more than {MEDIA_BYTES} bytes")
    if (mime := image_type(data[:HEAD]) or convertible_type(data[:HEAD])) is not None:
        try:
            image, mime = normalize(data, mime, name, limits)
        except ImageBroken as error:
            return Examined(
                Content("note", mime, str(error)), changed=True
            )  # the recorded contract accepts such images
        except ImageError as error:
            raise Unusable(str(error)) from error
        return Examined(_media(image, mime), changed=image is not data)
    found = recognise(data, claimed)
    if found.kind != "note":
        return Examined(found, changed=False)
    if claimed in (*NATIVE, *CONVERTED, PDF):
        raise Unusable(f"it is said to be {claimed}, and its bytes are not")
    text = None if is_binary(data[:SAMPLE_BYTES]) else decode(_beginning(data))
    return Examined(found, changed=False) if text is None else Examined(_text(data, text, claimed), changed=True)


def _media(data: bytes, mime: str) -> Content:
    return Content("data", mime, base64.b64encode(data).decode("ascii"))


def _text(data: bytes, text: Text, claimed: str) -> Content:
    cut = f"\n[cut here: the file has {len(data)} bytes]" if len(data) > TEXT_BYTES else ""
    unlikely = claimed in (*NATIVE, *CONVERTED, PDF, UNKNOWN)
    return Content("text", PLAIN if unlikely else claimed, text.content + cut)


def _plain_text(data: bytes) -> Text | None:
    """Decode UTF-8, or the encoding of a byte order mark. Never guesses: guesses could change with the library."""
    if is_binary(data[:SAMPLE_BYTES]):
        return None
    encoding = bom_encoding(data) or UTF8
    decoder = codecs.getincrementaldecoder(encoding.name)()
    try:
        text = decoder.decode(data[len(encoding.bom) : TEXT_BYTES], final=len(data) <= TEXT_BYTES)
    except UnicodeDecodeError:
        return None
    if len(data) > TEXT_BYTES:
        text = text[: text.rfind("\n") + 1] or text
    return Text(text, encoding)


def _beginning(data: bytes) -> bytes:
    """At most `TEXT_BYTES` bytes, cut after the last line ending if there is one."""
    if len(data) <= TEXT_BYTES:
        return data
    return data[: data.rfind(b"\n", 0, TEXT_BYTES) + 1] or data[:TEXT_BYTES]
