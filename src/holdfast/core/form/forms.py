"""Forms of one Location: of calls that wait for the answer, and of clients that look for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.form.errors import FormAlreadySettled, FormNotFound
from holdfast.core.permission.requests import Requests, TooManyRequests, Unreachable
from holdfast.core.session.errors import SessionNotFound
from holdfast.schema.codec import decoder
from holdfast.schema.deferred import deferred
from holdfast.schema.exceptions import Conflict
from holdfast.schema.form import Form, FormAnswer, FormState
from holdfast.schema.frozen import Frozen
from holdfast.schema.live_event import FormCancelledLive, FormCreatedLive, FormRepliedLive
from holdfast.schema.record import Record
from holdfast.schema.session_event import FormAsked, FormCancelled, FormReplied

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from holdfast.core.form import answer as answers
    from holdfast.core.form import definition
    from holdfast.core.permission.requests import RequestServices
    from holdfast.core.session.ancestors import Ancestors
    from holdfast.schema.form import FormField
    from holdfast.schema.question import QuestionTool
else:
    answers = deferred("holdfast.core.form.answer")
    definition = deferred("holdfast.core.form.definition")


class FormDraft(Frozen):
    """What is asked. `held` is for the call alone: another process finds it when it goes on with the call."""

    title: str
    fields: tuple[FormField, ...]
    metadata: dict[str, Any] | None = None
    held: dict[str, Any] | None = None


class FormReply(Record):
    """How the end of a form is stored: an answer, or who cancelled it."""

    answer: FormAnswer | None = None
    cancelled: str | None = None
    declined: bool | None = None

    @property
    def state(self) -> FormState:
        if self.answer is None:
            return FormState(status="cancelled")
        return FormState(status="answered", answer=self.answer)


class HeldForm(Frozen):
    """A form of a call. `taken`: the call has received the answer."""

    id: str
    taken: bool
    held: str | None
    """As JSON."""


class Forms(Requests[Form, FormReply]):
    """A form of a tool call ends with the call. A form that a client made waits until it is answered or cancelled."""

    kind = "form"
    request_type = Form
    answer_type = FormReply
    deleted = FormReply(cancelled="interrupted")

    def __init__(self, services: RequestServices, ancestors: Ancestors) -> None:
        super().__init__(services)
        self._ancestors = ancestors

    @property
    def ending(self) -> bool:
        """Whether the process is shutting down: forms of calls stay open for the next one."""
        return self._ending()

    async def ask(
        self, session_id: str, tool: QuestionTool, drafts: Sequence[FormDraft], *, used: Collection[str] = ()
    ) -> Sequence[tuple[Form, FormReply]]:
        """Ask what a tool call needs to know, and wait until all forms are settled. A form that the same call made in
        an earlier process is used again, except those in `used`. Raises InvalidForm, TooManyRequests or Unreachable."""
        asked = []
        for draft in drafts:
            form = await self._form(session_id, draft, tool=tool)
            resumable = True if tool.message_id else None
            event = FormAsked(
                timestamp=self._clock.now(), session_id=session_id, request=form, resumable=resumable, held=draft.held
            )
            asked.append((form, event))
        return await self.wait_all(asked, used=used)

    async def create(self, session_id: str, draft: FormDraft, *, id: str | None = None) -> Form:
        """Make a form that no call waits for. Raises InvalidForm or Conflict."""
        if id is not None:
            definition.check_id(id)
        form = await self._form(session_id, draft, id=id)
        try:
            await self.open(form, FormAsked(timestamp=self._clock.now(), session_id=session_id, request=form))
        except (TooManyRequests, Unreachable) as error:
            raise Conflict(str(error), resource=session_id) from error
        return form

    async def get(self, session_id: str, form_id: str) -> tuple[Form, FormState]:
        """A form of this Session, settled or not."""
        row = await self._look(form_id)
        if row is None or row.session_id != session_id:
            raise FormNotFound(form_id)
        reply = self._answer_of(row.reply)
        return decoder(Form).decode(row.data), reply.state if reply is not None else FormState(status="pending")

    async def reply(self, session_id: str, form_id: str, answer: FormAnswer) -> None:
        """Answer a form of this Location, whichever process asked it. Raises InvalidFormAnswer, and the form goes on
        waiting, if the answer does not fit."""
        await self.detached(self._reply(session_id, form_id, answer))

    async def cancel(self, session_id: str, form_id: str, *, declined: bool = False) -> None:
        await self.detached(self._cancel(session_id, form_id, declined=declined))

    async def close_call(self, session_id: str, tool: QuestionTool) -> None:
        """Cancel what is open of a call that is over."""
        await self.detached(self._close_call(session_id, tool))

    async def held(self, session_id: str, tool: QuestionTool) -> Sequence[HeldForm]:
        """The forms that a call has made until now, in whichever processes; oldest first."""
        key = {"session_id": session_id, "message_id": tool.message_id, "call_id": tool.call_id}
        return await self._database.fetch("form.held_of_call", key, into=HeldForm)

    def live_request(self, request: Form) -> FormCreatedLive:
        return FormCreatedLive(form=request, session_id=request.session_id, ancestors=request.ancestors)

    def live_answer(self, request: Form, answer: FormReply) -> Record:
        id, session_id, above = request.id, request.session_id, request.ancestors
        if answer.answer is None:
            return FormCancelledLive(id=id, session_id=session_id, ancestors=above)
        return FormRepliedLive(id=id, session_id=session_id, ancestors=above, answer=answer.answer)

    def interrupted(self, request: Form) -> FormCancelled:
        return FormCancelled(
            timestamp=self._clock.now(), session_id=request.session_id, request_id=request.id, cause="interrupted"
        )

    def call_of(self, request: Form) -> tuple[str, str] | None:
        return (request.tool.message_id, request.tool.call_id) if request.tool else None

    def same(self, one: Form, other: Form) -> bool:
        return (one.title, one.fields, one.metadata) == (other.title, other.fields, other.metadata)

    def outlives(self, request: Form) -> bool:
        return request.tool is None

    async def _form(
        self, session_id: str, draft: FormDraft, *, id: str | None = None, tool: QuestionTool | None = None
    ) -> Form:
        definition.check_form(draft.title, draft.fields, draft.metadata)
        if not await self._database.fetch("session.exists", {"id": session_id}):
            raise SessionNotFound(session_id)
        return Form(
            id=id or self._ids.of("frm"),
            session_id=session_id,
            title=draft.title,
            metadata=draft.metadata,
            fields=draft.fields,
            tool=tool,
            ancestors=await self._ancestors.ids(session_id),
        )

    async def _close_call(self, session_id: str, tool: QuestionTool) -> None:
        for form in await self.for_session(session_id):
            if form.tool == tool:
                await self.answer(form, self.interrupted(form))

    async def _reply(self, session_id: str, form_id: str, answer: FormAnswer) -> None:
        form = await self._pending(session_id, form_id)
        answers.check_answer(form, answer)
        replied = FormReplied(timestamp=self._clock.now(), session_id=session_id, request_id=form_id, answer=answer)
        if not await self.answer(form, replied):
            raise FormAlreadySettled(form_id)

    async def _cancel(self, session_id: str, form_id: str, *, declined: bool) -> None:
        form = await self._pending(session_id, form_id)
        cancelled = FormCancelled(
            timestamp=self._clock.now(), session_id=session_id, request_id=form_id, declined=declined or None
        )
        if not await self.answer(form, cancelled):
            raise FormAlreadySettled(form_id)

    async def _pending(self, session_id: str, form_id: str) -> Form:
        form, state = await self.get(session_id, form_id)
        if state.status != "pending":
            raise FormAlreadySettled(form_id)
        return form
