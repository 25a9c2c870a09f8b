"""Forms that belong to no Session. They are kept in memory: whoever asked them ends with this process.

Invariants
- A settled form can be read for ten minutes, and at most `MOST_SETTLED` of them are kept.
- Closing cancels every form that waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.form.errors import FormAlreadySettled, FormNotFound
from holdfast.core.permission.requests import MOST_PENDING, DuplicateRequest
from holdfast.schema.deferred import deferred
from holdfast.schema.exceptions import Conflict
from holdfast.schema.form import GLOBAL, Form, FormState
from holdfast.schema.live_event import FormCancelledLive, FormCreatedLive, FormRepliedLive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.clock import Clock, Ids
    from holdfast.core.form import answer as answers
    from holdfast.core.form import definition
    from holdfast.core.form.forms import FormDraft
    from holdfast.schema.form import FormAnswer
    from holdfast.schema.record import Record
else:
    answers = deferred("holdfast.core.form.answer")
    definition = deferred("holdfast.core.form.definition")

KEPT_MILLISECONDS = 10 * 60 * 1000
MOST_SETTLED = 100
TOO_MANY = f"{MOST_PENDING} forms without a Session already wait for an answer"


class _Entry:
    def __init__(self, form: Form, created_at: int) -> None:
        self.form = form
        self.created_at = created_at
        self.state = FormState(status="pending")
        self.settled_at: int | None = None


class GlobalForms:
    """`announce` publishes a live event of the Location."""

    def __init__(self, ids: Ids, clock: Clock, announce: Callable[[Record], None]) -> None:
        self._ids = ids
        self._clock = clock
        self._announce = announce
        self._entries: dict[str, _Entry] = {}

    def create(self, draft: FormDraft, *, id: str | None = None) -> Form:
        """Raises InvalidForm or Conflict."""
        if id is not None:
            definition.check_id(id)
        definition.check_form(draft.title, draft.fields, draft.metadata)
        self._forget()
        form_id = id or self._ids.of("frm")
        if form_id in self._entries:
            raise DuplicateRequest(form_id)
        if len(self.list()) >= MOST_PENDING:
            raise Conflict(TOO_MANY, resource=GLOBAL)
        form = Form(
            id=form_id, session_id=GLOBAL, title=draft.title, metadata=draft.metadata, fields=tuple(draft.fields)
        )
        self._entries[form_id] = _Entry(form, self._clock.now())
        self._announce(FormCreatedLive(form=form, session_id=GLOBAL))
        return form

    def list(self) -> tuple[Form, ...]:
        return tuple(form for form, _ in self.waiting())

    def waiting(self) -> Iterator[tuple[Form, int]]:
        """Those of the list, each with the time since when it waits."""
        return ((e.form, e.created_at) for e in self._entries.values() if e.state.status == "pending")

    def get(self, form_id: str) -> tuple[Form, FormState]:
        self._forget()
        if (entry := self._entries.get(form_id)) is None:
            raise FormNotFound(form_id)
        return entry.form, entry.state

    def reply(self, form_id: str, answer: FormAnswer) -> None:
        entry = self._pending(form_id)
        answers.check_answer(entry.form, answer)
        self._settle(entry, FormState(status="answered", answer=answer))
        self._announce(FormRepliedLive(id=form_id, session_id=GLOBAL, answer=answer))

    def cancel(self, form_id: str) -> None:
        entry = self._pending(form_id)
        self._settle(entry, FormState(status="cancelled"))
        self._announce(FormCancelledLive(id=form_id, session_id=GLOBAL))

    def close(self) -> None:
        for form in self.list():
            self.cancel(form.id)

    def _pending(self, form_id: str) -> _Entry:
        self.get(form_id)
        entry = self._entries[form_id]
        if entry.state.status != "pending":
            raise FormAlreadySettled(form_id)
        return entry

    def _settle(self, entry: _Entry, state: FormState) -> None:
        entry.state, entry.settled_at = state, self._clock.now()

    def _forget(self) -> None:
        settled = sorted((at, id) for id, entry in self._entries.items() if (at := entry.settled_at) is not None)
        old = self._clock.now() - KEPT_MILLISECONDS
        surplus = settled[: max(0, len(settled) - MOST_SETTLED)]
        for _, id in {*surplus, *(found for found in settled if found[0] <= old)}:
            del self._entries[id]
