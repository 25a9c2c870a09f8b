"""What programs write to a terminal, as text or as HTML: colours become classes, everything else that is not text is
dropped, and a carriage return overwrites its line as terminals do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdfast.server.render.text import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = 2_000
"""Of a line that overwrites itself."""
COLOURS = ("ak", "ar", "ag", "ay", "al", "am", "ac", "aw")
CLASSES = frozenset({*COLOURS, "ab", "ad", "ai", "au"})
"""Black, red, green, yellow, blue, magenta, cyan, white; bold, dim, italic, underlined."""

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)(?P<parameters>[0-?]{0,256})[ -/]{0,16}(?P<final>[@-~])?"  # control sequence
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # titles, links, other strings
    r"|\x1b[ -/]{0,16}[0-~]?"
    r"|\x9c"
)
_BACK = re.compile(r"[\r\b]")

Cell = tuple[str, str]
"""A character and its classes."""


def plain(text: str) -> str:
    """Without sequences, and with lines as they look in the end."""
    if not _is_terminal(text):
        return text
    return "\n".join("".join(piece for piece, _ in runs) for runs in _lines(text))


def terminal_html(text: str) -> str:
    if not _is_terminal(text):
        return escaped(text)
    return "\n".join(
        "".join(f'<span class="{style}">{escaped(piece)}</span>' if style else escaped(piece) for piece, style in runs)
        for runs in _lines(text)
    )


def _is_terminal(text: str) -> bool:
    return any(character in text for character in "\x1b\r\b\x90\x98\x9b\x9c\x9d\x9e\x9f")


def _lines(text: str) -> Iterator[list[Cell]]:
    """The lines as runs of one style. The style goes on over line ends."""
    style = _Style()
    for line in text.split("\n"):
        line = line.rstrip("\r")
        if _BACK.search(line):
            yield _overwritten(line, style)
        else:
            yield [(piece, classes) for piece, classes, _ in _pieces(line, style) if piece]


def _overwritten(line: str, style: _Style) -> list[Cell]:
    cells: list[Cell] = []
    column = 0
    for piece, classes, erase in _pieces(line, style):
        for character in piece:
            if character == "\r":
                column = 0
            elif character == "\b":
                column = max(0, column - 1)
            else:
                if column < len(cells):
                    cells[column] = (character, classes)
                elif len(cells) < COLUMNS:
                    cells.extend([(" ", "")] * (column - len(cells)))
                    cells.append((character, classes))
                column = min(column + 1, COLUMNS)
        if erase is not None:
            if erase == "0":
                del cells[column:]
            elif erase == "2":
                cells[:] = [(" ", "")] * column
    return _runs(cells)


def _runs(cells: list[Cell]) -> list[Cell]:
    runs: list[tuple[list[str], str]] = []
    for character, classes in cells:
        if runs and runs[-1][1] == classes:
            runs[-1][0].append(character)
        else:
            runs.append(([character], classes))
    return [("".join(characters), classes) for characters, classes in runs]


def _pieces(line: str, style: _Style) -> Iterator[tuple[str, str, str | None]]:
    """Text with its classes, and after it which part of the line is erased, if any."""
    position = 0
    for found in _SEQUENCE.finditer(line):
        text, position = line[position : found.start()], found.end()
        parameters = found["parameters"] or ""
        yield text, style.classes, (parameters or "0") if found["final"] == "K" else None
        if found["final"] == "m":
            style.apply(parameters)
    yield line[position:], style.classes, None


class _Style:
    """What the newest colour sequences set."""

    def __init__(self) -> None:
        self._colour = ""
        self._marks: set[str] = set()
        self.classes = ""

    def apply(self, parameters: str) -> None:
        codes = [int(code) if code.isdecimal() and len(code) < 4 else 0 for code in re.split("[;:]", parameters)]
        position = 0
        while position < len(codes):
            code = codes[position]
            position += 1
            if code in (38, 48):  # one of 256 colours, or any colour: the first sixteen are the named ones
                indexed = codes[position : position + 1] == [5]
                if indexed and code == 38 and codes[position + 1 : position + 2]:
                    number = codes[position + 1]
                    self._colour = COLOURS[number % 8] if number < 16 else ""
                position += 2 if indexed else 4
            else:
                self._apply(code)
        self.classes = " ".join(filter(None, (self._colour, *sorted(self._marks))))

    def _apply(self, code: int) -> None:
        if code == 0:
            self._colour = ""
            self._marks.clear()
        elif 30 <= code <= 37 or 90 <= code <= 97:
            self._colour = COLOURS[code % 10]
        elif code == 39:
            self._colour = ""
        elif code in _SET:
            self._marks.add(_SET[code])
        elif code in _RESET:
            self._marks -= _RESET[code]


_SET = {1: "ab", 2: "ad", 3: "ai", 4: "au"}
_RESET = {22: {"ab", "ad"}, 23: {"ai"}, 24: {"au"}}
