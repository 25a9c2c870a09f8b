"""Passes the output of a running command on as text: at short intervals, and only up to a limit."""

from __future__ import annotations

import asyncio
import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY_SECONDS = 0.1
LIVE_CHARACTERS = 256 * 1024
NO_MORE = "\n[more output is not shown while the command runs]\n"


class LiveOutput:
    """An output sink. The first chunk is passed on at once, then what has collected every `EVERY_SECONDS`. Call `close`
    at the end, also after a failure."""

    def __init__(self, sink: Callable[[bytes], bool], announce: Callable[[str], None]) -> None:
        """`sink` gets every chunk; `announce` gets the text."""
        self._sink = sink
        self._announce = announce
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._room = LIVE_CHARACTERS
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def __call__(self, chunk: bytes) -> bool:
        if self._closed:
            return False
        if self._room > 0:
            self._take(self._decoder.decode(chunk))
        return self._sink(chunk)

    def close(self) -> None:
        """Pass on the rest. Later chunks are refused, which ends the command."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._text:
            self._announce(self._text)
            self._text = ""

    def _take(self, text: str) -> None:
        self._text += text[: self._room]
        self._room -= len(text)
        if self._room <= 0:
            self._text += NO_MORE
        if self._timer is None and self._text:
            self._deliver()

    def _deliver(self) -> None:
        self._timer = None
        if self._text:
            text, self._text = self._text, ""
            self._announce(text)
            self._timer = asyncio.get_running_loop().call_later(EVERY_SECONDS, self._deliver)
