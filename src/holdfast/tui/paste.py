"""Pasted text of a draft: what is long is shown as one mark and sent whole.

Invariants
- A mark stands for its text only while it is in the draft unchanged; a mark that was edited is ordinary text.
- Text that comes from a paste never contains control characters other than line breaks and tabs."""

from __future__ import annotations

import os
import re
import shlex
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

FOLDED_LINES = 10
"""A paste of more lines is folded."""
FOLDED_CHARACTERS = 1_000
MOST_BYTES = 4 * 1024 * 1024
"""Of the text of a prompt, as the server admits it. A larger paste is refused."""
MOST_IMAGES = 20
IMAGE_BYTES = 11 * 1024 * 1024
"""The largest image that fits into a prompt as data."""
IMAGE_KINDS = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
DROPPED_CHARACTERS = 4_096
"""A dropped path is not longer."""


class PasteRefused(Exception):
    """The paste was not taken; the text says why."""


class Image(NamedTuple):
    """An image file that is attached to the draft."""

    mark: str
    path: str
    mime: str


class Expanded(NamedTuple):
    text: str
    images: tuple[Image, ...]


class Pastes:
    """The folded texts and the images of one draft."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._images: dict[str, Image] = {}
        self._count = 0

    def take(self, pasted: str) -> str:
        """What is inserted into the draft. Raises PasteRefused."""
        text = _clean(pasted)
        if (size := len(text.encode())) > MOST_BYTES:
            raise PasteRefused(
                f"the paste has {size / 1024**2:.1f} MiB, and a prompt at most {MOST_BYTES // 1024**2}; "
                "put it into a file and mention it with @"
            )
        if (path := dropped_image(text)) is not None:
            return self._attach(path)
        lines = text.rstrip("\n").count("\n") + 1
        if lines <= FOLDED_LINES and len(text) <= FOLDED_CHARACTERS:
            return text
        self._count += 1
        what = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        mark = f"[pasted {what}]" if self._count == 1 else f"[pasted {what} #{self._count}]"
        self._texts[mark] = text
        return mark

    def expand(self, draft: str) -> Expanded:
        """The text that is sent, and the images whose marks are still in it."""
        images = tuple(image for mark, image in self._images.items() if mark in draft)
        if not any(mark in draft for mark in self._texts):
            return Expanded(draft, images)
        marks = re.compile("|".join(re.escape(mark) for mark in sorted(self._texts, key=len, reverse=True)))
        return Expanded(marks.sub(lambda found: self._texts[found[0]], draft), images)

    def mark_before(self, text: str) -> int:
        """The length of the mark at the end of `text`; 0 if there is none. It is deleted as a whole."""
        return max((len(mark) for mark in (*self._texts, *self._images) if text.endswith(mark)), default=0)

    def mark_after(self, text: str) -> int:
        return max((len(mark) for mark in (*self._texts, *self._images) if text.startswith(mark)), default=0)

    def add(self, other: Pastes) -> None:
        """Take over the marks of a later draft. Of two equal marks, the text of the earlier one is kept."""
        self._texts = {**other._texts, **self._texts}
        self._images = {**other._images, **self._images}
        self._count += other._count

    def clear(self) -> None:
        self._texts.clear()
        self._images.clear()
        self._count = 0

    def _attach(self, path: str) -> str:
        size = os.path.getsize(path)
        if size > IMAGE_BYTES:
            raise PasteRefused(f"{path} has {size / 1024**2:.1f} MiB; an image may have {IMAGE_BYTES // 1024**2}")
        if len(self._images) >= MOST_IMAGES:
            raise PasteRefused(f"a prompt has at most {MOST_IMAGES} images")
        mark = f"[image {len(self._images) + 1}: {os.path.basename(path)}]"
        self._images[mark] = Image(mark, path, IMAGE_KINDS[os.path.splitext(path)[1].lower()])
        return mark


def dropped_image(text: str) -> str | None:
    """The path of an image, if that is all of the text: terminals paste the path of a file that is dropped on them,
    quoted, with escaped spaces or as a URL."""
    text = text.strip()
    if not text or "\n" in text or len(text) > DROPPED_CHARACTERS:
        return None
    if text.startswith("file://"):
        text = shlex.quote(unquote(urlsplit(text).path))
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    if len(words) != 1:
        return None
    path = os.path.expanduser(words[0])
    is_image = os.path.splitext(path)[1].lower() in IMAGE_KINDS
    return path if os.path.isabs(path) and is_image and os.path.isfile(path) else None


def _clean(text: str) -> str:
    return _CONTROLS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
