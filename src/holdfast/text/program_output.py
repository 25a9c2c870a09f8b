"""What programs write to a terminal, as lines of styled text: a carriage return and a backspace overwrite as terminals
do, colours become names, and every other sequence is dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = 2_000
"""Of a line that overwrites itself."""
COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
ATTRIBUTES = ("bold", "dim", "italic", "strike", "underline")

Look = tuple[str, ...]
"""The name of a colour, if there is one, and attributes in alphabetical order."""
Run = tuple[str, Look]
"""Text of one look."""

_SEQUENCE = pattern(
    r"(?:\x1b\[|\x9b)(?P<parameters>[0-?]{0,256})[ -/]{0,16}(?P<final>[@-~])?"  # control sequence
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # titles, links, other strings
    r"|\x1b[ -/]{0,16}[0-~]?"
    r"|[\x07\x9c\x0e\x0f]"
)
_BACK = pattern(r"[\r\b]")
_PARAMETER = pattern("[;:]")
_SET = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 9: "strike"}
_RESET = {22: {"bold", "dim"}, 23: {"italic"}, 24: {"underline"}, 29: {"strike"}}


def has_sequences(text: str) -> bool:
    """Whether a terminal would do more than print it."""
    return any(character in text for character in "\x1b\r\b\x90\x98\x9b\x9c\x9d\x9e\x9f")


def program_lines(text: str) -> Iterator[list[Run]]:
    """The lines as runs of one look. A look goes on over line ends."""
    style = _Style()
    for line in text.split("\n"):
        line = line.rstrip("\r")
        if _BACK.search(line):
            yield _overwritten(line, style)
        else:
            yield [(piece, look) for piece, look, _ in _pieces(line, style) if piece]


def _overwritten(line: str, style: _Style) -> list[Run]:
    cells: list[Run] = []
    column = 0
    for piece, look, erase in _pieces(line, style):
        for character in piece:
            if character == "\r":
                column = 0
            elif character == "\b":
                column = max(0, column - 1)
            else:
                if column < len(cells):
                    cells[column] = (character, look)
                elif len(cells) < COLUMNS:
                    cells.extend([(" ", ())] * (column - len(cells)))
                    cells.append((character, look))
                column = min(column + 1, COLUMNS)
        if erase == "0":
            del cells[column:]
        elif erase == "2":
            cells[:] = [(" ", ())] * column
    return _runs(cells)


def _runs(cells: list[Run]) -> list[Run]:
    runs: list[tuple[list[str], Look]] = []
    for character, look in cells:
        if runs and runs[-1][1] == look:
            runs[-1][0].append(character)
        else:
            runs.append(([character], look))
    return [("".join(characters), look) for characters, look in runs]


def _pieces(line: str, style: _Style) -> Iterator[tuple[str, Look, str | None]]:
    """Text with its look, and after it which part of the line is erased, if any."""
    position = 0
    for found in _SEQUENCE.finditer(line):
        text, position = line[position : found.start()], found.end()
        parameters = found["parameters"] or ""
        yield text, style.look, (parameters or "0") if found["final"] == "K" else None
        if found["final"] == "m":
            style.apply(parameters)
    yield line[position:], style.look, None


class _Style:
    """What the newest colour sequences set."""

    def __init__(self) -> None:
        self._colour: Look = ()
        self._attributes: set[str] = set()
        self.look: Look = ()

    def apply(self, parameters: str) -> None:
        codes = [int(code) if code.isdecimal() and len(code) < 4 else 0 for code in _PARAMETER.split(parameters)]
        position = 0
        while position < len(codes):
            code = codes[position]
            position += 1
            if code in (38, 48):  # one of 256 colours, or any colour: the first sixteen are the named ones
                indexed = codes[position : position + 1] == [5]
                if indexed and code == 38 and codes[position + 1 : position + 2]:
                    number = codes[position + 1]
                    self._colour = (COLOURS[number % 8],) if number < 16 else ()
                position += 2 if indexed else 4
            else:
                self._apply(code)
        self.look = (*self._colour, *sorted(self._attributes))

    def _apply(self, code: int) -> None:
        if code == 0:
            self._colour = ()
            self._attributes.clear()
        elif 30 <= code <= 37 or 90 <= code <= 97:
            self._colour = (COLOURS[code % 10],)
        elif code == 39:
            self._colour = ()
        elif code in _SET:
            self._attributes.add(_SET[code])
        elif code in _RESET:
            self._attributes -= _RESET[code]
