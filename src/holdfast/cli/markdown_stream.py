"""Styles Markdown while it is written: headings, fenced code, bold text and inline code.

Invariants
- Every character of the text is printed once, in order, with its markers: nothing is lost where it was no Markdown.
- At most a few characters are kept back: the beginning of a line until its kind is known, and a marker at the end of
  what has arrived.
- A style ends with its line, so that an open marker does not colour the rest of the answer."""

from __future__ import annotations

from typing import Literal

from holdfast.cli.style import RESET, begin
from holdfast.schema.pattern import pattern

Inline = Literal["bold", "code"]

_UNDECIDED = pattern(r" {0,3}(?:#{1,6}|`{1,20}|~{1,20})?\Z")
"""The beginning of a line that may become a heading or a fence."""
_HEADING = pattern(r" {0,3}#{1,6}[ \t]")
_FENCE = pattern(r" {0,3}(```+|~~~+)")


class MarkdownStream:
    """Text is given to `feed`, and `end` gives what was kept back."""

    def __init__(self) -> None:
        self._kept = ""
        self._at_start = True
        self._fence: str | None = None
        """The marker that closes the code block."""
        self._line: Literal["heading", "dim", "code"] | None = None
        """The style of the whole line, if it has one."""
        self._inline: Inline | None = None
        self._before = " "
        """The last character of the line."""

    def feed(self, text: str) -> str:
        """The styled text, as far as its style is known."""
        pieces = []
        first, *rest = (self._kept + text).split("\n")
        self._kept = ""
        pieces.append(self._part(first, complete=bool(rest)))
        for number, line in enumerate(rest, start=1):
            pieces += [self._end_line(), "\n", self._part(line, complete=number < len(rest))]
        return "".join(pieces)

    def end(self) -> str:
        """The rest, at the end of the text."""
        kept, self._kept = self._kept, ""
        rest = (self._part(kept, complete=True) if kept else "") + self._end_line()
        self._fence = None
        return rest

    def _part(self, text: str, *, complete: bool) -> str:
        """A part of a line. `complete`: the line ends with it."""
        started = ""
        if self._at_start:
            if not complete and _UNDECIDED.match(text) is not None:
                self._kept = text
                return ""
            started = self._start_line(text)
            self._at_start = False
        if self._line is not None or not text:
            return started + text
        return started + self._inlined(text, complete=complete)

    def _start_line(self, text: str) -> str:
        fence = _FENCE.match(text)
        if self._fence is not None:
            closes = fence is not None and fence[1].startswith(self._fence)
            self._line, self._fence = ("dim", None) if closes else ("code", self._fence)
        elif fence is not None:
            self._line, self._fence = "dim", fence[1]
        elif _HEADING.match(text) is not None:
            self._line = "heading"
        return begin(self._line) if self._line is not None else ""

    def _end_line(self) -> str:
        styled = self._line is not None or self._inline is not None
        self._line, self._inline, self._at_start, self._before = None, None, True, " "
        return RESET if styled else ""

    def _inlined(self, text: str, *, complete: bool) -> str:
        """With bold text and inline code styled. A `*` at the end may be half of a marker, and is kept."""
        if not complete and text.endswith("*") and self._inline != "code":
            length = len(text) - len(text.rstrip("*"))
            text, self._kept = text[:-length], text[-length:]
        pieces: list[str] = []
        at = 0
        while at < len(text):
            marker = "**" if text.startswith("**", at) else text[at]
            after = text[at + len(marker) : at + len(marker) + 1]
            pieces.append(self._styled(marker, after))
            self._before = marker[-1]
            at += len(marker)
        return "".join(pieces)

    def _styled(self, marker: str, after: str) -> str:
        if marker == "`" and self._inline != "bold":
            return self._toggled("code", marker)
        opens = not (self._before.isalnum() or self._before == "*") and not after.isspace()
        if marker == "**" and (self._inline == "bold" or (self._inline is None and opens)):
            return self._toggled("bold", marker)
        return marker

    def _toggled(self, style: Inline, marker: str) -> str:
        if self._inline == style:
            self._inline = None
            return marker + RESET
        self._inline = style
        return begin(style) + marker
