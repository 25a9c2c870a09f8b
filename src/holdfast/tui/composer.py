"""The composer: the draft of a prompt, with its pastes, its history and the list of completions.

It changes its buffer only; keys and drawing belong to others. What a person types is never lost: text that is
replaced by an entry of the history comes back, and text that could not be sent is put back."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from holdfast.tui.completion import Completion
from holdfast.tui.paste import Pastes

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.tui.completion import Trigger
    from holdfast.tui.history import History
    from holdfast.tui.paste import Image


class Draft(NamedTuple):
    """What is sent."""

    text: str
    shown: str
    """As it was in the composer, with folded pastes."""
    images: tuple[Image, ...] = ()
    pastes: Pastes | None = None
    """What the marks in `shown` stand for."""


class HistorySearch:
    """Ctrl-R: the query, and the entry that was found."""

    def __init__(self, before: str) -> None:
        self.before = before
        """What was in the composer."""
        self.query = ""
        self.place: int | None = None
        self.found: str | None = None


class Composer:
    def __init__(self, history: History, wants: Callable[[Trigger], None] = lambda trigger: None) -> None:
        """`wants` is called when candidates for a completion are needed."""
        self.history = history
        self.pastes = Pastes()
        self.completion = Completion()
        self.search: HistorySearch | None = None
        self._wants = wants
        self._replacing = False
        self.buffer = Buffer(
            multiline=True, on_text_changed=self._text_changed, on_cursor_position_changed=self._cursor_moved
        )

    @property
    def text(self) -> str:
        return self.buffer.text

    def set_text(self, text: str) -> None:
        """Replace the draft; the cursor stands at its end."""
        self._replacing = True
        try:
            self.buffer.set_document(Document(text, len(text)), bypass_readonly=True)
        finally:
            self._replacing = False
        self.completion.dismiss()

    def clear(self) -> None:
        self.set_text("")
        self.pastes.clear()
        self.history.leave()
        self.search = None
        self.completion = Completion()

    def take(self) -> Draft | None:
        """The draft, which is removed from the composer; None if there is none."""
        if not self.text.strip():
            return None
        shown = self.text
        expanded = self.pastes.expand(shown)
        self.history.add(expanded.text)
        pastes, self.pastes = self.pastes, Pastes()
        self.clear()
        return Draft(expanded.text, shown, expanded.images, pastes)

    def put_back(self, draft: Draft) -> None:
        """The draft could not be sent. What was typed since then stays behind it."""
        typed = self.text
        if draft.pastes is not None:
            draft.pastes.add(self.pastes)
            self.pastes = draft.pastes
        self.set_text(draft.shown if not typed.strip() else f"{draft.shown}\n{typed}")

    def prepend(self, text: str) -> None:
        """Put a text that was sent before in front of the draft, folded if it is long."""
        typed = self.text
        shown = self.pastes.take(text)
        self.set_text(f"{shown}\n{typed}" if typed.strip() else shown)

    def paste(self, pasted: str) -> None:
        """Raises PasteRefused."""
        self.buffer.insert_text(self.pastes.take(pasted))

    # -- editing ------------------------------------------------------------------------------------------------

    def delete_before(self) -> None:
        """Delete a character, or the mark of a paste as a whole."""
        before = self.buffer.document.text_before_cursor
        self.buffer.delete_before_cursor(self.pastes.mark_before(before) or 1)

    def delete_after(self) -> None:
        after = self.buffer.document.text_after_cursor
        self.buffer.delete(self.pastes.mark_after(after) or 1)

    # -- history ------------------------------------------------------------------------------------------------

    def up(self) -> None:
        if self.buffer.document.cursor_position_row > 0:
            self.buffer.cursor_up()
        elif (entry := self.history.previous(self.text)) is not None:
            self.set_text(entry)

    def down(self) -> None:
        document = self.buffer.document
        if document.cursor_position_row < document.line_count - 1:
            self.buffer.cursor_down()
        elif (entry := self.history.next()) is not None:
            self.set_text(entry)

    def start_search(self) -> None:
        if self.search is None:
            self.search = HistorySearch(self.text)
        else:
            self._find(self.search.place)

    def type_search(self, text: str) -> None:
        if self.search is not None:
            self.search.query += text
            self._find(None if self.search.place is None else self.search.place + 1)

    def shorten_search(self) -> None:
        if self.search is not None:
            self.search.query = self.search.query[:-1]
            self._find(None)

    def end_search(self, *, accept: bool) -> None:
        search, self.search = self.search, None
        if search is not None:
            self.set_text(search.found if accept and search.found is not None else search.before)

    def _find(self, before: int | None) -> None:
        assert self.search is not None
        if not self.search.query:
            self.search.place = self.search.found = None
            return
        found = self.history.search(self.search.query, before)
        if found is not None:
            self.search.place, self.search.found = found
        elif before is None:
            self.search.place = self.search.found = None

    # -- completion ---------------------------------------------------------------------------------------------

    def accept_completion(self) -> None:
        text, cursor = self.completion.accept(self.text, self.buffer.cursor_position)
        self.buffer.set_document(Document(text, cursor), bypass_readonly=True)

    def completion_dismissed(self) -> None:
        self.completion.dismiss()

    def _text_changed(self, _: object) -> None:
        if not self._replacing:
            self.history.leave()
            self._follow()

    def _cursor_moved(self, _: object) -> None:
        if not self._replacing:
            self._follow()

    def _follow(self) -> None:
        wanted = self.completion.follow(self.text, self.buffer.cursor_position)
        if wanted is not None:
            self._wants(wanted)
