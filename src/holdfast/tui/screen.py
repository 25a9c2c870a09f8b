"""The screen: what is on it beside the conversation, and the containers that draw it. Nothing here waits or sends.

From top to bottom: the conversation (or a page, or a list to choose from), the todo list, pending inputs, the open
request, completions, a notice, the composer, the status line. On a terminal below 24 columns or 8 lines only the
composer is left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.layout.containers import ConditionalContainer, DynamicContainer, HSplit, Window
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.processors import AfterInput, ConditionalProcessor

from holdfast.tui.drawn import Drawn
from holdfast.tui.lines import padded, safe_line, truncated, wrap
from holdfast.tui.status_line import StatusView, status_fragments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.layout.containers import AnyContainer

    from holdfast.tui.composer import Composer
    from holdfast.tui.conversation_control import ConversationControl
    from holdfast.tui.lines import Line
    from holdfast.tui.pager import Pager
    from holdfast.tui.pickers import Picker
    from holdfast.tui.requests_panel import RequestsPanel
    from holdfast.tui.style import Marks

Mode = Literal["compose", "search", "picker", "pager", "entry", "panel"]

NARROWEST = 24
LOWEST = 8
LOW = 16
"""Below so many lines what can wait is left out."""
NARROW = 60
"""Below so many columns explanations in labels are left out."""
ALWAYS_LINES = 3
"""Of the conversation, the composer and the status line."""
CONVERSATION_LINES = 3
NOTICE_LINES = 3
NOTICE_SECONDS = 8.0
MOST_PENDING = 3
HINT = "Type a prompt. / commands, @ files, ! shell, ? keys"
SHORT_HINT = "Type a prompt, ? shows keys"


class Pending:
    """An input that the model has not seen."""

    def __init__(self, id: str, text: str, label: str) -> None:
        self.id = id
        self.text = text
        self.label = label


class Screen:
    def __init__(self, composer: Composer, marks: Marks, size: Callable[[], tuple[int, int]]) -> None:
        """`size` gives the columns and lines of the terminal."""
        self.composer = composer
        self.marks = marks
        self._size = size
        self.entry = Buffer(multiline=False)
        """The text that a request asks for."""
        self.control: ConversationControl | None = None
        self.panel: RequestsPanel | None = None
        self.picker: Picker | None = None
        self.pager: Pager | None = None
        self.welcome: list[str] = ["connecting"]
        self.pending: list[Pending] = []
        self.todos = ""
        self.status = StatusView(connection="connecting")
        self._notice: tuple[str, str, float] | None = None
        self._heights: dict[str, int] = {}
        self.composer_window = self._composer()
        self.entry_window = Window(
            BufferControl(self.entry),
            height=1,
            get_line_prefix=lambda number, wrapped: [("class:composer.mark", f"{self.entry_label}: ")],
        )
        self.root = DynamicContainer(self._container)
        self._whole = self._full_layout()
        self._small = HSplit([Window(Drawn(self._too_small), height=1), self._input()])

    # -- state --------------------------------------------------------------------------------------------------

    @property
    def mode(self) -> Mode:
        """Who gets the keys. What cannot be seen gets none."""
        if self._is_small:
            return "search" if self.composer.search is not None else "compose"
        if self.pager is not None:
            return "pager"
        if self.picker is not None:
            return "picker"
        if self.panel is not None and self.panel.focused and self.panel.dialog is not None:
            return "entry" if self.panel.entry is not None else "panel"
        return "search" if self.composer.search is not None else "compose"

    @property
    def entry_label(self) -> str:
        label = safe_line((self.panel.entry if self.panel is not None else None) or "")
        return label if self._size()[0] >= NARROW else label.partition(" (")[0]

    def notify(self, text: str, style: str = "class:notice", seconds: float = NOTICE_SECONDS) -> None:
        """Show a line above the composer for a while; the next one replaces it."""
        self._notice = (text, style, time.monotonic() + seconds)

    def forget_notice(self) -> None:
        self._notice = None

    @property
    def notice(self) -> str:
        if self._notice is not None and time.monotonic() > self._notice[2]:
            self._notice = None
        return self._notice[0] if self._notice is not None else ""

    # -- layout -------------------------------------------------------------------------------------------------

    def _container(self) -> AnyContainer:
        return self._small if self._is_small else self._whole

    @property
    def _is_small(self) -> bool:
        width, height = self._size()
        return width < NARROWEST or height < LOWEST

    def _full_layout(self) -> AnyContainer:
        def part(name: str, draw: Callable[[int, int], list[Line]]) -> AnyContainer:
            window = Window(Drawn(draw), height=lambda: Dimension.exact(self._heights.get(name, 0)))
            return ConditionalContainer(window, Condition(lambda: self._heights.get(name, 0) > 0))

        return HSplit(
            [
                DynamicContainer(self._main),
                part("todos", self._todo_lines),
                part("pending", self._pending_lines),
                part("panel", self._panel_lines),
                part("completions", self._completion_lines),
                part("notice", self._notice_lines),
                self._input(),
                Window(Drawn(self._status_lines), height=1),
            ]
        )

    def measure(self) -> None:
        """Decide how many lines each part gets, before a frame is drawn: what a person waits for comes first, and the
        conversation keeps a line."""
        width, rows = self._size()
        left = rows - ALWAYS_LINES
        heights: dict[str, int] = {}

        def give(name: str, draw: Callable[[int, int], list[Line]], most: int) -> None:
            nonlocal left
            if (most := min(most, left)) > 0:
                heights[name] = min(most, len(draw(width, most)))
                left -= heights[name]

        if self.notice or self.composer.search is not None:
            give("notice", self._notice_lines, 1 if rows < LOW else NOTICE_LINES)
        if self.panel is not None and self.panel.dialog is not None:
            give("panel", self._panel_lines, left if rows < LOW else left - CONVERSATION_LINES)
        if self.mode == "compose" and self.composer.completion.open:
            give("completions", self._completion_lines, max(2, rows // 3))
        if self.pending:
            give("pending", self._pending_lines, MOST_PENDING + 2 if rows >= LOW else 1)
        if self.todos and rows >= LOW:
            give("todos", self._todo_lines, 1)
        self._heights = heights

    def _input(self) -> AnyContainer:
        return DynamicContainer(lambda: self.entry_window if self.mode == "entry" else self.composer_window)

    def _composer(self) -> Window:
        empty = Condition(lambda: not self.composer.text)
        hint = AfterInput(self._hint, style="class:composer.hint")
        return Window(
            BufferControl(self.composer.buffer, input_processors=[ConditionalProcessor(hint, empty)]),
            wrap_lines=True,
            dont_extend_height=True,
            height=lambda: Dimension(min=1, max=max(1, self._size()[1] // 3)),
            get_line_prefix=self._prefix,
            style="class:composer",
        )

    def _hint(self) -> str:
        if self.mode == "panel":
            return "answer above, Esc to write"
        return HINT if self._size()[0] > len(HINT) + 3 else SHORT_HINT

    def _prefix(self, number: int, wrapped: int) -> StyleAndTextTuples:
        mark = f"{self.marks.prompt} " if number == 0 and wrapped == 0 else "  "
        return [("class:composer.mark" if self.mode == "compose" else "class:dim", mark)]

    def _main(self) -> AnyContainer:
        for overlay in (self.pager, self.picker):
            if overlay is not None:
                return Window(Drawn(overlay.lines), height=Dimension(min=1, weight=1))
        if self.control is not None:
            return Window(self.control, height=Dimension(min=1, weight=1))
        return Window(Drawn(self._welcome_lines), height=Dimension(min=1, weight=1))

    # -- lines --------------------------------------------------------------------------------------------------

    def _too_small(self, width: int, height: int) -> list[Line]:
        return [truncated([("class:warn", "too small: enlarge the terminal")], width)]

    def _welcome_lines(self, width: int, height: int) -> list[Line]:
        return [
            truncated([("class:strong" if not number else "class:dim", safe_line(line))], width)
            for number, line in enumerate(self.welcome)
        ][:height]

    def _todo_lines(self, width: int, height: int) -> list[Line]:
        return [truncated([("class:accent", "todo "), ("class:dim", safe_line(self.todos))], width)]

    def _pending_lines(self, width: int, height: int) -> list[Line]:
        hidden = len(self.pending) - MOST_PENDING
        shown: Sequence[Pending] = self.pending[-MOST_PENDING:]
        lines = [
            truncated([("class:accent", f"{one.label}: "), ("class:dim", safe_line(one.text[:500]))], width)
            for one in shown
        ]
        if hidden > 0:
            lines.insert(0, [("class:dim", f"{hidden} more inputs wait"[:width])])
        if any(one.label in ("next", "queued") for one in self.pending):
            lines.append(truncated([("class:faint", "Ctrl-X takes the last one back")], width))
        return lines

    def _panel_lines(self, width: int, height: int) -> list[Line]:
        return self.panel.lines(width, height) if self.panel is not None else []

    def _completion_lines(self, width: int, height: int) -> list[Line]:
        completion = self.composer.completion
        first, shown = completion.window(height)
        lines = []
        for place, one in enumerate(shown, start=first):
            style = "class:menu.chosen" if place == completion.selected else "class:menu"
            detail = f"  {safe_line(one.detail)}" if one.detail else ""
            line = truncated([(style, f" {safe_line(one.text)}"), (f"{style} class:dim", detail)], width)
            lines.append(padded(line, width, style))
        return lines

    def _notice_lines(self, width: int, height: int) -> list[Line]:
        search = self.composer.search
        if search is not None:
            found = safe_line(search.found) if search.found is not None else ("(none)" if search.query else "")
            line = [("class:accent", "search history: "), ("", safe_line(search.query)), ("class:dim", f"  {found}")]
            return [truncated(line, width)]
        text, style, _ = self._notice or ("", "", 0)
        return wrap([(style, safe_line(text))], width)[: max(1, height)]

    def _status_lines(self, width: int, height: int) -> list[Line]:
        return [status_fragments(self.status, width, time.time())]
