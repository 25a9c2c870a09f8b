"""Prints tables for people and JSON for programs. Control characters of foreign text are escaped."""

from __future__ import annotations

import datetime as dt
import os
import sys
from typing import TYPE_CHECKING

import click

from holdfast.schema.pattern import pattern
from holdfast.text.visible_text import brief as brief
from holdfast.text.visible_text import one_line as one_line
from holdfast.text.visible_text import printable as printable
from holdfast.text.visible_text import visible as visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NARROWEST = 20
"""The smallest width into which the last column of a table is wrapped; below it the terminal wraps the lines."""
UNLIMITED = 10_000

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


_USER = pattern(r"(?<=//)[^/@\s]*@")
_PASSWORD = pattern(r"(?i)(\bpassword=)[^&\s'\"]*")


def print_json(value: object) -> None:
    import msgspec

    from holdfast.schema.codec import encode

    click.echo(msgspec.json.format(encode(value), indent=2))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Print rows below the headings. `right` names the columns that are aligned to the right. In a terminal the last
    column is wrapped; the others are not, so that an id stays in one piece. A pipe gets one line per row."""
    body = [["" if cell is None else one_line(str(cell)) for cell in row] for row in rows]
    widths = [max(map(_width, cells)) for cells in zip(headings, *body, strict=True)]
    room = columns() - sum(widths[:-1]) - 2 * len(widths[:-1]) if sys.stdout.isatty() else 0
    lines = []
    for row in (list(headings), *body):
        wrapped = _wrapped(row[-1], room) if room >= NARROWEST else [row[-1]]
        lines += [[*row[:-1], wrapped[0]], *([*[""] * len(row[:-1]), rest] for rest in wrapped[1:])]
    for number, line in enumerate(lines):
        padded = (
            " " * (width - _width(cell)) + cell if column in right else cell + " " * (width - _width(cell))
            for column, width, cell in zip(headings, widths, line, strict=True)
        )
        text = "  ".join(padded).rstrip()
        click.echo(text if number else heading(text))


def columns() -> int:
    """The width of the terminal. A pipe has none: its lines are as long as they are."""
    import shutil

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else UNLIMITED


def heading(text: str) -> str:
    """Bold in a terminal, unless NO_COLOR is set."""
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else click.style(text, bold=True)


def size(count: int) -> str:
    """Bytes, for a person."""
    amount = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:,.0f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} GiB"


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


def without_passwords(text: str) -> str:
    """A message that repeats arguments, without what addresses in them have before `@` and as `password`."""
    return _PASSWORD.sub(r"\1***", _USER.sub("***@", text))
