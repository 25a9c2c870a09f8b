"""A table as lines. Columns share the width; a table that does not fit is shown as one line per cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.tui.lines import line_columns, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.tui.lines import Fragment, Line
    from holdfast.tui.style import Marks

NARROWEST = 6
"""Columns of a cell."""
Cell = list["Fragment"]


def table_lines(rows: Sequence[Sequence[Cell]], aligned: Sequence[str], width: int, marks: Marks) -> list[Line]:
    """The first row is the heading. `aligned` has `right`, `center` or nothing for each column."""
    if not rows or not rows[0]:
        return []
    widths = _widths(rows, width - 3 * (len(rows[0]) - 1))
    if widths is None:
        return _listed(rows, width)
    lines = _row(rows[0], widths, aligned, marks)
    between = f"{marks.rule}{marks.cross}{marks.rule}"
    lines.append([("class:md.table", between.join(marks.rule * size for size in widths))])
    for row in rows[1:]:
        lines += _row(row, widths, aligned, marks)
    return lines


def _widths(rows: Sequence[Sequence[Cell]], room: int) -> list[int] | None:
    """Of the columns. The widest give way first, down to the narrowest that is still readable."""
    number = len(rows[0])
    wanted = [max(1, *(line_columns(row[index]) for row in rows if index < len(row))) for index in range(number)]
    if sum(wanted) <= room:
        return wanted
    if room < number * NARROWEST:
        return None
    low, high = NARROWEST, max(wanted)
    while low < high:  # the largest limit for all columns with which they fit
        middle = (low + high + 1) // 2
        if sum(min(size, middle) for size in wanted) <= room:
            low = middle
        else:
            high = middle - 1
    return [min(size, low) for size in wanted]


def _row(row: Sequence[Cell], widths: Sequence[int], aligned: Sequence[str], marks: Marks) -> list[Line]:
    cells = [wrap(row[index] if index < len(row) else [], size) for index, size in enumerate(widths)]
    lines: list[Line] = []
    for number in range(max(map(len, cells))):
        line: Line = []
        for index, size in enumerate(widths):
            if index:
                line.append(("class:md.table", f" {marks.gutter} "))
            shown = cells[index][number] if number < len(cells[index]) else []
            missing = size - line_columns(shown)
            side = aligned[index] if index < len(aligned) else ""
            before = missing if side == "right" else missing // 2 if side == "center" else 0
            after = missing - before if index < len(widths) - 1 else 0
            line += [("", " " * before), *shown, ("", " " * after)]
        lines.append([fragment for fragment in line if fragment[1]])
    return lines


def _listed(rows: Sequence[Sequence[Cell]], width: int) -> list[Line]:
    """Each cell on a line of its own, after the heading of its column."""
    lines: list[Line] = []
    for row in rows[1:] or rows[:1]:
        if lines:
            lines.append([])
        for index, cell in enumerate(row):
            heading = [*rows[0][index], ("", ": ")] if rows[1:] and index < len(rows[0]) else []
            lines += wrap([*heading, *cell], width)
    return lines
