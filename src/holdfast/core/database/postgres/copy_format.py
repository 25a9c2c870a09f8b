"""Rows in the text format of COPY: a line for each row, tabs between its values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdfast.core.database.postgres.statement import encode
from holdfast.core.database.postgres.text import restore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.database.unit import Row, Value

NULL = b"\\N"
_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v", b"\\": b"\\"}
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)


def copy_line(row: Row) -> bytes:
    return b"\t".join([NULL if (data := encode(value)) is None else _escape(data) for value in row]) + b"\n"


def copied_row(line: bytes, converts: Sequence[Callable[[bytes], Value]]) -> Row:
    """`converts` has a function for each column."""
    fields = line.rstrip(b"\n").split(b"\t")
    return tuple(
        [
            None if field == NULL else convert(_ESCAPED.sub(_unescaped, field) if b"\\" in field else field)
            for field, convert in zip(fields, converts, strict=True)
        ]
    )


def text(value: bytes) -> str:
    return restore(value.decode())


# By the number of the type. Anything else is text.
CONVERSIONS: dict[int, Callable[[bytes], Value]] = {20: int, 21: int, 23: int, 701: float}


def _escape(data: bytes) -> bytes:
    if b"\\" in data:
        data = data.replace(b"\\", b"\\\\")
    if b"\n" in data:
        data = data.replace(b"\n", b"\\n")
    if b"\r" in data:
        data = data.replace(b"\r", b"\\r")
    if b"\t" in data:
        data = data.replace(b"\t", b"\\t")
    return data


def _unescaped(found: re.Match[bytes]) -> bytes:
    return _ESCAPES.get(found[1], found[1])
