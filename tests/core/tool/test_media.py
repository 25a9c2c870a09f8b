"""Files in the results of tools: made fit to be sent, or named."""

from __future__ import annotations

import asyncio
import base64
import io
import threading

import pytest
from PIL import Image

from holdfast.core.filesystem.image import ImageLimits
from holdfast.core.tool import media
from holdfast.core.tool.media import normalise_media
from holdfast.core.tool.tool import ToolOutput
from holdfast.schema.session_message import FileContent, TextContent, ToolContent

pytestmark = pytest.mark.anyio
LIMITS = ImageLimits(40, 40)


def picture(width: int, height: int, format: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(file, format)
    return file.getvalue()


def file(data: bytes, mime: str, name: str | None = "it") -> FileContent:
    return FileContent(uri=f"data:{mime};base64,{base64.b64encode(data).decode()}", mime=mime, name=name)


async def normalised(*content: ToolContent) -> tuple[ToolContent, ...]:
    return (await normalise_media(ToolOutput({}, content), LIMITS, asyncio.Semaphore(1))).content


async def test_images_fit_and_documents_stay() -> None:
    """SES-231: what needs no change is not changed."""
    small, pdf, text = file(picture(8, 4), "image/png"), file(b"%PDF-1.7", "application/pdf"), TextContent(text="t")
    large = file(picture(80, 40, "BMP"), "image/bmp")
    first, second, third, fourth = await normalised(text, small, pdf, large)
    assert (first, second, third) == (text, small, pdf)
    assert isinstance(fourth, FileContent)
    assert (fourth.mime, fourth.name) == ("image/png", "it")
    assert Image.open(io.BytesIO(base64.b64decode(fourth.uri.partition(",")[2]))).size == (40, 20)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (file(b"<svg/>", "image/svg+xml"), "[file: it]\n<svg/>"),
        (
            file(b"PK\3\4\0", "application/zip", None),
            "[application/zip was left out: it is neither text nor an image (application/zip, 5 bytes)]",
        ),
        (file(b"\x89PNG\r\n\x1a\n", "image/png"), "[it was left out: Image could not be decoded: it]"),
        (
            FileContent(uri="data:image/png;base64,@", mime="image/png", name="it"),
            "[it was left out: its base64 is broken]",
        ),
        (FileContent(uri="file:///x", mime="image/png"), "[image/png was left out: a tool's file must be a data: URI]"),
    ],
)
async def test_a_file_that_cannot_be_sent_becomes_text(item: FileContent, expected: str) -> None:
    """SES-232: the call succeeded, so that its result is not turned into a failure."""
    assert await normalised(item) == (TextContent(text=expected),)


async def test_an_image_that_takes_too_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-144: the wait is bounded."""
    answered = threading.Event()
    monkeypatch.setattr(media, "SECONDS", 0.05)
    monkeypatch.setattr(media, "examine", lambda *given: answered.wait(10))
    try:
        (note,) = await normalised(file(picture(8, 4), "image/png"))
    finally:
        answered.set()
    assert note == TextContent(text="[it was left out: it could not be read within 0.05 s]")
