"""The panel with the open requests of the Session and of those below it, one at a time, oldest first.

Invariants
- A request that appears never takes keys that were typed for something else: the panel takes the focus by itself only
  while the composer is empty, and what is typed in the first half second, or is no answer, goes to the composer.
- A request that somebody else answers leaves the panel; the answers to the others stay as they are.
- The whole text of a request can be reached by scrolling."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holdfast.text.visible_text import brief, visible
from holdfast.tui.dialog import choice_lines
from holdfast.tui.form_dialog import FormDialog
from holdfast.tui.lines import padded, safe_line, truncated
from holdfast.tui.permission_dialog import PermissionDialog
from holdfast.tui.question_dialog import QuestionDialog
from holdfast.tui.recovery_dialog import RecoveryDialog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.schema.overview import OpenRequest
    from holdfast.schema.rendered import CallBody
    from holdfast.tui.dialog import Dialog
    from holdfast.tui.lines import Line
    from holdfast.tui.request_answers import Decision
    from holdfast.tui.style import Marks

GUARD_SECONDS = 0.5
TITLE_CHARACTERS = 200


class RequestsPanel:
    def __init__(self, session_id: str, marks: Marks, clock: Callable[[], float] = time.monotonic) -> None:
        self._session_id = session_id
        self._marks = marks
        self._clock = clock
        self._requests: tuple[OpenRequest, ...] = ()
        self._dialogs: dict[str, Dialog] = {}
        self._answered: set[str] = set()
        self._shown_since = 0.0
        self._scroll = 0
        self._overflow = 0
        self.focused = False

    @property
    def open(self) -> tuple[OpenRequest, ...]:
        return tuple(request for request in self._requests if request.id not in self._answered)

    @property
    def current(self) -> OpenRequest | None:
        return next(iter(self.open), None)

    @property
    def dialog(self) -> Dialog | None:
        return self._dialogs.get(self.current.id) if self.current is not None else None

    @property
    def entry(self) -> str | None:
        """The label of the text that the dialog wants."""
        return self.dialog.entry if self.focused and self.dialog is not None else None

    def update(self, requests: Sequence[OpenRequest], *, may_focus: bool) -> OpenRequest | None:
        """Take over the open requests. Returns the one that is shown, if it was not before."""
        before = self.current
        self._requests = tuple(sorted(requests, key=lambda request: request.since))
        known = {request.id for request in self._requests}
        self._answered &= known
        self._dialogs = {id: dialog for id, dialog in self._dialogs.items() if id in known}
        for request in self._requests:
            if request.id not in self._dialogs and (dialog := self._dialog_of(request)) is not None:
                self._dialogs[request.id] = dialog
        self._requests = tuple(request for request in self._requests if request.id in self._dialogs)
        return self._changed(before, may_focus)

    def set_call(self, request_id: str, body: CallBody) -> None:
        if isinstance(dialog := self._dialogs.get(request_id), PermissionDialog):
            dialog.set_call(body)

    def answered(self, request_id: str) -> None:
        """The answer is on its way."""
        before = self.current
        self._answered.add(request_id)
        self._changed(before, may_focus=True)

    def failed(self, request_id: str, reason: str, *, may_focus: bool = True) -> None:
        """The answer was not accepted: the request is shown again."""
        before = self.current
        self._answered.discard(request_id)
        self._changed(before, may_focus)
        if isinstance(dialog := self._dialogs.get(request_id), FormDialog):
            dialog.refused(reason)

    def _changed(self, before: OpenRequest | None, may_focus: bool) -> OpenRequest | None:
        now = self.current
        if now is None:
            self.focused = False
        if now is None or (before is not None and before.id == now.id):
            return None
        self._shown_since = self._clock()
        self._scroll = 0
        self.focused = self.focused or may_focus
        return now

    def understands(self, key: str) -> bool:
        """Whether a character is an answer to what is shown, and not typed for something else."""
        dialog = self.dialog
        if dialog is None or self._is_new:
            return False
        keys = {choice.key for choice in dialog.choices()}
        return key in keys or (key == " " and "Enter" in keys)

    @property
    def _is_new(self) -> bool:
        return self._clock() - self._shown_since < GUARD_SECONDS

    def key(self, key: str) -> Decision | None:
        dialog = self.dialog
        if dialog is None or self._is_new:
            return None
        if key in ("pageup", "pagedown"):
            self.scroll(5 if key == "pagedown" else -5)
            return None
        if key == "escape":
            if not dialog.leave_entry():
                self.focused = False
            return None
        selectable = any(choice.selected for choice in dialog.choices())
        if key in ("up", "down") and not selectable:
            self.scroll(1 if key == "down" else -1)
            return None
        return dialog.key(key)

    def enter(self, text: str) -> Decision | None:
        return self.dialog.enter(text) if self.dialog is not None else None

    def scroll(self, by: int) -> None:
        self._scroll = max(0, min(self._scroll + by, self._overflow))

    def lines(self, width: int, height: int) -> list[Line]:
        """The panel in at most `height` lines: title, the visible part of the text, choices."""
        dialog, request = self.dialog, self.current
        if dialog is None or request is None:
            return []
        head = [truncated(line, width) for line in self._head(request, dialog, width)]
        body = dialog.body(max(1, width - 2))
        foot = choice_lines(dialog.choices(), width)
        if not self.focused:
            foot = [truncated([("class:panel.key", "Ctrl-G"), ("class:dim", " answers it")], width)]
        elif self._is_new:
            foot = [[("class:dim", self._marks.ellipsis)] for _ in foot]  # keys do not answer yet
        elif len(head) + len(foot) + min(len(body), 2) > height:
            keys = "  ".join(choice.key for choice in dialog.choices())
            head, foot = head[1:], [truncated([("class:dim", "keys: "), ("class:panel.key", keys)], width)]
        if dialog.problem:
            foot.insert(0, truncated([("class:error", safe_line(visible(dialog.problem)))], width))
        room = max(1, height - len(head) - len(foot))
        if len(body) > room:
            room = max(1, room - 1)
            self._overflow = len(body) - room
            self._scroll = min(self._scroll, self._overflow)
            rest = self._overflow - self._scroll
            shown = body[self._scroll : self._scroll + room]
            note = f"{rest} more lines: Down" if rest else f"the end of {len(body)} lines: Up"
            shown = [*shown, [("class:dim", note)]]
        else:
            self._overflow = self._scroll = 0
            shown = body
        lines = [*head, *([("", "  "), *line] for line in shown), *foot]
        return [padded(truncated(line, width), width) for line in lines[:height]]

    def _head(self, request: OpenRequest, dialog: Dialog, width: int) -> list[Line]:
        count = len(self.open)
        more = f" (1 of {count})" if count > 1 else ""
        rule = self._marks.rule * width
        head: list[Line] = [[("class:gutter", rule)]]
        head.append(
            [("class:panel.title", f"{self._marks.wait} {brief(visible(dialog.title), TITLE_CHARACTERS)}{more}")]
        )
        if request.session_id != self._session_id:
            who = " > ".join(brief(visible(title), 60) for title in request.titles[-2:]) or request.session_id
            agent = f" ({brief(visible(request.agent), 30)})" if request.agent else ""
            head.append([("class:dim", f"  asked by {who}{agent}")])
        return head

    def _dialog_of(self, request: OpenRequest) -> Dialog | None:
        if request.permission is not None:
            return PermissionDialog(request.permission, self._marks)
        if request.question is not None and request.question.questions:
            return QuestionDialog(request.question)
        if request.form is not None:
            return FormDialog(request.form)
        return RecoveryDialog(request.activity) if request.activity is not None else None
