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


CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069"
"""Characters that terminals obey or that reorder others, as ranges of a regular expression. Together with the next two
tables these are all characters that are made visible, in terminals and on the page."""
HIDDEN = CONTROLS + (
    r"\xad\u061c\u180e\u200b\u200e\u200f\u2028\u2029\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff"
)
"""Those, and characters without a shape. Lone surrogates too: no text has them, JSON may."""
BLANK = (
    r"\xa0\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2000-\u200a\u200c\u200d\u202f\u205f\u2800\u3000"
    r"\u3164\ufe00-\ufe0f\uffa0"
)
"""Characters that look like a space or like nothing, and belong to the prose of some languages and to emoji. They are
made visible where a person decides about a text."""

_CONTROLS = pattern(f"[{CONTROLS}]")
_INVISIBLE = pattern(f"[{HIDDEN}{BLANK}]")
