"""JSON with comments and trailing commas, made plain without moving a line: errors keep their line numbers."""

from __future__ import annotations

import re

_STRING = r'"(?:[^"\\]|\\.)*"'
# Two passes, each linear: a comma counts as trailing only once the comments behind it are gone.
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)


def to_json(text: str) -> str:
    return _TRAILING_COMMA.sub(_blank, _COMMENT.sub(_blank, text.removeprefix("\ufeff")))


def _blank(match: re.Match[str]) -> str:
    found = match[0]
    return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)
