"""The instruction entries of Sessions: durable facts for the model, each under a key. Every change is an event."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.database.unit import Statement
from holdfast.core.session.errors import InstructionTooLarge, TooManyInstructions
from holdfast.core.session.records import existing
from holdfast.schema.codec import encode
from holdfast.schema.exceptions import InvalidRequest
from holdfast.schema.nesting import LEVELS, is_nested_deeper
from holdfast.schema.session_event import InstructionEntryPut, InstructionEntryRemoved

if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.clock import Clock
    from holdfast.core.database.unit import Value
    from holdfast.core.event.log import EventLog
    from holdfast.core.session.store import SessionStore
    from holdfast.schema.instruction import InstructionEntry

VALUE_BYTES = 8192
ENTRIES = 64


class InstructionEntries:
    def __init__(self, log: EventLog, store: SessionStore, clock: Clock) -> None:
        self._log = log
        self._store = store
        self._clock = clock

    async def list(self, session_id: str) -> tuple[InstructionEntry, ...]:
        """The entries of a Session, ordered by key."""
        await self._store.get(session_id)
        return await self._store.instruction_entries(session_id)

    async def put(self, session_id: str, key: str, value: Any) -> None:
        """Add an entry or replace its value. The same value again changes nothing. Raises InvalidRequest,
        InstructionTooLarge or TooManyInstructions."""
        session = await self._store.get(session_id)
        if is_nested_deeper(value):
            message = f"The value is nested more than {LEVELS} levels deep. Nothing was changed."
            raise InvalidRequest(message, kind="Payload", field="value")
        encoded = encode(value)
        if len(encoded) > VALUE_BYTES:
            raise InstructionTooLarge(len(encoded), VALUE_BYTES)
        known = {entry.key: entry.value for entry in await self._store.instruction_entries(session_id)}
        if key in known and encode(known[key]) == encoded:
            return
        put = InstructionEntryPut(
            timestamp=self._clock.now(), session_id=session_id, key=key, value=msgspec.Raw(encoded)
        )
        others: dict[str, Value] = {"session_id": session_id, "key": key, "limit": ENTRIES}
        full = partial(TooManyInstructions, session_id, ENTRIES)
        room = Statement("instruction_entry.overfull", others, found=False, error=full)
        await self._log.publish(put, location=session.location, before=(existing(session_id), room))

    async def remove(self, session_id: str, key: str) -> None:
        """Remove an entry. An entry that does not exist is left as it is."""
        session = await self._store.get(session_id)
        if key not in {entry.key for entry in await self._store.instruction_entries(session_id)}:
            return
        removed = InstructionEntryRemoved(timestamp=self._clock.now(), session_id=session_id, key=key)
        await self._log.publish(removed, location=session.location, before=(existing(session_id),))
