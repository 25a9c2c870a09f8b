"""Reads pastes of megabytes. prompt_toolkit searches the whole paste again for its end with each kilobyte that arrives,
which takes 8 s for 5 MB; here only what is new is searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

if TYPE_CHECKING:
    from prompt_toolkit.input import Input

END = "\x1b[201~"
MOST_CHARACTERS = 64 * 1024 * 1024
"""Of a paste; the rest is dropped. What is that large is refused anyway."""


class PasteParser(Vt100Parser):
    def feed(self, data: str) -> None:
        if not self._in_bracketed_paste:
            self._kept: list[str] = []
            self._size = 0
            self._tail = ""
            super().feed(data)
            return
        seen = self._tail + data
        at = seen.find(END)
        if at < 0:
            self._keep(data)
            self._tail = seen[-len(END) + 1 :]
            return
        new = at - len(self._tail)
        if new >= 0:
            self._keep(data[:new])
            content = "".join(self._kept)
        else:  # the end mark began in an earlier piece
            content = "".join(self._kept)[:new]
        self._in_bracketed_paste = False
        self._kept, self._tail = [], ""
        self.feed_key_callback(KeyPress(Keys.BracketedPaste, content))
        self.feed(data[new + len(END) :])

    def _keep(self, data: str) -> None:
        if self._size <= MOST_CHARACTERS:
            self._kept.append(data)
            self._size += len(data)


def read_large_pastes(input: Input) -> None:
    """Let this input of a terminal use the parser; another kind of input stays as it is."""
    parser = getattr(input, "vt100_parser", None)
    if isinstance(parser, Vt100Parser):
        input.vt100_parser = PasteParser(parser.feed_key_callback)  # type: ignore[attr-defined]
