"""Parses the text of a patch into file operations. Accesses no file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from holdfast.core.filesystem.text import to_lf
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

BEGIN = "*** Begin Patch"
END = "*** End Patch"
ADD = "*** Add File:"
DELETE = "*** Delete File:"
UPDATE = "*** Update File:"
MOVE = "*** Move to:"
END_OF_FILE = "*** End of File"
SECTION = "@@"

LineSign = Literal[" ", "-", "+"]


class PatchError(Exception):
    """The text is not a valid patch; the message quotes the invalid line."""


class PatchLine(Frozen):
    sign: LineSign
    text: str


class Chunk(Frozen):
    context: tuple[str, ...]
    """Lines that must be found, in order, before the chunk's own lines."""
    lines: tuple[PatchLine, ...]
    at_end: bool = False


class AddFile(Frozen):
    path: str
    content: str


class DeleteFile(Frozen):
    path: str


class UpdateFile(Frozen):
    path: str
    chunks: tuple[Chunk, ...]
    move_to: str | None = None


Operation = AddFile | DeleteFile | UpdateFile


def parse(text: str) -> list[Operation]:
    lines = _body(text)
    operations: list[Operation] = []
    position = 0
    while position < len(lines):
        line = lines[position]
        if not line.strip():
            position += 1
        elif (path := _after(line, ADD)) is not None:
            operation, position = _add(path, lines, position + 1)
            operations.append(operation)
        elif (path := _after(line, DELETE)) is not None:
            operations.append(DeleteFile(path))
            position += 1
        elif (path := _after(line, UPDATE)) is not None:
            update, position = _update(path, lines, position + 1)
            operations.append(update)
        else:
            raise PatchError(f"Invalid patch line: {line}")
    return operations


def _body(text: str) -> list[str]:
    """The lines between the markers. The end marker must start in the first column: with a leading space it is a
    context line."""
    text = to_lf(text).strip()
    if heredoc := _HEREDOC.fullmatch(text):
        text = heredoc["body"]
    lines = text.split("\n")
    begin = next((at for at, line in enumerate(lines) if line.strip() == BEGIN), None)
    if begin is None:
        raise PatchError(f"the patch has no line '{BEGIN}'")
    end = next((at for at, line in enumerate(lines) if at > begin and line.rstrip() == END), None)
    if end is None:
        raise PatchError(f"the patch has no line '{END}' behind '{BEGIN}'")
    return lines[begin + 1 : end]


def _after(line: str, header: str) -> str | None:
    if not line.startswith(header):
        return None
    path = line[len(header) :].strip()
    if not path:
        raise PatchError(f"Invalid patch line: {line}")
    return path


def _add(path: str, lines: Sequence[str], position: int) -> tuple[AddFile, int]:
    content: list[str] = []
    while position < len(lines) and lines[position].startswith("+"):
        content.append(lines[position][1:] + "\n")
        position += 1
    # Blank lines may separate operations, but cannot be part of the new file.
    while position < len(lines) and not lines[position].strip():
        position += 1
    if position < len(lines) and not lines[position].startswith("***"):
        raise PatchError(f"Invalid add file line: {lines[position]}")
    return AddFile(path, "".join(content)), position


def _update(path: str, lines: Sequence[str], position: int) -> tuple[UpdateFile, int]:
    move_to = _after(lines[position], MOVE) if position < len(lines) else None
    if move_to is not None:
        position += 1
    chunks: list[Chunk] = []
    while position < len(lines) and not _starts_operation(lines[position]):
        chunk, position = _chunk(lines, position)
        chunks.append(chunk)
    # Blank lines before the next operation are not a chunk.
    chunks = [chunk for chunk in chunks if any(line != PatchLine(" ", "") for line in chunk.lines)]
    if not chunks:
        raise PatchError(f"Update of {path} has no {SECTION} chunk")
    return UpdateFile(path, tuple(chunks), move_to), position


def _starts_operation(line: str) -> bool:
    return line.startswith((ADD, DELETE, UPDATE))


def _chunk(lines: Sequence[str], position: int) -> tuple[Chunk, int]:
    context: list[str] = []
    while position < len(lines) and lines[position].startswith(SECTION):
        if found := _RANGES.sub("", lines[position][len(SECTION) :]).strip():
            context.append(found)
        position += 1
    body: list[PatchLine] = []
    while position < len(lines) and not lines[position].startswith(SECTION) and not _starts_operation(lines[position]):
        line = lines[position]
        position += 1
        if line.rstrip() == END_OF_FILE:
            return Chunk(tuple(context), tuple(body), at_end=True), position
        body.append(_line(line))
    return Chunk(tuple(context), tuple(body)), position


def _line(line: str) -> PatchLine:
    """An empty line counts as an empty context line, because models omit its leading space."""
    match line[:1]:
        case "":
            return PatchLine(" ", "")
        case (" " | "-" | "+") as sign:
            return PatchLine(sign, line[1:])
        case _:
            raise PatchError(f"Invalid update chunk line: {line}")


_HEREDOC = pattern(r"(?:cat\s+)?<<-?\s*(['\"]?)(?P<tag>\w+)\1\s*\n(?P<body>.*)\n(?P=tag)", re.DOTALL)
# Line ranges, as `diff -u` writes them, are ignored.
_RANGES = pattern(r"^\s*-\d+(?:,\d+)?\s+\+\d+(?:,\d+)?\s*@@")
