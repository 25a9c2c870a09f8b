"""Reading the engine's records."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from holdfast.core.search.match import (
    CUT,
    LINE_CHARACTERS,
    MOST_SUBMATCHES,
    RECORD_BYTES,
    Match,
    MatchReader,
    Submatch,
)

END = b'{"data":{},"type":"summary"}\n'


def text(value: str) -> dict[str, str]:
    return {"text": value}


def raw(value: bytes) -> dict[str, str]:
    return {"bytes": base64.b64encode(value).decode()}


def record(lines: dict[str, str], path: dict[str, str] | None = None, number: int = 3, count: int = 1) -> bytes:
    data: dict[str, Any] = {
        "path": path or text("./a.txt"),
        "lines": lines,
        "line_number": number,
        "absolute_offset": 40,
        "submatches": [{"match": text("m"), "start": 1, "end": 2}] * count,
    }
    return json.dumps({"type": "match", "data": data}, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def read(stream: bytes, size: int = 1 << 16, most: int = 1000, most_bytes: int = 1 << 20) -> MatchReader:
    reader = MatchReader(lambda path: True, most, most_bytes)
    for start in range(0, len(stream), size):
        if not reader(stream[start : start + size]):
            break
    return reader


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_a_match_is_read_however_the_stream_is_cut(size: int) -> None:
    """TOL-230, TOL-239: however the stream is cut; a path or line that is no UTF-8 comes with replacements."""
    stream = b'{"type":"begin","data":{}}\n' + record(text("xm\r\n")) + record(raw(b"x\xffm\n"), raw(b"./b\xff")) + END
    reader = read(stream, size)
    submatches = (Submatch("m", 1, 2),)
    assert reader.matches == [Match("a.txt", 3, 40, "xm", submatches), Match("b\udcff", 3, 40, "x�m", submatches)]
    assert reader.complete


def test_long_lines_and_many_submatches_are_cut() -> None:
    """TOL-233: at so many characters, never inside one; at so many submatches."""
    exact = "🙂" * LINE_CHARACTERS
    first, second = read(record(text(exact)) + record(text(exact + "x"), count=200)).matches
    assert first.text == exact
    assert second.text == exact + CUT
    assert len(second.submatches) == MOST_SUBMATCHES


@pytest.mark.parametrize("size", [999, 1 << 16, 1 << 20])
@pytest.mark.parametrize(
    "lines",
    [
        text("abc" * RECORD_BYTES),
        text('\\"\n\t' * RECORD_BYTES),
        text("漢🙂" * RECORD_BYTES),
        text('"},"line_number":9,"absolute_offset":9,' * 4000),
        raw(b"\xff\xfe" * RECORD_BYTES),
    ],
)
def test_a_huge_record_keeps_its_place(lines: dict[str, str], size: int) -> None:
    """TOL-239: path, line and the beginning; the records around it are untouched."""
    small = record(text("xm\n"))
    before, huge, after = read(small + record(lines, number=77) + small + END, size).matches
    assert before == after
    beginning = lines.get("text") or base64.b64decode(lines["bytes"]).decode("utf-8", "replace")
    assert huge == Match("a.txt", 77, 40, beginning[:LINE_CHARACTERS] + CUT, ())


@pytest.mark.parametrize("line", [b"mmm\n", b"\xffmmm\n", b"\xffmm\n", b"\xffm\n"])
def test_many_submatches_make_a_huge_record_too(line: bytes) -> None:
    """TOL-239: the place stands in the part that is held, and so does the end of the line, text or not."""
    lines = raw(line) if line.startswith(b"\xff") else text(line.decode())
    expected = Match("a.txt", 3, 40, line.decode("utf-8", "replace").rstrip(), ())
    assert read(record(lines, count=5000) + END).matches == [expected]


def test_reading_matches_stops_at_the_limit_of_number_or_size() -> None:
    """TOL-234: by number, or by size; what is not wanted does not count."""
    assert len(read(record(text("x\n")) * 50, most=10).matches) == 10
    assert len(read(record(text("x" * 100 + "\n")) * 50, most_bytes=1000).matches) == 10
    assert read(record(text("x\n")) * 50, most=10).enough
    reader = MatchReader(lambda path: False, 1, 1)
    assert reader(record(text("x\n")) * 50)
    assert reader.matches == []
