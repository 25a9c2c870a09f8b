"""A part of the screen whose lines are computed when it is drawn. Lines are lists of (style, text)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.layout.controls import UIContent, UIControl

if TYPE_CHECKING:
    from collections.abc import Callable

    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.layout.controls import GetLinePrefixCallable

    Fragments = list[tuple[str, str]]
    Draw = Callable[[int, int], list[Fragments]]


class Drawn(UIControl):
    """`draw` gives the lines for a width and the largest height. None of them may be wider."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    def preferred_height(
        self,
        width: int,
        max_available_height: int,
        wrap_lines: bool,
        get_line_prefix: GetLinePrefixCallable | None,
    ) -> int | None:
        return min(len(self._draw(width, max_available_height)), max_available_height)

    def create_content(self, width: int, height: int) -> UIContent:
        lines = self._draw(width, height)

        def line(number: int) -> StyleAndTextTuples:
            return list(lines[number]) if number < len(lines) else []

        return UIContent(get_line=line, line_count=max(1, len(lines)), show_cursor=False)
