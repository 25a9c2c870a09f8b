"""What programs write to a terminal, as lines with styles. Characters that are not printable are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.text import program_output
from holdfast.text.program_output import COLOURS
from holdfast.tui.lines import hard_wrap, safe_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.text.program_output import Look
    from holdfast.tui.lines import Fragment, Line

OWN = frozenset({*COLOURS, "dim"})
"""What has a style of ours; prompt_toolkit knows the others."""


def output_lines(text: str, width: int, *, first: Sequence[Fragment] = ()) -> list[Line]:
    """The lines, broken where they are wider than the width, with `first` before each."""
    lines: list[Line] = []
    for line in program_lines(text):
        lines += hard_wrap(line, width, first=first)
    return lines


def program_lines(text: str) -> Iterator[Line]:
    """The lines as they are, whatever their width."""
    for runs in program_output.program_lines(text.removesuffix("\n")):
        yield [(_style(look), shown) for piece, look in runs if (shown := safe_line(piece))]


def _style(look: Look) -> str:
    return " ".join(f"class:ansi.{name}" if name in OWN else name for name in look)
