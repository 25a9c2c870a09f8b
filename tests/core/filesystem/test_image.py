"""Images: recognised by their bytes, made to fit, and never a bomb."""

from __future__ import annotations

import base64
import io
import random
import struct
import zlib

import pytest
from PIL import Image

from holdfast.core.filesystem.image import MAX_SIZES, ImageError, ImageLimits, _sizes, image_type, normalize


def encoded(image: Image.Image, format: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def noise(width: int, height: int) -> Image.Image:
    return Image.frombytes("RGB", (width, height), random.Random(7).randbytes(width * height * 3))


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims to be large and has a few bytes."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("head", "mime"),
    [
        (b"\x89PNG\r\n\x1a\n....", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"GIF87a", "image/gif"),
        (b"RIFF1234WEBPVP8 ", "image/webp"),
        (b"RIFF1234WAVE", None),
        (b"\x89PNG", None),
        (b"", None),
    ],
)
def test_an_image_type_is_recognised_by_its_signature(head: bytes, mime: str | None) -> None:
    """TOL-140."""
    assert image_type(head) == mime


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "WEBP"])
def test_within_the_limits_it_is_unchanged(format: str) -> None:
    """TOL-142: byte for byte, at exactly the limit too."""
    data = encoded(noise(20, 10), format)
    limits = ImageLimits(max_width=20, max_height=10, max_base64_bytes=len(base64.b64encode(data)))
    assert normalize(data, "image/x", "f", limits) == (data, "image/x")


def test_without_resizing_it_is_refused() -> None:
    """TOL-142: with its size and the limits."""
    data = encoded(Image.new("RGB", (30, 10)))
    limits = ImageLimits(max_width=20, max_height=20, auto_resize=False)
    with pytest.raises(ImageError) as refused:
        normalize(data, "image/png", "a.png", limits)
    size = len(base64.b64encode(data))
    expected = f"Image a.png is 30x10 with base64 size {size}, exceeding configured limits 20x20/5242880 bytes"
    assert str(refused.value) == expected


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n", b"\x89PNG\r\n\x1a\ngarbage", b"GIF89a", b"\xff\xd8\xff"])
def test_an_image_that_cannot_be_decoded_is_refused(data: bytes) -> None:
    """TOL-142: a signature alone is no image."""
    with pytest.raises(ImageError, match="Image could not be decoded: f"):
        normalize(data, "image/png", "f", ImageLimits())


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_truncated_image_is_refused(format: str) -> None:
    """TOL-142: a provider would refuse the whole request."""
    data = encoded(noise(64, 64), format)
    with pytest.raises(ImageError, match="could not be decoded"):
        normalize(data[: len(data) // 2], "image/png", "f", ImageLimits())


@pytest.mark.parametrize(
    ("size", "expected"), [((400, 100), (200, 50)), ((100, 400), (50, 200)), ((4000, 1), (200, 1))]
)
def test_a_large_image_is_scaled_to_fit(size: tuple[int, int], expected: tuple[int, int]) -> None:
    """TOL-143: keeping its shape, at least one pixel; PNG is the first that is tried."""
    data, mime = normalize(encoded(Image.new("RGB", size)), "image/gif", "f", ImageLimits(200, 200))
    assert (opened(data).size, opened(data).format, mime) == (expected, "PNG", "image/png")


def test_too_many_bytes_become_a_jpeg_and_then_a_smaller_one() -> None:
    """TOL-143: noise does not compress; the type says what it became."""
    source = encoded(noise(300, 300))
    data, mime = normalize(source, "image/png", "f", ImageLimits(max_base64_bytes=120_000))
    assert (opened(data).format, opened(data).size, mime) == ("JPEG", (300, 300), "image/jpeg")
    data, mime = normalize(source, "image/png", "f", ImageLimits(max_base64_bytes=20_000))
    assert opened(data).size[0] < 300
    assert len(base64.b64encode(data)) <= 20_000
    with pytest.raises(ImageError, match="exceeding configured limits"):
        normalize(source, "image/png", "f", ImageLimits(max_base64_bytes=10))


def test_the_sizes_that_are_tried() -> None:
    """TOL-143: three quarters each time, distinct, at most 32."""
    assert list(_sizes((10, 4), ImageLimits())) == [(10, 4), (7, 3), (5, 2), (3, 1), (2, 1), (1, 1)]
    assert len(list(_sizes((10**6, 10**6), ImageLimits(10**6, 10**6)))) == MAX_SIZES


@pytest.mark.parametrize("size", [(50_001, 1000), (100_000, 1000), (65_535, 65_535)])
def test_bombs_are_refused_by_their_header(size: tuple[int, int]) -> None:
    """TOL-144: more than 50 megapixels are never decoded."""
    with pytest.raises(ImageError, match="more than 50 megapixels"):
        normalize(png_header(*size), "image/png", "f", ImageLimits())


def test_an_orientation_that_cannot_be_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-144: the picture stays as it lies."""

    def broken(image: Image.Image) -> Image.Image:
        raise struct.error("required argument is not an integer")

    monkeypatch.setattr("PIL.ImageOps.exif_transpose", broken)
    data, _ = normalize(encoded(noise(40, 20)), "image/png", "f", ImageLimits(30, 30))
    assert opened(data).size == (30, 15)


def test_an_image_is_turned_upright_on_white_with_its_first_frame() -> None:
    """TOL-144: turned upright, first frame only, white behind what is transparent."""
    exif = Image.Exif()
    exif[0x0112] = 6
    data, _ = normalize(encoded(noise(40, 20), "JPEG", exif=exif), "image/jpeg", "f", ImageLimits(30, 30))
    assert opened(data).size == (15, 30)
    frames = [Image.new("RGB", (50, 50), color) for color in ("red", "blue")]
    gif = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    data, _ = normalize(gif, "image/gif", "f", ImageLimits(20, 20))
    first = opened(data).convert("RGB").getpixel((0, 0))
    assert getattr(opened(data), "n_frames", 1) == 1
    assert isinstance(first, tuple)
    assert first[0] > 200
    clear = noise(200, 200).convert("RGBA")
    clear.putalpha(0)
    data, mime = normalize(encoded(clear), "image/png", "f", ImageLimits(max_base64_bytes=3000))
    assert mime == "image/jpeg"
    assert opened(data).getpixel((0, 0)) == (255, 255, 255)
