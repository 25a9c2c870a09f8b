"""Images: what they are by their first bytes, and a form that a model accepts. Decoders see only what passed the header
check."""

from __future__ import annotations

import io
import struct
import warnings
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PIL.Image import Image

MAX_PIXELS = 50_000_000
MAX_SIZES = 32
SHRINK = 0.75
QUALITIES = (80, 85, 70, 55, 40)
FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
CONVERTED = {"image/bmp": "BMP", "image/tiff": "TIFF", "image/avif": "AVIF"}
"""No provider takes these; as PNG all do. No icons: their header does not tell the size of the image inside."""
BMP_HEADERS = (12, 40, 52, 56, 64, 108, 124)
DECODING_FAILURES = (
    *(OSError, SyntaxError, ValueError, EOFError, LookupError, ArithmeticError),
    *(TypeError, AttributeError, RuntimeError, struct.error),
)


class ImageLimits(Frozen):
    max_width: int = 2000
    max_height: int = 2000
    max_base64_bytes: int = 5 * 1024 * 1024
    auto_resize: bool = True


class ImageError(HoldfastError):
    """The image is broken, or does not fit; the message says which."""


class ImageBroken(ImageError):
    """Its bytes begin like an image and are none."""


def image_type(head: bytes) -> str | None:
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith(b"GIF8"):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return None


def convertible_type(head: bytes) -> str | None:
    """Of an image that `normalize` turns into PNG."""
    if head.startswith((b"II*\0", b"MM\0*")):
        return "image/tiff"
    if head[4:12] in (b"ftypavif", b"ftypavis"):
        return "image/avif"
    # Text may begin with these two letters; the size of the second header tells it apart.
    if head.startswith(b"BM") and int.from_bytes(head[14:18], "little") in BMP_HEADERS:
        return "image/bmp"
    return None


def normalize(data: bytes, mime: str, resource: str, limits: ImageLimits) -> tuple[bytes, str]:
    """The image as it is when it fits, else the first form that does: PNG, then smaller ones. Takes long: to be run in
    a thread."""
    image, (width, height) = _open(data, resource, mime, limits)
    sized = width <= limits.max_width and height <= limits.max_height
    if sized and mime not in CONVERTED and _base64_size(data) <= limits.max_base64_bytes:
        return data, mime
    converted = 1 if sized and mime in CONVERTED else 0
    for candidate, candidate_mime in islice(_candidates(image, limits), None if limits.auto_resize else converted):
        if _base64_size(candidate) <= limits.max_base64_bytes:
            return candidate, candidate_mime
    raise ImageError(
        f"Image {resource} is {width}x{height} with base64 size {_base64_size(data)}, exceeding configured limits "
        f"{limits.max_width}x{limits.max_height}/{limits.max_base64_bytes} bytes"
    )


def _open(data: bytes, resource: str, mime: str, limits: ImageLimits) -> tuple[Image, tuple[int, int]]:
    """The image, and the size it has. A JPEG that is too large is decoded at a fraction of it, which saves most of the
    memory and the time."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            # Pillow only warns where we refuse, and about damage that decoding shows anyway.
            warnings.simplefilter("ignore")
            formats = (CONVERTED[mime],) if mime in CONVERTED else FORMATS
            image = Image.open(io.BytesIO(data), formats=formats)
            if image.width * image.height > MAX_PIXELS:
                raise Image.DecompressionBombError
            size = image.size
            image.draft(None, _wanted(size, limits))
            image.load()
    except Image.DecompressionBombError:
        raise ImageError(f"Image {resource} has more than {MAX_PIXELS // 1_000_000} megapixels") from None
    except DECODING_FAILURES:
        raise ImageBroken(f"Image could not be decoded: {resource}") from None
    return image, size


def _wanted(size: tuple[int, int], limits: ImageLimits) -> tuple[int, int]:
    """No side of the result is longer, whichever way its metadata turns it."""
    longest = max(limits.max_width, limits.max_height)
    scale = min(1.0, longest / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _candidates(image: Image, limits: ImageLimits) -> Iterator[tuple[bytes, str]]:
    from PIL import Image

    _turn_upright(image)
    mode = "RGBA" if image.has_transparency_data else "RGB"
    plain = image if image.mode == mode else image.convert(mode)
    for size in _sizes(plain.size, limits):
        resized = plain if size == plain.size else plain.resize(size, Image.Resampling.LANCZOS)
        yield _encoded(resized, "PNG"), "image/png"
        opaque = _on_white(resized)
        for quality in QUALITIES:
            yield _encoded(opaque, "JPEG", quality=quality), "image/jpeg"


def _turn_upright(image: Image) -> None:
    """As its metadata says, if they can be read; turning it rewrites them all."""
    from PIL import ImageOps

    with suppress(*DECODING_FAILURES):
        ImageOps.exif_transpose(image, in_place=True)


def _sizes(size: tuple[int, int], limits: ImageLimits) -> Iterator[tuple[int, int]]:
    scale = min(1.0, limits.max_width / size[0], limits.max_height / size[1])
    width, height = (max(1, int(side * scale)) for side in size)
    for _ in range(MAX_SIZES):
        yield width, height
        if (width, height) == (1, 1):
            return
        width, height = max(1, int(width * SHRINK)), max(1, int(height * SHRINK))


def _on_white(image: Image) -> Image:
    from PIL import Image

    if image.mode != "RGBA":
        return image
    white = Image.new("RGB", image.size, "white")
    white.paste(image, mask=image.getchannel("A"))
    return white


def _encoded(image: Image, format: str, **options: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def _base64_size(data: bytes) -> int:
    return (len(data) + 2) // 3 * 4
