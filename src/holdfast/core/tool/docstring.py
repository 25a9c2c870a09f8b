"""Reads the docstring of a tool: what the tool does, and what each parameter means.

Parameters may be described in a section `Args:`, in a section `Parameters` with a line of dashes below, in lines
`:param name: text`, or in plain lines `name: text`."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_HEADING = pattern(r"(?:args|arguments|parameters|params)\s*:?\s*", re.IGNORECASE)
_DASHES = pattern(r"\s*-{3,}\s*")
_PLAIN = pattern(r"(\s*)(\w+)\s*(?:\([^)]*\))?\s*:(?:\s+(\S.*))?")
_FIELD = pattern(r"(\s*):param\s+(?:\w+\s+)?(\w+)\s*:(?:\s+(\S.*))?")
_FIELD_TYPE = pattern(r"\s*:type\s+(\w+)\s*:.*")


class Documentation(Frozen):
    description: str
    """The docstring without the descriptions of parameters."""
    parameters: dict[str, str]


def read_docstring(function: Callable[..., object], parameters: Collection[str]) -> Documentation:
    """Lines are kept as they are written. What describes something that is not a parameter stays in the text."""
    return _Reader((inspect.getdoc(function) or "").strip().splitlines(), parameters).read()


class _Reader:
    def __init__(self, lines: list[str], parameters: Collection[str]) -> None:
        self._lines = lines
        self._parameters = parameters
        self._index = 0
        self._typed_entries = False
        """Whether entries are `name : type`, with the text below."""
        self._text: list[str] = []
        self._described: dict[str, list[str]] = {}

    def read(self) -> Documentation:
        while self._index < len(self._lines):
            line = self._lines[self._index]
            if (entry := self._entry(line)) is not None:
                self._read_entry(entry)
            elif self._is_heading():
                self._index += 1
                self._typed_entries = _DASHES.fullmatch(self._line()) is not None
                self._index += self._typed_entries
            else:
                self._index += 1
                if not self._names_type(line):
                    self._text.append(line)
        described = {name: " ".join(found) for name, found in self._described.items() if found}
        return Documentation(_without_gaps(self._text), described)

    def _line(self) -> str:
        return self._lines[self._index] if self._index < len(self._lines) else ""

    def _entry(self, line: str) -> re.Match[str] | None:
        """The description of a parameter. The first line of a docstring is none."""
        found = _FIELD.fullmatch(line) or (_PLAIN.fullmatch(line) if self._index else None)
        return found if found is not None and found[2] in self._parameters else None

    def _read_entry(self, entry: re.Match[str]) -> None:
        """Take it with the lines below it that are indented further."""
        described = self._described.setdefault(entry[2], [])
        if entry[3] is not None and not self._typed_entries:
            described.append(entry[3].strip())
        self._index += 1
        while _indent(self._line()) > len(entry[1]):
            described.append(self._line().strip())
            self._index += 1

    def _is_heading(self) -> bool:
        """Whether a section that describes parameters begins here."""
        if _HEADING.fullmatch(self._line()) is None:
            return False
        below = (line for line in self._lines[self._index + 1 :] if line.strip() and not _DASHES.fullmatch(line))
        first = _PLAIN.fullmatch(next(below, ""))
        return first is not None and first[2] in self._parameters

    def _names_type(self, line: str) -> bool:
        found = _FIELD_TYPE.fullmatch(line)
        return found is not None and found[1] in self._parameters


def _indent(line: str) -> int:
    """Of an empty line: 0."""
    return len(line) - len(line.lstrip()) if line.strip() else 0


def _without_gaps(lines: list[str]) -> str:
    """Without the empty lines around what was taken out."""
    kept: list[str] = []
    for line in lines:
        if line.strip() or (kept and kept[-1]):
            kept.append(line.rstrip())
    return "\n".join(kept).strip()
