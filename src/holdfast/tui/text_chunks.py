"""A Markdown text in chunks that are rendered one by one, so that neither a text that grows nor a very long one is
rendered whole for each redraw.

Invariants
- The chunks together are the text. All but the last are final: text that is added changes the last, or adds others.
- A chunk has at most about `LARGEST` characters, or `CODE_LINES` lines of a code block.
- Chunks end where a Markdown block at the top level ends, as far as these sizes allow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.pattern import pattern
from holdfast.tui.code import code_lines
from holdfast.tui.lines import indented
from holdfast.tui.markdown import NARROWEST, markdown_lines

if TYPE_CHECKING:
    from holdfast.tui.lines import Line
    from holdfast.tui.style import Marks

ENOUGH = 1_000
"""Characters after which a chunk ends with the next block."""
LARGEST = 4_000
"""Characters after which it ends with the next line. Parsing hostile text takes quadratic time."""
TABLE = 8_000
"""The same for a table, of which all rows are needed for the widths of its columns."""
CODE_LINES = 64
_FENCE = pattern(r"( *)(`{3,}(?=[^`]*$)|~{3,})(.*)")
_ITEM = pattern(r"(?:[-+*]|(\d{1,9})[.)])(?: |$)")


class Chunk:
    """A part of a text; its lines are kept for the newest width."""

    def __init__(self, *, gap: bool, language: str | None = None) -> None:
        self.text = ""
        """Complete lines."""
        self.rest = ""
        """A line that may go on."""
        self.gap = gap
        """Whether a blank line is before it."""
        self.language = language
        """Of lines of code without their fences; None for Markdown."""
        self.number: int | None = None
        """Of the item of a numbered list that it begins with."""
        self._lines: list[Line] = []
        self._drawn: tuple[int, int, Marks] | None = None

    def lines(self, width: int, marks: Marks) -> list[Line]:
        wanted = (width, len(self.text) + len(self.rest), marks)
        if self._drawn != wanted:
            self._lines = self._rendered(width, marks)
            self._drawn = wanted
        return self._lines

    def forget(self) -> None:
        """Free the memory of its lines."""
        self._lines, self._drawn = [], None

    def _rendered(self, width: int, marks: Marks) -> list[Line]:
        text = self.text + self.rest
        if self.language is None:
            return markdown_lines(text, width, marks, number=self.number)
        indent = "  " if width > NARROWEST else ""
        return indented(code_lines(text.removesuffix("\n"), width - len(indent), self.language), [("", indent)])


class _Fence:
    """A code block that is not closed yet. One inside a list is part of the list's chunk."""

    def __init__(self, mark: str, language: str, *, is_chunk: bool) -> None:
        self.mark = mark
        self.language = language
        self.is_chunk = is_chunk
        self.lines = 0

    def is_closed_by(self, line: str) -> bool:
        mark = line.strip()
        return len(mark) >= len(self.mark) and not mark.strip(self.mark[0])


class TextChunks:
    def __init__(self, text: str = "") -> None:
        self._source: list[str] = []
        self._begin()
        self.add(text)

    def _begin(self) -> None:
        self._source.clear()
        self._done: list[Chunk] = []
        self._open = Chunk(gap=False)
        self._rest = ""
        self._fence: _Fence | None = None
        self._blank = False
        """Whether the last line is blank."""
        self._in_list = False
        self._number: int | None = None
        """Of the last item, in a numbered list."""

    @property
    def text(self) -> str:
        if len(self._source) > 1:
            self._source = ["".join(self._source)]
        return self._source[0] if self._source else ""

    @property
    def chunks(self) -> list[Chunk]:
        return [*self._done, self._open] if self._open.text or self._open.rest else self._done

    def replace(self, text: str) -> None:
        """What was drawn stays if the new text begins with the old one."""
        old = self.text
        if text.startswith(old):
            self.add(text[len(old) :])
        else:
            self._begin()
            self.add(text)

    def add(self, text: str) -> None:
        if not text:
            return
        self._source.append(text)
        *lines, rest = (self._rest + text).split("\n")
        self._open.rest = ""
        for line in lines:
            self._line(line)
        while len(rest) > LARGEST:  # a line without an end
            at = rest.rfind(" ", 0, LARGEST) + 1 or LARGEST
            self._line(rest[:at])
            self._end(gap=False, language=self._open.language)
            rest = rest[at:]
        self._rest = self._open.rest = rest

    def _line(self, line: str) -> None:
        """Take a complete line."""
        if self._fence is not None:
            self._code_line(self._fence, line)
        elif (opening := _FENCE.fullmatch(line)) is not None:
            indent, mark, info = opening.groups()
            language = info.split(maxsplit=1)[0] if info.strip() else ""
            self._fence = _Fence(mark, language, is_chunk=not indent)
            if indent:
                self._open.text += line + "\n"
            else:
                self._end(gap=True, language=language)
        elif not line.strip():
            self._open.text += "\n" if self._open.text else ""
            self._blank = True
        else:
            self._text_line(line)
            self._blank = False

    def _code_line(self, fence: _Fence, line: str) -> None:
        if fence.is_closed_by(line):
            self._fence = None
            self._blank = False
            if fence.is_chunk:
                self._end(gap=True)
                self._in_list, self._number = False, None
                return
        elif fence.is_chunk and fence.lines >= CODE_LINES:
            self._end(gap=False, language=fence.language)
            fence.lines = 0
        elif not fence.is_chunk and len(self._open.text) > LARGEST:
            self._end(gap=False, language=fence.language)
            fence.is_chunk = True
        fence.lines += 1
        self._open.text += line + "\n"

    def _text_line(self, line: str) -> None:
        is_outer = line[0] not in " \t"
        item = _ITEM.match(line) if is_outer else None
        is_heading = is_outer and line[0] == "#"
        ends_block = is_outer and (self._blank or is_heading or (item is not None and self._in_list))
        size = len(self._open.text)
        largest = TABLE if line[0] == "|" else LARGEST
        if size >= largest or (size >= ENOUGH and ends_block):
            self._end(gap=self._blank or is_heading)
        if item is not None:
            self._in_list = True
            written = int(item[1]) if item[1] else None
            self._number = written if written is None or self._number is None else self._number + 1
            if not self._open.text:
                self._open.number = self._number
        elif ends_block:
            self._in_list, self._number = False, None
        self._open.text += line + "\n"

    def _end(self, *, gap: bool, language: str | None = None) -> None:
        """End the chunk. `gap` and `language` are those of the next one."""
        if self._open.text:
            self._done.append(self._open)
        self._open = Chunk(gap=gap and bool(self._done), language=language)
