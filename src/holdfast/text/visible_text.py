"""Makes foreign text safe to print: control characters are shown as escapes, so that no terminal obeys them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    import re


def printable(text: str) -> str:
    """The text with control characters and changes of writing direction escaped; line breaks and tabs stay."""
    return _CONTROLS.sub(_escaped, text)


def visible(text: str) -> str:
    """As `printable`, with invisible characters escaped too: for text that a person decides about."""
    return _INVISIBLE.sub(_escaped, printable(text))


def one_line(text: str) -> str:
    """The printable text on one line, for a label, a title or a path."""
    return " ".join(printable(text).splitlines())


def brief(value: Any, limit: int = 100) -> str:
    """The printable text on one line of at most `limit` characters."""
    text = printable(" ".join(str(value).split()))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


_CONTROLS = pattern("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_INVISIBLE = pattern(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028\u2029\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
