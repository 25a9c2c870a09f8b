"""What commands print: tables for people, JSON for programs. Text from elsewhere cannot steer the terminal."""

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
"""The room that the last column of a table is folded into; with less, its lines are left to the terminal."""

json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")


def print_json(value: object) -> None:
    import msgspec

    from holdfast.schema.codec import encode

    click.echo(msgspec.json.format(encode(value), indent=2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """`right` are the columns of numbers. In a terminal the last column is folded where there is room for it; no other
    is, so that an id stays in one piece. A pipe gets one line a row."""
    import shutil

    body = [["" if cell is None else one_line(str(cell)) for cell in row] for row in rows]
    widths = [max(map(_width, cells)) for cells in zip(columns, *body, strict=True)]
    room = shutil.get_terminal_size().columns - sum(widths[:-1]) - 2 * len(widths[:-1]) if sys.stdout.isatty() else 0
    lines = []
    for row in (list(columns), *body):
        folded = _folded(row[-1], room) if room >= NARROWEST else [row[-1]]
        lines += [[*row[:-1], folded[0]], *([*[""] * len(row[:-1]), rest] for rest in folded[1:])]
    for number, line in enumerate(lines):
        padded = (
            " " * (width - _width(cell)) + cell if column in right else cell + " " * (width - _width(cell))
            for column, width, cell in zip(columns, widths, line, strict=True)
        )
        text = "  ".join(padded).rstrip()
        click.echo(text if number else heading(text))


def heading(text: str) -> str:
    """Bold, where somebody looks who did not say otherwise."""
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else click.style(text, bold=True)


def printable(text: str) -> str:
    """Without what a terminal would obey: control characters and turns of direction become visible; line breaks and
    tabs stay."""
    return _OBEYED.sub(_escaped, text)


def visible(text: str) -> str:
    """As `printable`, and what takes no room becomes visible too: for what a person decides about."""
    return _UNSEEN.sub(_escaped, printable(text))


def one_line(text: str) -> str:
    """For a label, a title or a path: printable, and it cannot look like two lines."""
    return " ".join(printable(text).splitlines())


def brief(value: Any, limit: int = 100) -> str:
    """On one line, and not a long one."""
    text = printable(" ".join(str(value).split()))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def moment(millis: int) -> str:
    return f"{dt.datetime.fromtimestamp(millis / 1000).astimezone():%Y-%m-%d %H:%M}"


def _width(text: str) -> int:
    """In the columns of a terminal: what is written above a letter takes none, what East Asia writes wide takes two."""
    import unicodedata

    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def _folded(text: str, room: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, room, break_on_hyphens=False) or [""]


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


_OBEYED = pattern("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UNSEEN = pattern(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028\u2029\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
