"""The one wildcard of policies and permissions: `*` is any run of characters, `?` exactly one, all else is literal.

A pattern is cut at its stars once. What lies between two stars has a fixed width, so the leftmost place where it fits
is always good enough: a match walks the text once and never takes a step back."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache

IGNORE_CASE = sys.platform == "win32"
OPTIONAL_TAIL = " *"
"""At the very end of a pattern this also stands for nothing: `git *` matches `git`."""


SHORT = 256


def matches(pattern: str, text: str) -> bool:
    # The same few rules meet the same few actions and paths turn after turn.
    return _remembered(pattern, text) if len(text) <= SHORT else compile_pattern(pattern).matches(text)


def has_wildcard(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern


@lru_cache(maxsize=16384)
def _remembered(pattern: str, text: str) -> bool:
    return compile_pattern(pattern).matches(text)


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str, *, ignore_case: bool = IGNORE_CASE) -> Wildcard:
    return Wildcard(pattern, ignore_case=ignore_case)


class Wildcard:
    """A pattern for whole strings, in which `\\` and `/` are the same."""

    def __init__(self, pattern: str, *, ignore_case: bool = IGNORE_CASE) -> None:
        self._ignore_case = ignore_case
        pattern = self._normal(pattern)
        self._forms = [_Form(pattern)]
        if pattern.endswith(OPTIONAL_TAIL):
            self._forms.append(_Form(pattern.removesuffix(OPTIONAL_TAIL)))

    def matches(self, text: str) -> bool:
        text = self._normal(text)
        return any(form.matches(text) for form in self._forms)

    def _normal(self, text: str) -> str:
        text = text.replace("\\", "/")
        if not text.isascii():
            text = unicodedata.normalize("NFC", text)
        return text.lower() if self._ignore_case else text


class _Form:
    """Pieces with stars between them: the first and the last stand at the ends, the others follow in order."""

    def __init__(self, pattern: str) -> None:
        first, *others = (_Piece(piece) for piece in pattern.split("*"))
        self._first = first
        self._last = others.pop() if others else None
        self._middle = [piece for piece in others if piece.width]

    def matches(self, text: str) -> bool:
        if self._last is None:
            return len(text) == self._first.width and self._first.fits(text, 0)
        position, end = self._first.width, len(text) - self._last.width
        if position > end or not self._first.fits(text, 0) or not self._last.fits(text, end):
            return False
        for piece in self._middle:
            found = piece.find(text, position, end)
            if found < 0:
                return False
            position = found + piece.width
        return True


class _Piece:
    """Characters and `?`. The expression has no repetition, so there is nothing in it to backtrack over."""

    def __init__(self, piece: str) -> None:
        self.width = len(piece)
        self._literal = piece
        self._expression = re.compile(".".join(map(re.escape, piece.split("?"))), re.DOTALL) if "?" in piece else None

    def fits(self, text: str, position: int) -> bool:
        if self._expression is None:
            return text.startswith(self._literal, position)
        return self._expression.match(text, position) is not None

    def find(self, text: str, start: int, end: int) -> int:
        if self._expression is None:
            return text.find(self._literal, start, end)
        found = self._expression.search(text, start, end)
        return found.start() if found else -1
