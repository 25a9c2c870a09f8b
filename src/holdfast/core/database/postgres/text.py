"""Texts that PostgreSQL does not store as they are.

It stores no NUL, and its JSON functions refuse the escapes of NUL and of surrogates. A character of the private use
area marks what was replaced: U+F8F1, or its escape, followed by the four digits of the character. The mark itself is
replaced in the same way, so that every text comes back as it was.

Most texts have none of these: they are returned as they are, the same object."""

from __future__ import annotations

import re
from typing import AnyStr

WINDOW = 512 * 1024
MARK = "\uf8f1"
_MARK_ESCAPE = "\\uf8f1"
_MARK_BYTES = MARK.encode()
_MARK_ESCAPE_BYTES = _MARK_ESCAPE.encode()

_HEX = "[0-9a-fA-F]"
_ESCAPES = re.compile(rf"\\u(0000|[dD][89a-fA-F]{_HEX}{{2}}|[fF]8[fF]1)")
_CHARACTERS = re.compile(f"[\0{MARK}]")
_MARKED = re.compile(rf"({MARK}|\\uf8f1)({_HEX}{{4}})")
_SURROGATES = re.compile("[\ud800-\udfff]")


def escape(text: str) -> str:
    """The text as PostgreSQL stores it."""
    if "\\u" in text:
        text = _ESCAPES.sub(r"\\uf8f1\1", text)
    if "\0" in text or MARK in text:
        text = _CHARACTERS.sub(lambda found: f"{MARK}{ord(found[0]):04x}", text)
    return text


def restore(text: str) -> str:
    """The text that was given to `escape`, or a text of its JSON that the server has decoded."""
    if _contains(text, _MARK_ESCAPE) or _contains(text, MARK):
        text = _MARKED.sub(_restored, text)
        if _SURROGATES.search(text):
            # Both halves of a pair were marked; a lone one stays.
            return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return text


def restore_bytes(data: bytes) -> bytes:
    """The same of a text in UTF-8."""
    if _contains(data, _MARK_ESCAPE_BYTES) or _contains(data, _MARK_BYTES):
        return restore(data.decode()).encode("utf-8", "surrogatepass")
    return data


def _contains(text: AnyStr, part: AnyStr) -> bool:
    """Looks at a large text window by window, so that other threads run in between."""
    if len(text) <= WINDOW:
        return part in text
    further = WINDOW + len(part) - 1
    return any(text.find(part, start, start + further) >= 0 for start in range(0, len(text), WINDOW))


def _restored(found: re.Match[str]) -> str:
    mark, digits = found.groups()
    return chr(int(digits, 16)) if mark == MARK else f"\\u{digits}"
