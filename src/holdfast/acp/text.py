"""Text of models, tools and files for an editor: control characters escaped, sizes bounded.

Some editors show text in a terminal or build their own commands from it, so nothing that moves a cursor, changes the
direction of writing or breaks JSON leaves this process as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    import re

TITLE_CHARACTERS = 200
TEXT_CHARACTERS = 64 * 1024
"""Of one block of text of a tool call."""
CUT = "\n[… {count} more characters]"


def printable(text: str) -> str:
    """Control characters, changes of direction and halves of surrogate pairs escaped; line breaks and tabs stay."""
    return _CONTROLS.sub(_escaped, text)


def title(text: str) -> str:
    """One line of at most `TITLE_CHARACTERS`."""
    short = " ".join(printable(text[: TITLE_CHARACTERS * 4]).split())
    return short if len(short) <= TITLE_CHARACTERS else f"{short[: TITLE_CHARACTERS - 1]}…"


def bounded(text: str, limit: int = TEXT_CHARACTERS) -> str:
    """The printable text; of a longer one the beginning, and how much is missing."""
    if len(text) <= limit:
        return printable(text)
    return printable(text[:limit]) + CUT.format(count=len(text) - limit)


def terminal_output(text: str) -> str:
    """Output of a program for a terminal: line breaks as terminals need them, colours, and nothing else that a terminal
    would execute."""
    kept = _COLOURS.sub(lambda found: found[0].replace("\x1b", "\ue000"), text.replace("\ue000", "\ufffd"))
    return printable(kept.replace("\r\n", "\n")).replace("\ue000", "\x1b").replace("\n", "\r\n")


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


_CONTROLS = pattern("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_COLOURS = pattern("\x1b\\[[0-9;]{0,32}m")
