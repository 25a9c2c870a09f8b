"""Applies the chunks of a patch update to a file's content.

Invariants
- Each chunk is searched after the previous one, so replacements cannot overlap.
- Context lines and lines outside the chunks keep the file's own bytes, however loosely they were matched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.filesystem.line_index import LineIndex
from holdfast.core.filesystem.text import dominant_ending, split_lines, stripped_ascii
from holdfast.core.tool.builtin.patch import Chunk, PatchLine
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SHOWN_LINES = 10
MAX_BLANKS = 10


class HunkError(Exception):
    """A chunk was not found in the file; the message quotes its lines."""


def apply_chunks(content: str, chunks: Sequence[Chunk], path: str) -> str:
    lines = split_lines(content)
    index = LineIndex([line for line, _ in lines])
    ending = dominant_ending(content)
    result: list[tuple[str, str]] = []
    position = 0
    for found in sorted(_locate(index, len(lines), chunks, path), key=lambda found: found.start):
        result += lines[position : found.start]
        position = found.start
        for line in found.lines:
            if line.sign == "+":
                result.append((line.text, ending))
                continue
            if line.sign == " ":
                result.append(lines[position])
            position += 1
    result += lines[position:]
    # Only the last line may lack a line ending, and only if it did before.
    return "".join(line + (end or ending) for line, end in result[:-1]) + "".join("".join(line) for line in result[-1:])


class _ChunkPosition(Frozen):
    start: int
    lines: Sequence[PatchLine]


def _locate(index: LineIndex, count: int, chunks: Sequence[Chunk], path: str) -> list[_ChunkPosition]:
    positions: list[_ChunkPosition] = []
    cursor = 0
    for chunk in chunks:
        for context in chunk.context:
            cursor = _find_context(index, context, cursor, path) + 1
        found = _position(index, count, chunk, cursor)
        if found is None:
            raise HunkError(_missing(path, chunk))
        positions.append(found)
        if old := _old(found.lines):
            cursor = found.start + len(old)
    return positions


def _position(index: LineIndex, count: int, chunk: Chunk, cursor: int) -> _ChunkPosition | None:
    """Find the chunk's lines; if they are not found, retry without blank lines at its end."""
    lines: Sequence[PatchLine] | None = chunk.lines
    for _ in range(MAX_BLANKS + 1):
        if lines is None:
            return None
        start = _find(index, count, lines, cursor, chunk)
        if start is not None:
            return _ChunkPosition(start, lines)
        lines = _without_last_blank(lines)
    return None


def _find_context(index: LineIndex, context: str, cursor: int, path: str) -> int:
    for normalize in _NORMALIZERS:
        if (found := index.find([context], normalize, cursor)) is not None:
            return found
    raise HunkError(f"Failed to find context '{context}' in {path}")


def _find(index: LineIndex, count: int, lines: Sequence[PatchLine], cursor: int, chunk: Chunk) -> int | None:
    """Tries each way of comparing on all remaining lines before the next, looser one."""
    old = _old(lines)
    if not old:
        return cursor if chunk.context else count
    last = count - len(old)
    if last < cursor:
        return None
    for normalize in _NORMALIZERS:
        if chunk.at_end and index.find(old, normalize, last) is not None:
            return last
        if (found := index.find(old, normalize, cursor)) is not None:
            return found
    return None


def _old(lines: Sequence[PatchLine]) -> list[str]:
    return [line.text for line in lines if line.sign != "+"]


def _without_last_blank(lines: Sequence[PatchLine]) -> list[PatchLine] | None:
    """Drop the last old line if it is blank, and the last new line if it is blank too; None if nothing was dropped."""
    kept = list(lines)
    old = [at for at, line in enumerate(kept) if line.sign != "+"]
    if not old or kept[old[-1]].text:
        return None
    dropped = kept.pop(old[-1])
    if dropped.sign == "-" and kept and kept[-1] == PatchLine("+", ""):
        kept.pop()
    return kept


def _missing(path: str, chunk: Chunk) -> str:
    old = _old(chunk.lines)
    more = [f"... ({len(old) - SHOWN_LINES} more lines)"] if len(old) > SHOWN_LINES else []
    return "\n".join([f"Failed to find expected lines in {path}:", *old[:SHOWN_LINES], *more])


_NORMALIZERS: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip, stripped_ascii)
