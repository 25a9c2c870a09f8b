"""Colours for a terminal. With `NO_COLOR` or `TERM=dumb`, in an unknown terminal and in a pipe there are none."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from typing import TextIO

Name = Literal["bold", "dim", "code", "heading", "added", "removed", "place", "failed", "call"]

CODES: dict[Name, str] = {
    "bold": "1",
    "dim": "2",
    "code": "36",
    "heading": "1;35",
    "added": "32",
    "removed": "31",
    "place": "36",
    "failed": "31",
    "call": "34",
}
RESET = "\x1b[0m"


def is_capable(stream: TextIO) -> bool:
    """Whether the stream is a terminal that understands escape sequences."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


class Style:
    """Styles text for one stream, or leaves it as it is."""

    def __init__(self, stream: TextIO) -> None:
        self.on = is_capable(stream) and not os.environ.get("NO_COLOR")

    def __call__(self, name: Name, text: str) -> str:
        return f"{begin(name)}{text}{RESET}" if self.on and text else text


def begin(name: Name) -> str:
    return f"\x1b[{CODES[name]}m"
