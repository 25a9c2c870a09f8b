"""JSON with comments and trailing commas, made plain without moving a line: errors keep their line numbers."""

from __future__ import annotations

import re

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[}\]])', re.DOTALL)


def to_json(text: str) -> str:
    return _TOKEN.sub(_blank, text.removeprefix("\ufeff"))


def _blank(match: re.Match[str]) -> str:
    found = match[0]
    return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)
