"""Deriving a file's new content from the chunks of an update.

Invariants
- Chunks are found in order, each behind the one before, so that their replacements cannot overlap.
- A line of context keeps the file's own bytes, however loosely it was matched; so does every line outside the chunks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.filesystem.line_index import LineIndex
from holdfast.core.filesystem.text import dominant_ending, fold, split_lines
from holdfast.core.tool.builtin.patch import Chunk, Line
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SHOWN_LINES = 10
MAX_BLANKS = 10


class HunkError(Exception):
    """A chunk does not fit the file; the message says which lines."""


def apply_chunks(content: str, chunks: Sequence[Chunk], path: str) -> str:
    lines = split_lines(content)
    index = LineIndex([line for line, _ in lines])
    ending = dominant_ending(content)
    result: list[tuple[str, str]] = []
    position = 0
    for place in sorted(_locate(index, len(lines), chunks, path), key=lambda place: place.start):
        result += lines[position : place.start]
        position = place.start
        for line in place.lines:
            if line.sign == "+":
                result.append((line.text, ending))
                continue
            if line.sign == " ":
                result.append(lines[position])
            position += 1
    result += lines[position:]
    # Only the last line may go without an end, and only if it did so before.
    return "".join(line + (end or ending) for line, end in result[:-1]) + "".join("".join(line) for line in result[-1:])


class _Place(Frozen):
    start: int
    lines: Sequence[Line]


def _locate(index: LineIndex, count: int, chunks: Sequence[Chunk], path: str) -> list[_Place]:
    places: list[_Place] = []
    cursor = 0
    for chunk in chunks:
        for context in chunk.context:
            cursor = _find_context(index, context, cursor, path) + 1
        place = _place(index, count, chunk, cursor)
        if place is None:
            raise HunkError(_missing(path, chunk))
        places.append(place)
        if old := _old(place.lines):
            cursor = place.start + len(old)
    return places


def _place(index: LineIndex, count: int, chunk: Chunk, cursor: int) -> _Place | None:
    """Where its lines stand, if need be without the blank ones at its end."""
    lines: Sequence[Line] | None = chunk.lines
    for _ in range(MAX_BLANKS + 1):
        if lines is None:
            return None
        start = _find(index, count, lines, cursor, chunk)
        if start is not None:
            return _Place(start, lines)
        lines = _without_last_blank(lines)
    return None


def _find_context(index: LineIndex, context: str, cursor: int, path: str) -> int:
    for way in _WAYS:
        if (found := index.find([context], way, cursor)) is not None:
            return found
    raise HunkError(f"Failed to find context '{context}' in {path}")


def _find(index: LineIndex, count: int, lines: Sequence[Line], cursor: int, chunk: Chunk) -> int | None:
    """Each way of comparing goes over all that is left before the next one is tried."""
    old = _old(lines)
    if not old:
        return cursor if chunk.context else count
    last = count - len(old)
    if last < cursor:
        return None
    for way in _WAYS:
        if chunk.at_end and index.find(old, way, last) is not None:
            return last
        if (found := index.find(old, way, cursor)) is not None:
            return found
    return None


def _old(lines: Sequence[Line]) -> list[str]:
    return [line.text for line in lines if line.sign != "+"]


def _without_last_blank(lines: Sequence[Line]) -> list[Line] | None:
    """Without the blank line that the old lines end with, and without the one that the new lines end with."""
    kept = list(lines)
    old = [at for at, line in enumerate(kept) if line.sign != "+"]
    if not old or kept[old[-1]].text:
        return None
    dropped = kept.pop(old[-1])
    if dropped.sign == "-" and kept and kept[-1] == Line("+", ""):
        kept.pop()
    return kept


def _missing(path: str, chunk: Chunk) -> str:
    old = _old(chunk.lines)
    more = [f"... ({len(old) - SHOWN_LINES} more lines)"] if len(old) > SHOWN_LINES else []
    return "\n".join([f"Failed to find expected lines in {path}:", *old[:SHOWN_LINES], *more])


def _folded(line: str) -> str:
    return fold(line).strip()


_WAYS: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip, _folded)
