"""The inbox: admits prompts and synthetic inputs durably, and promotes them to visible messages at a safe boundary.

Invariants
- A receipt exists only for a synced commit, and one message id gives one input, however often it is sent.
- A withdrawn input gives no receipt, and its id cannot be used again.
- An input becomes exactly one message: marking the row and adding the message are one commit. The notes of a prompt
  become synthetic messages directly after it, in the same commit.
- A retry is compared with what its caller sent, also after the delivery was changed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from holdfast.core.database.errors import Moved
from holdfast.core.database.unit import Statement
from holdfast.core.session.attachments import (
    LABEL_BYTES,
    TEXT_BYTES,
    Attachments,
    Resolved,
    check_size,
    is_retry,
)
from holdfast.core.session.input_errors import (
    DeliveryUnchanged,
    InboxFull,
    InputNotFound,
    InputNotPending,
    LifecycleConflict,
    MessageIdInUse,
    PromptConflict,
    PromptTooLarge,
    PromptWithdrawn,
)
from holdfast.core.session.option_limits import check_options
from holdfast.core.session.prompt_format import check_format
from holdfast.core.session.records import ATTEMPTS, existing
from holdfast.schema.codec import encode
from holdfast.schema.exceptions import InvalidRequest
from holdfast.schema.frozen import Frozen
from holdfast.schema.nesting import LEVELS, is_nested_deeper
from holdfast.schema.prompt import Admission, Delivery, Prompt
from holdfast.schema.session_event import (
    AttachmentStored,
    InputDeliveryChanged,
    InputWithdrawn,
    PromptAdmitted,
    Prompted,
    Synthetic,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.core.clock import Clock, Ids
    from holdfast.core.database.unit import Committed, Value
    from holdfast.core.event.log import EventLog
    from holdfast.core.event.publisher import Publisher
    from holdfast.core.session.mentioned import Mentioned
    from holdfast.core.session.records import RevertDecision
    from holdfast.core.session.store import SessionStore
    from holdfast.schema.location import Location
    from holdfast.schema.prompt import SyntheticInput

PENDING_LIMIT = 10_000


async def nothing() -> None:
    """Accepts every prompt."""


class Inbox:
    def __init__(
        self, log: EventLog, store: SessionStore, ids: Ids, clock: Clock, attachments: Attachments | None = None
    ) -> None:
        self._log = log
        self._store = store
        self._ids = ids
        self._clock = clock
        self.attachments = attachments or Attachments()
        self.pending_limit: int | None = None
        """How many inputs of a Session may be pending, if not `PENDING_LIMIT`."""

    async def admit(
        self,
        session_id: str,
        prompt: Prompt,
        *,
        id: str | None,
        delivery: Delivery,
        location: Location,
        wake: bool,
        first: Callable[[], Awaitable[RevertDecision | None]],
        check: Callable[[], Awaitable[None]] = nothing,
        mentioned: Mentioned | None = None,
        new: bool = False,
    ) -> Admission:
        """Accept a prompt once all its files are resolved. The same id, Session, prompt and delivery again gives the
        same receipt, whatever became of the files, unless the prompt was withdrawn. `mentioned` is what the mentions
        in its text were resolved to, if they were.

        `wake` is kept beside it: should the process die before the wake, the next one knows that it was asked for.
        `first` gives a staged revert that a new prompt commits, in the same commit. `check` raises if the prompt cannot
        be honoured here; it is not called for a retry. `new` says that the id was not used yet, as far as the caller
        knows."""
        prompt = replace(prompt, files=prompt.files or None, agents=prompt.agents or None)
        check_size(prompt, session_id)
        check_options(prompt, session_id)
        check_format(prompt, session_id)
        given = Given(session_id, id or self._ids.message(), prompt, delivery)
        if id is not None and not new and (known := await self.admitted(given, wake=wake)) is not None:
            return known
        await check()
        resolved = await self.attachments.resolve(prompt, session_id, location, mentioned)
        return await self._admit(given, resolved, location, wake=wake, first=first)

    async def admit_synthetic(
        self,
        session_id: str,
        given: SyntheticInput,
        *,
        id: str | None,
        delivery: Delivery,
        location: Location,
        wake: bool,
    ) -> Admission:
        """Accept text that a program adds to the conversation. The same id, Session, text, description, metadata and
        delivery again gives the same receipt. A staged revert stays staged."""
        prompt = Prompt(text=given.text, metadata=given.metadata or None, description=given.description or None)
        check_synthetic(prompt, session_id)
        item = Given(session_id, id or self._ids.message(), prompt, delivery, type="synthetic")
        if id is not None and (known := await self.admitted(item, wake=wake)) is not None:
            return known
        return await self._admit(item, Resolved(prompt, {}), location, wake=wake, first=nothing)

    async def admitted(self, given: Given, *, wake: bool) -> Admission | None:
        """The receipt of the input that was admitted with this id before. Raises PromptConflict if it was another one,
        and PromptWithdrawn."""
        known = await self._store.admission(given.id)
        return None if known is None else await self._again(await self._same(known, given), given.wanted(wake))

    async def _admit(
        self,
        given: Given,
        resolved: Resolved,
        location: Location,
        *,
        wake: bool,
        first: Callable[[], Awaitable[RevertDecision | None]],
    ) -> Admission:
        admitted = PromptAdmitted(
            timestamp=self._clock.now(),
            session_id=given.session_id,
            message_id=given.id,
            prompt=resolved.prompt,
            delivery=given.delivery,
            type=given.type,
        )
        files = resolved.events(given.session_id, given.id, admitted.timestamp)
        try:
            seq = await self._record(admitted, files, location, given.wanted(wake), first)
        except MessageIdInUse as refused:
            known = await self.admitted(given, wake=wake)
            if known is None:  # the id belongs to a message of another kind
                raise PromptConflict(given.session_id, given.id) from refused
            return known
        return Admission(
            admitted_seq=seq,
            id=given.id,
            session_id=given.session_id,
            prompt=resolved.prompt,
            delivery=given.delivery,
            time_created=admitted.timestamp,
            type=given.type,
        )

    async def _record(
        self,
        admitted: PromptAdmitted,
        files: list[AttachmentStored],
        location: Location,
        wanted: tuple[Statement, ...],
        first: Callable[[], Awaitable[RevertDecision | None]],
    ) -> int:
        """Commit the admission and return its sequence. Starts again when the Session got events meanwhile."""
        most = self.pending_limit or PENDING_LIMIT
        full = partial(InboxFull, admitted.session_id, most)
        key: dict[str, Value] = {"session_id": admitted.session_id, "limit": most}
        room = Statement("inbox.overfull", key, found=False, error=full)
        expected = (existing(admitted.session_id), room)
        for attempt in range(1, ATTEMPTS + 1):
            decision = await first()
            decided, unmoved = (decision.events, (decision.unmoved,)) if decision is not None else ((), ())
            try:
                committed = await self._log.publish(
                    *decided,
                    admitted,
                    *files,
                    location=location,
                    before=(*expected, *unmoved),
                    local=wanted,
                    shares_lineage=decision is not None,
                )
            except Moved:
                if attempt == ATTEMPTS:
                    raise
            else:
                return committed.first + len(decided)
        raise AssertionError("the last attempt raises")

    async def _again(self, receipt: Admission, wanted: tuple[Statement, ...]) -> Admission:
        """The receipt of a prompt that was admitted before, with another wake. Raises PromptWithdrawn."""
        if wanted and receipt.promoted_seq is None:
            row = {"id": receipt.id, "session_id": receipt.session_id}
            promoted = partial(InputNotPending, receipt.session_id, receipt.id)
            try:
                pending = Statement("inbox.is_pending", row, found=True, error=promoted)
                await self._log.write(receipt.session_id, (pending,), wanted)
            except InputNotPending as refused:
                now = await self._store.admission(receipt.id)
                if now is None:  # a committed revert removed it meanwhile
                    raise PromptWithdrawn(receipt.session_id, receipt.id) from refused
                receipt = now
        if receipt.promoted_seq is None and await self._store.is_withdrawn(receipt.id):
            raise PromptWithdrawn(receipt.session_id, receipt.id)
        return receipt

    async def _same(self, known: Admission, given: Given) -> Admission:
        sent = (known.session_id, known.type, await self._store.sent_delivery(known.id))
        same = sent == (given.session_id, given.type, given.delivery)
        if not same or not is_retry(known.prompt, given.prompt):
            raise PromptConflict(given.session_id, known.id)
        return known

    async def withdraw(self, session_id: str, message_id: str, location: Location, *, once: bool = False) -> None:
        """Withdraw a pending input. A promoted input cannot be withdrawn. Withdrawing it again does nothing, or with
        `once` raises PromptWithdrawn."""
        withdrawn = InputWithdrawn(timestamp=self._clock.now(), session_id=session_id, message_id=message_id)
        try:
            await self._log.publish(withdrawn, location=location)
        except InputNotPending as refused:
            known = await self._pending_or_raise(session_id, message_id, refused)
            if once:
                raise PromptWithdrawn(session_id, known.id) from refused

    async def deliver_as(
        self, session_id: str, message_id: str, delivery: Delivery, location: Location, *, wake: bool
    ) -> None:
        """Change the delivery of a pending input; `wake` is kept beside it, as at admission."""
        changed = InputDeliveryChanged(
            timestamp=self._clock.now(), session_id=session_id, message_id=message_id, delivery=delivery
        )
        wanted = (Statement("inbox.want_wake", {"id": message_id, "session_id": session_id}),) if wake else ()
        try:
            await self._log.publish(changed, location=location, local=wanted)
        except InputNotPending as refused:
            known = await self._pending_or_raise(session_id, message_id, refused)
            if await self._store.is_withdrawn(message_id):
                raise PromptWithdrawn(session_id, message_id) from refused
            raise DeliveryUnchanged(session_id, message_id, known.delivery) from refused

    async def _pending_or_raise(self, session_id: str, message_id: str, refused: InputNotPending) -> Admission:
        """The input after a refused change of it. Raises if there is none, or if it was promoted."""
        known = await self._store.admission(message_id)
        if known is None or known.session_id != session_id:
            raise InputNotFound(session_id, message_id) from refused
        if known.promoted_seq is not None:
            raise refused
        return known

    async def hold_back(self, session_id: str) -> None:
        """Forget requested wakes, after an interruption: pending input starts only on a new wake or run."""
        await self._log.write(session_id, (), (Statement("inbox.forget_wakes", {"session_id": session_id}),))

    async def promote(self, inputs: Sequence[Admission], outbox: Publisher) -> list[Admission]:
        """Promote inputs that were due. Returns those that are part of the conversation now: an input may have been
        withdrawn, or put off to another boundary, since it was read."""
        if not inputs:
            return []
        try:
            await self.promote_all(inputs, outbox)
        except LifecycleConflict:
            return await self._promote_singly(inputs, outbox)
        return list(inputs)

    async def promote_all(
        self, inputs: Sequence[Admission], outbox: Publisher, before: Sequence[Statement] = ()
    ) -> Committed:
        """Promote all of these inputs in one commit that begins with the statements `before`. Raises LifecycleConflict
        if one of them cannot be promoted any more."""
        return await outbox.publish(*(event for item in inputs for event in self._promotion(item)), before=before)

    async def _promote_singly(self, inputs: Sequence[Admission], outbox: Publisher) -> list[Admission]:
        promoted = []
        for item in inputs:
            try:
                await outbox.publish(*self._promotion(item))
            except LifecycleConflict:
                now = await self._store.admission(item.id)
                if now is not None and now.promoted_seq is not None:
                    promoted.append(item)  # another process was faster; the input is visible
                elif now is not None and now.delivery == item.delivery and not await self._store.is_withdrawn(item.id):
                    raise
            else:
                promoted.append(item)
        return promoted

    def _promotion(self, item: Admission) -> list[Prompted | Synthetic]:
        """The message and its notes. They have the time of admission, which is when the user sent the message."""
        notes = (
            Synthetic(
                timestamp=item.time_created, session_id=item.session_id, message_id=self._ids.message(), text=text
            )
            for text in item.prompt.notes or ()
        )
        return [_promoted(item), *notes]


class Given(Frozen):
    """An input as it is admitted."""

    session_id: str
    id: str
    prompt: Prompt
    delivery: Delivery
    type: Literal["synthetic"] | None = None

    def wanted(self, wake: bool) -> tuple[Statement, ...]:
        row: dict[str, Value] = {"id": self.id, "session_id": self.session_id}
        return (Statement("inbox.want_wake", row),) if wake else ()


def check_synthetic(prompt: Prompt, session_id: str) -> None:
    """Raises InvalidRequest for a text that says nothing, or PromptTooLarge."""
    if not prompt.text.strip():
        raise InvalidRequest("The text is empty. Nothing was admitted.", kind="Payload", field="text")
    if len(prompt.text.encode("utf-8", "replace")) > TEXT_BYTES:
        raise PromptTooLarge(session_id, "text", "its text", TEXT_BYTES)
    if is_nested_deeper(prompt.metadata):
        raise PromptTooLarge(session_id, "metadata", "its metadata", LEVELS, unit="levels of nesting")
    if len(encode((prompt.description, prompt.metadata))) > LABEL_BYTES:
        raise PromptTooLarge(session_id, "metadata", "its description and metadata", LABEL_BYTES)


def _promoted(item: Admission) -> Prompted | Synthetic:
    if item.type == "synthetic":
        return Synthetic(
            timestamp=item.time_created,
            session_id=item.session_id,
            message_id=item.id,
            text=item.prompt.text,
            description=item.prompt.description,
            metadata=item.prompt.metadata,
            delivery=item.delivery,
        )
    return Prompted(
        timestamp=item.time_created,
        session_id=item.session_id,
        message_id=item.id,
        prompt=item.prompt,
        delivery=item.delivery,
    )
