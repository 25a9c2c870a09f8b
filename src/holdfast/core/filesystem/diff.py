"""The diff of one file: a unified patch and counts of added and removed lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from holdfast.core.filesystem.text import decode
from holdfast.schema.deferred import deferred
from holdfast.schema.record import Record

if TYPE_CHECKING:
    import difflib
    from collections.abc import Iterator
else:
    difflib = deferred("difflib")

MAX_PATCH_BYTES = 256 * 1024
WHOLE_PATCH_BYTES = 32 * 1024 * 1024
"""Of a patch that a person reads before it is applied: two files of the largest size that tools write."""
MAX_COMPARED_LINES = 4000
CONTEXT_LINES = 3
NO_FINAL_NEWLINE = "\\ No newline at end of file"

Opcode = tuple[str, int, int, int, int]


class FileDiff(Record):
    file: str
    patch: str | None = None
    """A unified diff; absent if it is too large or the content is not text."""
    additions: int
    deletions: int
    status: Literal["added", "deleted", "modified"]


def file_diff(resource: str, before: bytes | None, after: bytes | None, *, most: int = MAX_PATCH_BYTES) -> FileDiff:
    """Compare two contents; None means that the file does not exist. A patch has at most `most` bytes."""
    status: Literal["added", "deleted", "modified"]
    status = "added" if before is None else "deleted" if after is None else "modified"
    old, new = decode(before or b""), decode(after or b"")
    if old is None or new is None:
        return FileDiff(file=resource, additions=0, deletions=0, status=status)
    a, b = _lines(old.content), _lines(new.content)
    opcodes = _compare(a, b)
    return FileDiff(
        file=resource,
        patch=_patch(resource, a, b, opcodes, most),
        additions=sum(b_end - b_start for _, _, _, b_start, b_end in opcodes),
        deletions=sum(a_end - a_start for _, a_start, a_end, _, _ in opcodes),
        status=status,
    )


def _lines(text: str) -> list[str]:
    """Lines with their endings; `str.splitlines` would also split at form feeds and similar characters."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _compare(a: list[str], b: list[str]) -> list[Opcode]:
    """The changed ranges. Equal lines at both ends are skipped first; if the rest is too large to compare, it is one
    range, so that the time stays linear."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    a_end, b_end = len(a) - end, len(b) - end
    if start == a_end and start == b_end:
        return []
    if a_end - start + b_end - start > MAX_COMPARED_LINES:
        return [("replace", start, a_end, start, b_end)]
    matcher = difflib.SequenceMatcher(None, a[start:a_end], b[start:b_end])
    return [
        (tag, start + i1, start + i2, start + j1, start + j2)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def _patch(resource: str, a: list[str], b: list[str], opcodes: list[Opcode], most: int) -> str | None:
    parts = [f"--- {resource}\n+++ {resource}\n"]
    size = 0
    for line in _hunks(a, b, opcodes):
        size += len(line.encode())
        if size > most:
            return None
        parts.append(line if line.endswith("\n") else f"{line}\n{NO_FINAL_NEWLINE}\n")
    return "".join(parts)


def _hunks(a: list[str], b: list[str], opcodes: list[Opcode]) -> Iterator[str]:
    for group in _grouped(opcodes):
        (_, first, _, first_b, _), (_, _, last, _, last_b) = group[0], group[-1]
        before = min(CONTEXT_LINES, first)
        after = min(CONTEXT_LINES, len(a) - last)
        yield f"@@ -{_range(first - before, last + after)} +{_range(first_b - before, last_b + after)} @@\n"
        position = first - before
        for _, i1, i2, j1, j2 in group:
            yield from (" " + line for line in a[position:i1])
            yield from ("-" + line for line in a[i1:i2])
            yield from ("+" + line for line in b[j1:j2])
            position = i2
        yield from (" " + line for line in a[position : last + after])


def _grouped(opcodes: list[Opcode]) -> Iterator[list[Opcode]]:
    """Group changes whose context lines would overlap into one hunk."""
    group: list[Opcode] = []
    for opcode in opcodes:
        if group and opcode[1] - group[-1][2] > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(opcode)
    if group:
        yield group


def _range(start: int, end: int) -> str:
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
