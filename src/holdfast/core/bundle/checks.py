"""What the events of one Session in a bundle must be: its own, of known types, and without a hold on other Sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.bundle.errors import BundleInvalid
from holdfast.core.database.errors import InvalidDurableEvent
from holdfast.schema.codec import decoder
from holdfast.schema.fork_event import SessionForked
from holdfast.schema.session_event import SessionUpdated
from holdfast.schema.task_event import TaskStarted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.event.preparation import Prepared
    from holdfast.schema.bundle import BundleSession
    from holdfast.schema.event import SerializedEvent

CREATED, UPDATED, DELETED = "session.created.1", "session.updated.1", "session.deleted.1"
FORKED = "session.next.forked.1"
TASK_STARTED = "session.next.task.started.1"


class EventChecks:
    """Looks at all events of a Session, in their order. Raises BundleInvalid."""

    def __init__(self, session: BundleSession, check: Callable[[SerializedEvent], Prepared]) -> None:
        self.projects: set[str] = set()
        """That the events name."""
        self.relatives: set[str] = set()
        """Sessions that were its parent, and to which it gave tasks."""
        self._session = session
        self._check = check
        self._parent: str | None = None
        self._last = ""

    def look(self, events: Iterable[SerializedEvent]) -> None:
        for event in events:
            try:
                prepared = self._check(event)
            except (InvalidDurableEvent, UnicodeDecodeError, RecursionError) as error:
                raise BundleInvalid(f"the event {event.seq} of {self._session.id} is not valid ({error})") from error
            if (event.seq == self._session.first) != (event.type == CREATED):
                raise self._wrong(event, "a Session begins with its creation, and is created once")
            if event.type == CREATED and (prepared.row.begins_at or 0) != self._session.first:
                raise self._wrong(event, "it does not begin with this sequence")
            self._look_at(event)

    def end(self) -> None:
        """After the last event."""
        session = self._session
        if (self._last == DELETED) != session.deleted:
            raise BundleInvalid(f"the manifest and the events of {session.id} differ in whether it was deleted")
        if not session.deleted and self._parent != session.parent_id:
            raise BundleInvalid(f"the manifest and the events of {session.id} name different parents")

    def _look_at(self, event: SerializedEvent) -> None:
        self._last = event.type
        if event.type in (CREATED, UPDATED, DELETED):
            # Their projections are about the Session that the record names.
            info = decoder(SessionUpdated).decode(event.data).info
            if info.id != self._session.id:
                raise self._wrong(event, f"its record is that of {info.id}")
            if event.type != DELETED:
                self._parent = info.parent_id
                self.relatives |= {info.parent_id} if info.parent_id is not None else set()
                self.projects.add(info.project_id)
        elif event.type == FORKED:
            forked = decoder(SessionForked).decode(event.data)
            if not {segment.source_id for segment in forked.segments} <= set(self._session.sources):
                raise self._wrong(event, "it shows messages of a Session that the manifest does not name as its source")
        elif event.type == TASK_STARTED:
            self.relatives.add(decoder(TaskStarted).decode(event.data).child_id)

    def _wrong(self, event: SerializedEvent, problem: str) -> BundleInvalid:
        return BundleInvalid(f"the event {event.seq} of {self._session.id} is not valid: {problem}")
