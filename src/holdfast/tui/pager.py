"""A page of text over the conversation: help, costs, context. It is scrolled and closed, nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.tui.lines import safe, truncated, wrap

if TYPE_CHECKING:
    from holdfast.tui.lines import Line


class Pager:
    def __init__(self, title: str, text: str, *, markdown: bool = False) -> None:
        self.title = title
        self._text = text
        self._markdown = markdown
        self._scroll = 0
        self._most = 0
        self._room = 1
        self._drawn: tuple[int, list[Line]] | None = None

    def key(self, key: str) -> bool:
        """Whether it is closed."""
        match key:
            case "escape" | "enter" | "q" | "c-c":
                return True
            case "up" | "down":
                self._move(1 if key == "down" else -1)
            case "pageup" | "pagedown" | " ":
                self._move(-self._room if key == "pageup" else self._room)
            case "home":
                self._scroll = 0
            case "end":
                self._scroll = self._most
        return False

    def lines(self, width: int, height: int) -> list[Line]:
        body = self._body(width)
        self._room = max(1, height - 1)
        self._most = max(0, len(body) - self._room)
        self._scroll = min(self._scroll, self._most)
        rest = self._most - self._scroll
        more = f"  {rest} more lines" if rest else ""
        title = truncated([("class:panel.title", self.title), ("class:dim", f"  Esc closes{more}")], width)
        return [title, *body[self._scroll : self._scroll + self._room]]

    def _move(self, by: int) -> None:
        self._scroll = max(0, min(self._scroll + by, self._most))

    def _body(self, width: int) -> list[Line]:
        if self._drawn is None or self._drawn[0] != width:
            self._drawn = (width, self._render(width))
        return self._drawn[1]

    def _render(self, width: int) -> list[Line]:
        if self._markdown:
            from holdfast.tui.markdown import markdown_lines

            return markdown_lines(self._text, width)
        lines: list[Line] = []
        for line in safe(self._text).split("\n"):
            indent = len(line) - len(line.lstrip(" "))
            gap = line.find("  ", indent)
            hang = len(line) - len(line[gap:].lstrip(" ")) if gap > 0 else indent
            hang = hang if hang < width // 2 else indent
            lines += wrap([("", line.lstrip(" "))], width, first=[("", " " * indent)], rest=[("", " " * hang)])
        return lines
