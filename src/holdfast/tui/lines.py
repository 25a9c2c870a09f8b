"""Lines of a terminal: text with styles that fits a width. Widths are columns, as prompt_toolkit counts them.

Invariants
- No control character gets through `safe` and `safe_line`: what a terminal would obey is shown as an escape.
- No line that `wrap`, `hard_wrap`, `truncated` or `sides` returns is wider than the width, if that is at least 1.
- Foreign text is never part of a style, because prompt_toolkit gives some words in styles a meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.utils import get_cwidth

from holdfast.schema.pattern import pattern
from holdfast.text.visible_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Fragment = tuple[str, str]
"""A style of prompt_toolkit, such as `class:md.strong`, and text without line breaks."""
Line = list[Fragment]

TAB = 4
STACKED = 4
"""Characters without a width that are kept on one place. More of them, as in `zalgo` text, are dropped."""
ELLIPSIS = "…"
GAP = 2
"""Columns between the two sides of a line."""
_WORDS = pattern(r" +|[^ ]+")
_BREAKS = pattern(r"\r\n|[\n\x0b\x0c\x85\u2028\u2029]")
_SURROGATES = pattern("[\ud800-\udfff]")


def safe(text: str) -> str:
    """The text with everything that a terminal would obey escaped, tabs as spaces, and `\\n` as the only line break.
    Of emoji whose width terminals disagree about, joiners, variants and skins are dropped, and flags are letters."""
    text = printable(_BREAKS.sub("\n", text)).expandtabs(TAB)
    return text if text.isascii() else _steady(text)


def safe_line(text: str) -> str:
    """The safe text on one line."""
    return " ".join(safe(text).split("\n"))


def columns(text: str) -> int:
    """The width of a safe text."""
    return len(text) if text.isascii() else sum(map(get_cwidth, text))


def line_columns(line: Iterable[Fragment]) -> int:
    return sum(columns(text) for _, text in line)


def plain_text(line: Iterable[Fragment]) -> str:
    return "".join(text for _, text in line)


def wrap(
    fragments: Iterable[Fragment], width: int, *, first: Sequence[Fragment] = (), rest: Sequence[Fragment] | None = None
) -> list[Line]:
    """Break a safe text between words; a word that is wider than a line, and one of wide characters, is broken where
    the line ends. `first` comes before the first line, `rest` (or the same) before the others. At least one line."""
    lines = _Lines(width, first, first if rest is None else rest)
    for word, is_space in _words(fragments):
        if is_space:
            lines.space(word)
        else:
            lines.word(word)
    return lines.finished()


def hard_wrap(
    fragments: Iterable[Fragment], width: int, *, first: Sequence[Fragment] = (), rest: Sequence[Fragment] | None = None
) -> list[Line]:
    """Break a safe text where a line ends, and keep all its spaces: for code and the output of programs."""
    lines = _Lines(width, first, first if rest is None else rest)
    lines.broken(fragments)
    return lines.finished()


def truncated(line: Iterable[Fragment], width: int, ellipsis: str = ELLIPSIS) -> Line:
    """The line if it fits, otherwise its beginning and an ellipsis."""
    line = list(line)
    if line_columns(line) <= width:
        return line
    shortened: Line = []
    room = width - columns(ellipsis)
    if room < 0:
        ellipsis, room = ellipsis[:width], max(0, width - columns(ellipsis[:width]))
    for style, text in line:
        head, tail = split_at(text, room)
        if head:
            shortened.append((style, head))
        room -= columns(head)
        if tail:
            shortened.append((style, ellipsis))
            break
    return shortened


def sides(left: Sequence[Fragment], right: Sequence[Fragment], width: int, ellipsis: str = ELLIPSIS) -> Line:
    """One line with its ends at both sides. If there is no room for both, the left is shortened; if less than half of
    the width would be left to it, the right is left out."""
    taken = line_columns(right)
    if not right or taken + GAP > width // 2:
        return truncated(left, width, ellipsis)
    begin = truncated(left, width - taken - GAP, ellipsis)
    return [*begin, ("", " " * (width - taken - line_columns(begin))), *right]


def padded(line: Line, width: int, style: str = "") -> Line:
    """The line with spaces up to the width, for a background that reaches the edge."""
    missing = width - line_columns(line)
    return [*line, (style, " " * missing)] if missing > 0 else line


def indented(lines: Iterable[Line], first: Sequence[Fragment], rest: Sequence[Fragment] | None = None) -> list[Line]:
    """The lines with `first` before the first and `rest` (or the same) before the others."""
    rest = first if rest is None else rest
    return [[*(rest if number else first), *line] for number, line in enumerate(lines)]


def styled(lines: Iterable[Line], style: str) -> list[Line]:
    """The lines with a style below that of each fragment."""
    return [[(f"{style} {own}".rstrip(), text) for own, text in line] for line in lines]


def split_at(text: str, room: int) -> tuple[str, str]:
    """The longest beginning of at most `room` columns, and what follows."""
    if text.isascii():
        return text[:room] if room > 0 else "", text[room:] if room > 0 else text
    taken = 0
    for position, character in enumerate(text):
        taken += get_cwidth(character)
        if taken > room:
            return text[:position], text[position:]
    return text, ""


class _Lines:
    """Fills lines of a width from words and spaces."""

    def __init__(self, width: int, first: Sequence[Fragment], rest: Sequence[Fragment]) -> None:
        self._first = _fitting(first, width)
        self._rest = _fitting(rest, width)
        self._room = width
        self._lines: list[Line] = []
        self._spaces: Line = []
        """Spaces after the last word, which are dropped where a line is broken."""
        self._begin(self._first)

    def _begin(self, prefix: Line) -> None:
        self._line: Line = list(prefix)
        self._left = self._room - line_columns(prefix)
        self._empty = True
        self._spaces = []

    def _next_line(self) -> None:
        self._lines.append(self._line)
        self._begin(self._rest)

    def space(self, fragments: Line) -> None:
        if not self._empty or not self._lines:
            self._spaces += fragments

    def word(self, fragments: Line) -> None:
        size, between = line_columns(fragments), line_columns(self._spaces)
        if size + between <= self._left:
            self._take([*self._spaces, *fragments], size + between)
            return
        whole = self._room - line_columns(self._rest)
        if size > whole or any(columns(text) > len(text) for _, text in fragments):
            if between < self._left:
                self._take(self._spaces, between)
            elif not self._empty:
                self._next_line()
            self._spaces = []
            self.broken(fragments)
            return
        if not self._empty or between:
            self._next_line()
        self._take(fragments, size)

    def broken(self, fragments: Iterable[Fragment]) -> None:
        for style, text in fragments:
            while text:
                head, text = split_at(text, self._left)
                if head:
                    self._take([(style, head)], columns(head))
                elif not self._empty:
                    self._next_line()
                else:  # one character is wider than the line
                    self._take([(style, "?")], 1)
                    text = text[1:]
                    if text:
                        self._next_line()

    def _take(self, fragments: Sequence[Fragment], size: int) -> None:
        for style, text in fragments:
            if self._line and self._line[-1][0] == style and not self._empty:
                self._line[-1] = (style, self._line[-1][1] + text)
            else:
                self._line.append((style, text))
            self._empty = False
        self._left -= size
        self._spaces = []

    def finished(self) -> list[Line]:
        return [*self._lines, self._line]


def _fitting(prefix: Sequence[Fragment], width: int) -> Line:
    """The prefix, shortened so that it leaves a column for text."""
    return truncated(prefix, max(0, width - 1), "")


def _words(fragments: Iterable[Fragment]) -> Iterator[tuple[Line, bool]]:
    """Words and the spaces between them. A word may have several styles."""
    word: Line = []
    was_space = False
    for style, text in fragments:
        for piece in _WORDS.findall(text):
            is_space = piece[0] == " "
            if word and is_space != was_space:
                yield word, was_space
                word = []
            word.append((style, piece))
            was_space = is_space
    if word:
        yield word, was_space


def _steady(text: str) -> str:
    """The text with characters that have the same width in every terminal."""
    kept: list[str] = []
    stacked = before = 0
    for character in _SURROGATES.sub("\ufffd", text):
        size = get_cwidth(character)
        if size == 0 and character != "\n":
            stacked += 1
            joins_emoji = before == 2 and character == "\u200d"
            if stacked > STACKED or joins_emoji or "\ufe00" <= character <= "\ufe0f":
                continue
        elif before == 2 and "\U0001f3fb" <= character <= "\U0001f3ff":  # the colour of a skin
            continue
        elif "\U0001f1e6" <= character <= "\U0001f1ff":  # half a flag
            character, stacked, before = chr(ord(character) - 0x1F1E6 + ord("A")), 0, 1
        else:
            stacked, before = 0, size
        kept.append(character)
    return "".join(kept)


def encodable(line: Line, encoding: str) -> Line:
    """The line with `?` for each column of what a terminal of this encoding cannot show."""
    return [(style, _encodable(text, encoding)) for style, text in line]


def _encodable(text: str, encoding: str) -> str:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(
            character if character.encode(encoding, "ignore") else "?" * get_cwidth(character) for character in text
        )
    return text
