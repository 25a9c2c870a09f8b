"""Draws a Conversation: only the lines that are visible are rendered, however long it is.

Scrolling is its own, so the window around it needs none. It stays at the end while it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.data_structures import Point
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout.controls import UIContent, UIControl
from prompt_toolkit.mouse_events import MouseEventType

from holdfast.tui.lines import columns, encodable, line_columns, padded, truncated
from holdfast.tui.passages import DETAILS
from holdfast.tui.viewport import Viewport

if TYPE_CHECKING:
    from collections.abc import Callable

    from prompt_toolkit.key_binding import KeyBindingsBase, KeyPressEvent
    from prompt_toolkit.layout.controls import GetLinePrefixCallable
    from prompt_toolkit.mouse_events import MouseEvent

    from holdfast.tui.conversation import Conversation
    from holdfast.tui.lines import Line

WHEEL = 3
"""Lines of one step of a mouse wheel."""


class ConversationControl(UIControl):
    def __init__(
        self,
        conversation: Conversation,
        on_unfold: Callable[[str, str], None],
        *,
        on_older: Callable[[], None] = lambda: None,
        encoding: str = "utf-8",
        focusable: bool = True,
    ) -> None:
        """`on_unfold` is called with the ids of a message and of a call whose body is shown and is to be loaded,
        `on_older` when entries before the first are about to be shown; both may be called again for the same.
        `encoding` is that of the terminal: what it does not have is shown as `?`."""
        self.viewport = Viewport(conversation)
        self._on_unfold = on_unfold
        self._on_older = on_older
        self._encoding = "" if encoding.lower().replace("-", "").startswith("utf") else encoding
        self._focusable = focusable
        self._keys: KeyBindings | None = None

    @property
    def conversation(self) -> Conversation:
        return self.viewport.conversation

    def show(self, conversation: Conversation) -> None:
        """Another conversation, at its end."""
        self.viewport = Viewport(conversation)

    def create_content(self, width: int, height: int) -> UIContent:
        view = self.viewport
        rows = view.draw(width, height)
        lines = [row.line for row in rows]
        cursor = 0
        for number, row in enumerate(rows):
            if row.target is not None and row.target == view.selected:
                lines[number] = _selected(row.line, width)
                cursor = number
            if row.wants is not None:
                self._on_unfold(row.wants.message_id, row.wants.part_id)
        if not view.at_end and lines:
            lines[-1] = self._with_note(lines[-1], width)
        if view.wants_older:
            self._on_older()
        if self._encoding:
            lines = [encodable(line, self._encoding) for line in lines]
        return UIContent(
            get_line=lambda number: list(lines[number]) if number < len(lines) else [],
            line_count=max(1, len(lines)),
            cursor_position=Point(0, cursor),
            show_cursor=False,
        )

    def _with_note(self, line: Line, width: int) -> Line:
        """The last line with what is below it at its right."""
        marks, new = self.conversation.marks, self.viewport.new_below
        words = f" {marks.down} {new} new below " if new else f" {marks.down} more below "
        if columns(words) > width:
            words = f" {marks.down} "
        left = truncated(line, max(0, width - columns(words) - 1), marks.ellipsis)
        return [*left, ("", " " * max(0, width - columns(words) - line_columns(left))), ("class:below", words)]

    @property
    def at_end(self) -> bool:
        return self.viewport.at_end

    def scroll(self, lines: int) -> None:
        """Down, or up if it is negative."""
        self.viewport.scroll(lines)

    def scroll_page(self, pages: int) -> None:
        self.viewport.scroll(pages * max(1, self.viewport.height - 2))

    def go_home(self) -> None:
        """To the first entry; older ones are loaded until it is there."""
        self.viewport.go_home()

    def go_end(self) -> None:
        self.viewport.go_end()

    def select(self, step: int) -> None:
        """Move the cursor to the next thing that can be unfolded, or with -1 to the one before."""
        self.viewport.select(step)

    def select_none(self) -> None:
        self.viewport.selected = None

    def toggle(self) -> bool:
        """Fold or unfold what is selected. Whether something was."""
        target = self.viewport.selected
        if target is None:
            return False
        self.viewport.toggle(target)
        return True

    def toggle_calls(self) -> None:
        """Fold all tool calls, or unfold them if they are folded."""
        folds = self.conversation.folds
        folds.set_all("call", not folds.are_open("call"))

    def next_detail(self) -> str:
        """Change to the next level of detail (quiet, normal, full); returns its name."""
        folds = self.conversation.folds
        folds.set_detail(DETAILS[(DETAILS.index(folds.detail) + 1) % len(DETAILS)])
        return folds.detail

    def mouse_handler(self, mouse_event: MouseEvent) -> None:
        match mouse_event.event_type:
            case MouseEventType.SCROLL_UP:
                self.scroll(-WHEEL)
            case MouseEventType.SCROLL_DOWN:
                self.scroll(WHEEL)
            case MouseEventType.MOUSE_UP:
                rows, at = self.viewport.rows, mouse_event.position.y
                if 0 <= at < len(rows) and (target := rows[at].target) is not None:
                    self.viewport.selected = target
                    self.toggle()

    def is_focusable(self) -> bool:
        return self._focusable

    def preferred_width(self, max_available_width: int) -> int | None:
        return max_available_width

    def preferred_height(
        self, width: int, max_available_height: int, wrap_lines: bool, get_line_prefix: GetLinePrefixCallable | None
    ) -> int | None:
        return max_available_height

    def get_key_bindings(self) -> KeyBindingsBase:
        """For when it has the focus: arrows move between things that can be unfolded, Enter and Space unfold."""
        if self._keys is None:
            self._keys = KeyBindings()
            actions: dict[str, Callable[[], object]] = {
                "up": lambda: self.select(-1),
                "down": lambda: self.select(1),
                "k": lambda: self.scroll(-1),
                "j": lambda: self.scroll(1),
                "pageup": lambda: self.scroll_page(-1),
                "pagedown": lambda: self.scroll_page(1),
                "home": self.go_home,
                "end": self.go_end,
                "g": self.go_home,
                "G": self.go_end,
                "enter": self.toggle,
                " ": self.toggle,
            }
            for key, action in actions.items():
                self._keys.add(key)(_handler(action))
        return self._keys


def _handler(action: Callable[[], object]) -> Callable[[KeyPressEvent], None]:
    def handle(event: KeyPressEvent) -> None:
        action()

    return handle


def _selected(line: Line, width: int) -> Line:
    return padded([(f"{style} class:selected".lstrip(), text) for style, text in line], width, "class:selected")
