"""What commands print: tables for people, JSON for programs. Text from elsewhere cannot steer the terminal."""

from __future__ import annotations

import datetime as dt
import sys
from typing import TYPE_CHECKING, Any

import click

from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

UNBOUNDED = 100_000
"""The width of a page that nobody looks at: a pipe gets whole lines."""

json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")


def print_json(value: object) -> None:
    import msgspec

    from holdfast.schema.codec import encode

    click.echo(msgspec.json.format(encode(value), indent=2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """`right` are the columns of numbers."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(str("" if cell is None else cell))) for cell in row))
    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=UNBOUNDED)
    console.print(table)


def printable(text: str) -> str:
    """Without what a terminal would obey: control characters and turns of direction become visible; line breaks and
    tabs stay."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def brief(value: Any, limit: int = 100) -> str:
    """On one line, and not a long one."""
    text = printable(" ".join(str(value).split()))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def moment(millis: int) -> str:
    return f"{dt.datetime.fromtimestamp(millis / 1000).astimezone():%Y-%m-%d %H:%M}"


_OBEYED = pattern("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
