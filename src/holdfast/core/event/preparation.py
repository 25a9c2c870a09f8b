"""Turns payloads into rows of the log with their projections. Nothing is read or written here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.database.unit import NewEvent
from holdfast.core.event.author import attributed, without_name
from holdfast.core.event.errors import InvalidDurableEvent
from holdfast.core.event.projection import Projected, Projectors
from holdfast.schema.codec import decoder, encode
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.clock import Ids
    from holdfast.schema.event import Definition, SerializedEvent
    from holdfast.schema.manifest import Manifest
    from holdfast.schema.record import Record


class Prepared(Frozen):
    """An event that is ready to be committed."""

    definition: Definition
    aggregate_id: str
    row: NewEvent
    data: bytes
    metadata: Mapping[str, Any] | None


class Preparation:
    def __init__(self, manifest: Manifest, projectors: Projectors, ids: Ids) -> None:
        self._manifest = manifest
        self._projectors = projectors
        self._ids = ids

    def definition(self, payload: Record) -> Definition:
        definition = self._manifest.of_payload.get(type(payload))
        if definition is None:
            raise InvalidDurableEvent(type(payload).__name__, "no event of this kind is defined")
        return definition

    def new(self, payload: Record, id: str | None, metadata: Mapping[str, Any] | None) -> Prepared:
        definition = self.definition(payload)
        if not definition.durable:
            raise InvalidDurableEvent(definition.type, "a live-only event cannot be stored")
        if definition.attributed:
            metadata = attributed(metadata)
        return self._assemble(definition, payload, id or self._ids.event(), encode(payload), metadata, None)

    def known(self, event: SerializedEvent) -> Prepared:
        """An event that has its sequence already: from this log, or from another one."""
        definition = self._manifest.stored.get(event.type)
        if definition is None:
            raise InvalidDurableEvent(event.type, "Unknown durable event type")
        try:
            payload = decoder(definition.payload).decode(event.data)
        except msgspec.DecodeError as error:
            raise InvalidDurableEvent(event.type, str(error)) from error
        # Compact, but with every field that another build may have written.
        data = msgspec.json.format(bytes(event.data), indent=-1)
        prepared = self._assemble(definition, payload, event.id, data, event.metadata, event.seq)
        if prepared.aggregate_id != event.aggregate_id:
            raise InvalidDurableEvent(
                event.type, f"Aggregate mismatch: envelope {event.aggregate_id}, payload {prepared.aggregate_id}"
            )
        return prepared

    def _assemble(
        self,
        definition: Definition,
        payload: Record,
        id: str,
        data: bytes,
        metadata: Mapping[str, Any] | None,
        seq: int | None,
    ) -> Prepared:
        aggregate_id = getattr(payload, definition.aggregate or "", None)
        if not isinstance(aggregate_id, str):
            raise InvalidDurableEvent(definition.type, f"the aggregate field {definition.aggregate} is not a string")
        current = definition.upcast(payload) if definition.upcast is not None else payload
        projector = self._projectors.get(type(current))
        row = NewEvent(
            id=id,
            type=definition.stored_type,
            data=data.decode(),
            metadata=encode(metadata).decode() if metadata else None,
            projections=projector(Projected(current, without_name(metadata))) if projector is not None else (),
            seq=seq,
            begins_at=definition.begins_at(payload) if definition.begins_at is not None else None,
        )
        return Prepared(definition, aggregate_id, row, data, metadata)
