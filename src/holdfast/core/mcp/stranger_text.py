"""Text that a server wrote, for a model or a person to read: without control characters, bounded, and inside tags that
it cannot leave."""

from __future__ import annotations

from holdfast.schema.pattern import pattern

_CONTROL = pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
"""Control characters, and those that are not seen or change the direction of what is seen."""


def printable(text: str) -> str:
    """Line breaks and tabs stay."""
    return _CONTROL.sub("", text)


def one_line(text: str, most: int) -> str:
    text = " ".join(printable(text[: most * 8]).split())
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def escaped(text: str) -> str:
    """For the inside of a tag or of an attribute."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
