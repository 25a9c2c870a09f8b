"""Prints tables for people and JSON for programs. Control characters of foreign text are escaped."""

from __future__ import annotations

import datetime as dt
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

NARROWEST = 20
"""The smallest width into which the last column of a table is wrapped; below it the terminal wraps the lines."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def print_json(value: object) -> None:
    import msgspec

    from holdfast.schema.codec import encode

    click.echo(msgspec.json.format(encode(value), indent=2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Print rows below the headings. `right` names the columns that are aligned to the right. In a terminal the last
    column is wrapped; the others are not, so that an id stays in one piece. A pipe gets one line per row."""
    import shutil

    body = [["" if cell is None else one_line(str(cell)) for cell in row] for row in rows]
    widths = [max(map(_width, cells)) for cells in zip(columns, *body, strict=True)]
    room = shutil.get_terminal_size().columns - sum(widths[:-1]) - 2 * len(widths[:-1]) if sys.stdout.isatty() else 0
    lines = []
    for row in (list(columns), *body):
        wrapped = _wrapped(row[-1], room) if room >= NARROWEST else [row[-1]]
        lines += [[*row[:-1], wrapped[0]], *([*[""] * len(row[:-1]), rest] for rest in wrapped[1:])]
    for number, line in enumerate(lines):
        padded = (
            " " * (width - _width(cell)) + cell if column in right else cell + " " * (width - _width(cell))
            for column, width, cell in zip(columns, widths, line, strict=True)
        )
        text = "  ".join(padded).rstrip()
        click.echo(text if number else heading(text))


def heading(text: str) -> str:
    """Bold in a terminal, unless NO_COLOR is set."""
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else click.style(text, bold=True)


def printable(text: str) -> str:
    """The text with control characters and changes of writing direction escaped; line breaks and tabs stay."""
    return _CONTROLS.sub(_escaped, text)


def visible(text: str) -> str:
    """As `printable`, with invisible characters escaped too: for text that a person decides about."""
    return _INVISIBLE.sub(_escaped, printable(text))


def one_line(text: str) -> str:
    """The printable text on one line, for a label, a title or a path."""
    return " ".join(printable(text).splitlines())


def brief(value: Any, limit: int = 100) -> str:
    """The printable text on one line of at most `limit` characters."""
    text = printable(" ".join(str(value).split()))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def moment(millis: int) -> str:
    return f"{dt.datetime.fromtimestamp(millis / 1000).astimezone():%Y-%m-%d %H:%M}"


def _width(text: str) -> int:
    """In columns of a terminal: combining characters take none, wide East Asian characters take two."""
    import unicodedata

    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def _wrapped(text: str, room: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, room, break_on_hyphens=False) or [""]


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


_CONTROLS = pattern("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_INVISIBLE = pattern(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028\u2029\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
