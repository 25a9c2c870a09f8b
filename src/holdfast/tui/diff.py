"""A unified diff as lines: numbers, signs, and code in the colours of its language."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.schema.pattern import pattern
from holdfast.text.highlighting import language_of
from holdfast.tui.code import coloured
from holdfast.tui.lines import hard_wrap, padded, safe_line, truncated
from holdfast.tui.style import UNICODE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.tui.lines import Line
    from holdfast.tui.style import Marks

LINES = 5_000
LINE = 2_000
"""Characters of a line."""
GROUP = 100
"""Lines that are rendered together."""
_HUNK = pattern(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)")
_STYLES = {"+": "class:diff.add", "-": "class:diff.remove", " ": "class:diff.same"}


class _Row(NamedTuple):
    sign: str
    """`+`, `-` or a space; `@` before a hunk, `f` before a file, `\\` for a note."""
    number: int
    text: str


class Diff:
    """A diff that is rendered in groups of lines."""

    def __init__(self, text: str, name: str = "") -> None:
        """`name` is that of the file, after which its code is coloured; a text with several files names them itself."""
        rows = list(_rows(text))
        self.additions = sum(row.sign == "+" for row in rows)
        self.deletions = sum(row.sign == "-" for row in rows)
        self._digits = len(str(max((row.number for row in rows), default=0)))
        self._groups = list(_grouped(rows, name))

    @property
    def groups(self) -> int:
        return len(self._groups)

    def lines(self, group: int, width: int, marks: Marks = UNICODE) -> list[Line]:
        language, rows = self._groups[group]
        if rows[0].sign in _STYLES:
            return list(_hunk(rows, width, language, self._digits, marks))
        sign, _, text = rows[0]
        shown, indent = safe_line(text), " " * self._digits
        if sign == "f":
            return [truncated([("class:diff.file", shown)], width, marks.ellipsis)]
        if sign == "@":
            note = f"{indent} {marks.ellipsis} {shown}".rstrip()
            return [truncated([("class:diff.hunk", note)], width, marks.ellipsis)]
        return [truncated([("class:dim", f"{indent}   {shown}")], width, marks.ellipsis)]


def diff_lines(text: str, width: int, name: str = "", marks: Marks = UNICODE) -> list[Line]:
    """All lines of a diff."""
    diff = Diff(text, name)
    return [line for group in range(diff.groups) for line in diff.lines(group, width, marks)]


def _grouped(rows: list[_Row], name: str) -> Iterator[tuple[str, list[_Row]]]:
    """Rows of code that follow each other, and each other row alone, with the language."""
    language = language_of(name)
    group: list[_Row] = []
    begun = False
    for row in rows:
        if group and (row.sign not in _STYLES or len(group) >= GROUP):
            yield language, group
            group = []
        if row.sign in _STYLES:
            group.append(row)
        elif row.sign == "f":
            language = language_of(row.text)
            if row.text != name:
                yield "", [row]
        elif row.sign != "@" or begun or row.text:  # the first hunk of a file needs no line before it
            yield "", [row]
        begun = row.sign != "f"
    if group:
        yield language, group


def _hunk(rows: list[_Row], width: int, language: str, digits: int, marks: Marks) -> Iterator[Line]:
    codes = coloured("\n".join(row.text for row in rows), language)
    for row, code in zip(rows, codes, strict=True):
        base = _STYLES[row.sign]
        sign = marks.minus if row.sign == "-" else row.sign
        number = (f"{base} class:diff.number", f"{row.number:>{digits}} ")
        first = [number, (f"{base} class:diff.sign", f"{sign} ")]
        rest = [(f"{base} class:diff.number", " " * (digits + 3))]
        styled = [(f"{base} {own}", text) for own, text in code]
        for line in hard_wrap(styled, width, first=first, rest=rest):
            yield padded(line, width, base) if row.sign != " " else line


def _rows(text: str) -> Iterator[_Row]:
    old = new = old_end = new_end = 0
    inside = False
    given = text.removesuffix("\n").split("\n")
    for line in given[:LINES]:
        line = line.rstrip("\r")
        if len(line) > LINE:
            line = f"{line[:LINE]}… ({len(line) - LINE:,} characters left out)"
        sign, rest = line[:1], line[1:]
        if (hunk := _HUNK.fullmatch(line)) is not None:
            old, new, inside = int(hunk[1]), int(hunk[3]), True
            old_end, new_end = old + int(hunk[2] or 1), new + int(hunk[4] or 1)
            yield _Row("@", 0, hunk[5].strip())
        elif old >= old_end and new >= new_end and line.startswith(("--- ", "diff --git ")):
            inside = False
        elif not inside:
            if line.startswith("+++ ") and (path := _path(line[4:])):
                yield _Row("f", 0, path)
        elif sign == "+":
            yield _Row("+", new, _one(rest))
            new += 1
        elif sign == "-":
            yield _Row("-", old, _one(rest))
            old += 1
        elif sign == "\\":
            yield _Row("\\", 0, rest.strip())
        else:
            yield _Row(" ", new, _one(rest))
            old, new = old + 1, new + 1
    if len(given) > LINES:
        yield _Row("\\", 0, f"{len(given) - LINES:,} more lines are left out here")


def _one(text: str) -> str:
    """Without characters that would make several lines of it."""
    return text if text.isprintable() else safe_line(text)


def _path(given: str) -> str:
    path = given.partition("\t")[0].strip()
    return "" if path == "/dev/null" else path.removeprefix("b/")
