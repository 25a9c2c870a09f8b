"""Checks matches of the search engine against the files that they name.

The engine opens files by their paths, which may have led elsewhere at that moment. A match counts only if the file that
is reached through the held directory has the same line at the same place."""

from __future__ import annotations

import os
from itertools import groupby
from typing import TYPE_CHECKING

from holdfast.core.search.match import LINE_CHARACTERS, cut, shown_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.filesystem.open_tree import OpenTree
    from holdfast.core.search.match import Match

    Line = Callable[[Match], bytes | None]

MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
"""Byte order marks of the encodings that the engine converts. It counts offsets after the conversion."""
LARGEST_CONVERTED = 64 * 1024 * 1024
MOST_BYTES_OF_CHARACTER = 4


def verify_matches(tree: OpenTree, matches: Sequence[Match]) -> list[Match]:
    """The matches that are true, in their order. Blocks."""
    verified: list[Match] = []
    for path, group in groupby(matches, key=lambda match: match.path):
        if (handle := tree.open(path)) is None:
            continue
        try:
            line_of = _lines(handle)
            verified += [match for match in group if _is_true(match, line_of(match))]
        except OSError:
            continue
        finally:
            os.close(handle)
    return verified


def _is_true(match: Match, line: bytes | None) -> bool:
    return line is not None and all(
        cut(line[one.start : one.end].decode("utf-8", "replace")) == one.text for one in match.submatches
    )


def _lines(handle: int) -> Line:
    """A function that returns the line of a match, if the file has it."""
    head = os.pread(handle, max(map(len, MARKS)), 0)
    encoding = next((name for mark, name in MARKS.items() if head.startswith(mark)), None)
    if encoding is None:
        return lambda match: _line_at(handle, match)
    data = os.pread(handle, LARGEST_CONVERTED, 0).decode(encoding, "replace").encode()
    lines = {shown_line(line.decode()): line for line in data.split(b"\n")}
    return lambda match: lines.get(match.text)


def _line_at(handle: int, match: Match) -> bytes | None:
    ends = max((one.end for one in match.submatches), default=0)
    size = max(ends, (LINE_CHARACTERS + 2) * MOST_BYTES_OF_CHARACTER)
    line = os.pread(handle, size, match.offset).split(b"\n", 1)[0]
    return line if shown_line(line.decode("utf-8", "replace")) == match.text else None
