"""What bytes are to a model, whatever somebody says that they are."""

from __future__ import annotations

import base64
import io
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from holdfast.core.filesystem.content import (
    MEDIA_BYTES,
    TEXT_BYTES,
    Content,
    Examined,
    Unusable,
    data_type,
    examine,
    read_data_uri,
    recognise,
)
from holdfast.core.filesystem.image import ImageLimits

LIMITS = ImageLimits(40, 40)


def picture(format: str, size: tuple[int, int] = (8, 4)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, "red").save(file, format)
    return file.getvalue()


def size(content: Content) -> tuple[int, int]:
    return Image.open(io.BytesIO(base64.b64decode(content.value))).size


@pytest.mark.parametrize(
    ("format", "mime"),
    [
        ("PNG", "image/png"),
        ("JPEG", "image/jpeg"),
        ("GIF", "image/gif"),
        ("WEBP", "image/webp"),
        ("BMP", "image/png"),
        ("TIFF", "image/png"),
        ("AVIF", "image/png"),
    ],
)
@pytest.mark.parametrize("claimed", ["image/png", "text/plain", "application/octet-stream", "application/pdf"])
def test_an_image_is_told_by_its_bytes(format: str, mime: str, claimed: str) -> None:
    """SES-231: and what no provider takes becomes PNG."""
    content = examine(picture(format), claimed, "f", LIMITS).content
    assert (content.kind, content.mime, size(content)) == ("data", mime, (8, 4))
    large = examine(picture(format, (80, 40)), claimed, "f", LIMITS).content
    assert size(large) == (40, 20)


@pytest.mark.parametrize(
    ("data", "claimed", "expected"),
    [
        (b"%PDF-1.7", "text/plain", Content("data", "application/pdf", "JVBERi0xLjc=")),
        (b"<svg/>", "image/svg+xml", Content("text", "image/svg+xml", "<svg/>")),
        (b"<html>", "image/png", Content("text", "text/plain", "<html>")),
        ("ä".encode("utf-16"), "text/csv", Content("text", "text/csv", "ä")),
        (b"\xef\xbb\xbfhi", "text/plain", Content("text", "text/plain", "hi")),
        (b"BM is no bitmap", "text/plain", Content("text", "text/plain", "BM is no bitmap")),
        (b"PK\3\4\0", "application/zip", None),
        (b"\0\0\1\0\1\0", "image/x-icon", None),
    ],
)
def test_a_claimed_media_type_counts_only_where_the_bytes_are_unknown(
    data: bytes, claimed: str, expected: Content | None
) -> None:
    """SES-232: a claimed type counts only where the bytes say nothing."""
    note = Content("note", claimed, f"it is neither text nor an image ({claimed}, {len(data)} bytes)")
    assert examine(data, claimed, "f", LIMITS) == Examined(expected or note, changed=False)
    assert recognise(data, claimed) == (expected or note)


def test_text_in_an_older_encoding_is_guessed_only_where_it_is_stored() -> None:
    """SES-164, SES-232: a guess may change from one version to the next, so that history is not lowered by it."""
    data = "grüße aus köln, schön hier, viele grüße".encode("cp1252")
    examined = examine(data, "text/plain", "f", LIMITS)
    assert ("schön" in examined.content.value, examined.changed) == (True, True)
    assert recognise(data, "text/plain").kind == "note"


@pytest.mark.parametrize(
    ("data", "claimed", "reason"),
    [
        (b"", "text/plain", "it is empty"),
        (bytes(MEDIA_BYTES + 1), "application/zip", "more than 20971520 bytes"),
        (b"\0\1\2", "image/jpeg", "said to be image/jpeg"),
        (b"\0\1\2", "application/pdf", "said to be application/pdf"),
    ],
)
def test_broken_media_is_refused(data: bytes, claimed: str, reason: str) -> None:
    """SES-233"""
    with pytest.raises(Unusable, match=reason):
        examine(data, claimed, "f", LIMITS)
    assert recognise(data, claimed).kind in ("note", "data")


@pytest.mark.parametrize("data", [picture("PNG")[:30], b"II*\0\0\0\0\0"])
def test_an_image_that_cannot_be_decoded_is_a_note(data: bytes) -> None:
    """SES-233."""
    examined = examine(data, "image/png", "f", LIMITS)
    assert (examined.content.kind, examined.content.value) == ("note", "Image could not be decoded: f")
    assert examined.changed


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("line", ["äöü 0123456789\n", "ä"])
def test_long_text_is_cut_between_characters(encoding: str, line: str) -> None:
    """SES-232: at the end of a line where there is one."""
    data = (line * TEXT_BYTES)[:TEXT_BYTES].encode(encoding)
    content = recognise(data, "text/plain")
    text, cut = content.value.split("\n[cut here: ")
    assert cut == f"the file has {len(data)} bytes]"
    assert set(text) <= set(line)
    assert TEXT_BYTES - 100 < len((text + "\n").encode(encoding)) <= TEXT_BYTES + 4
    whole = "x" * TEXT_BYTES
    assert recognise(whole.encode(), "text/plain").value == whole


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("data:,a%20b", b"a b"),
        ("data:text/plain;charset=utf-8,%C3%A4", b"\xc3\xa4"),
        ("DATA:text/plain;BASE64,aGk=", b"hi"),
        ("data:;base64,aG\nk%3D", b"hi"),
        ("data:text/plain;base64,", b""),
    ],
)
def test_a_data_uri_is_decoded(uri: str, expected: bytes) -> None:
    """SES-230"""
    assert read_data_uri(uri) == expected
    assert data_type(uri) == "text/plain"


@pytest.mark.parametrize(
    "uri", ["data:", "data:image/png;base64", "data:;base64,@", "data:;base64,aGk", "data:;base64,ä"]
)
def test_a_broken_data_uri_is_refused(uri: str) -> None:
    """SES-233"""
    with pytest.raises(Unusable):
        read_data_uri(uri)


HEADS = [
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",
    b"GIF89a",
    b"RIFF0000WEBP",
    b"%PDF",
    b"BM" + bytes(12) + b"\x28\0\0\0",
    b"II*\0",
]


@settings(max_examples=200, deadline=None)
@given(
    head=st.sampled_from([b"", *HEADS]),
    tail=st.binary(max_size=100),
    claimed=st.sampled_from(["image/png", "text/plain", "application/zip", ""]),
)
def test_any_bytes_are_recognised_or_refused(head: bytes, tail: bytes, claimed: str) -> None:
    """SES-233, SES-236: one is total, the other answers or refuses."""
    assert recognise(head + tail, claimed).kind in ("text", "data", "note")
    with suppress(Unusable):
        examined = examine(head + tail, claimed, "f", LIMITS)
        assert (examined.content == recognise(head + tail, claimed)) is not examined.changed
