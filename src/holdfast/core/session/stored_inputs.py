"""Reads of the inbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.codec import decoder
from holdfast.schema.frozen import Frozen
from holdfast.schema.prompt import Admission, Delivery, InputKind, Prompt, PromptOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.database.database import Reads
    from holdfast.core.database.unit import Row


class StoredInputs:
    def __init__(self, database: Reads) -> None:
        self._database = database

    async def admission(self, message_id: str) -> Admission | None:
        rows = await self._database.fetch("inbox.get", {"id": message_id}, into=InputRow)
        return rows[0].admission() if rows else None

    async def sent_delivery(self, message_id: str) -> str:
        """The delivery with which an input was admitted."""
        rows = await self._database.fetch("inbox.sent_delivery", {"id": message_id})
        return str(rows[0][0]) if rows else ""

    async def is_withdrawn(self, message_id: str) -> bool:
        return bool(await self._database.fetch("inbox.is_withdrawn", {"id": message_id}))

    async def all_pending(self, session_id: str) -> list[Admission]:
        """Everything that was admitted and neither promoted nor withdrawn, oldest first."""
        rows = await self._database.fetch("inbox.pending", {"session_id": session_id}, into=InputRow)
        return [row.admission() for row in rows]

    async def prompted_since(self, session_id: str, seq: int) -> bool:
        """Whether a prompt that joins at the next boundary and asks for an answer was admitted after this sequence."""
        return bool(await self._database.fetch("inbox.prompt_since", {"session_id": session_id, "after": seq}))

    async def waiting(self, session_id: str) -> frozenset[str]:
        """The deliveries of which something is pending."""
        rows = await self._database.fetch("inbox.waiting", {"session_id": session_id})
        return frozenset(str(row[0]) for row in rows)

    async def wakes(self, session_id: str) -> frozenset[str]:
        """Pending inputs for which a process requested a wake."""
        rows = await self._database.fetch("inbox.wakes", {"session_id": session_id})
        return frozenset(str(row[0]) for row in rows)

    async def lost_wakes(self, limit: int) -> list[str]:
        """Sessions with pending input for which a process requested a wake."""
        return [str(row[0]) for row in await self._database.fetch("inbox.lost_wakes", {"limit": limit})]


class InputRow(Frozen):
    session_id: str
    id: str
    kind: InputKind
    prompt: Prompt
    delivery: Delivery
    admitted_seq: int
    promoted_seq: int | None
    time_created: int

    def admission(self) -> Admission:
        return Admission(
            admitted_seq=self.admitted_seq,
            id=self.id,
            session_id=self.session_id,
            prompt=self.prompt,
            delivery=self.delivery,
            time_created=self.time_created,
            promoted_seq=self.promoted_seq,
            type="synthetic" if self.kind == "synthetic" else None,
        )


def options_of(own: Sequence[Row], shared: Sequence[Row]) -> PromptOptions | None:
    """The options in rows of `inbox.options`, or else in those of `inbox.shared_options`."""
    rows = own or shared
    if not rows or rows[0][0] is None:
        return None
    options: PromptOptions = decoder(PromptOptions).decode(str(rows[0][0]))
    return options
