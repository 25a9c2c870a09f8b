"""Rendered texts by their content, bounded by bytes. Used from several threads."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BYTES = 8 * 1024 * 1024
LARGEST_PART = 8
"""A text that takes more than this fraction of the cache is not kept."""


class RenderCache:
    def __init__(self, limit: int = BYTES) -> None:
        self._limit = limit
        self._kept: OrderedDict[bytes, str] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """Bytes, as far as texts need them."""
        return self._size

    def get(self, kind: str, text: str, render: Callable[[str], str]) -> str:
        """What `render` makes of a text; `kind` names the function."""
        key = hashlib.blake2b(f"{kind}\0{text}".encode(errors="surrogatepass"), digest_size=16).digest()
        with self._lock:
            if (known := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return known
        made = render(text)
        size = _size(made)
        if size <= self._limit // LARGEST_PART:
            with self._lock:
                if key not in self._kept:
                    self._kept[key] = made
                    self._size += size
                while self._size > self._limit:
                    _, oldest = self._kept.popitem(last=False)
                    self._size -= _size(oldest)
        return made


def _size(text: str) -> int:
    return len(text.encode()) + 100  # and the entry itself
