"""The events with which a bundle continues a Session that is here.

A conversation may be continued elsewhere. What else new events would change of a Session that has events of this store
- its title, its place, whose child it is, its agent, model, budget and instructions, whether it is there at all - is
taken over only with the consent of the person who imports it. An answer to a request that waits here never is: it
would decide in the name of a person who has seen the request here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.bundle.errors import BundleConflict
from holdfast.core.event.imported_events import is_imported
from holdfast.schema.codec import decoder
from holdfast.schema.record import Record
from holdfast.schema.session_event import AgentSwitched, ModelSwitched, Moved, SessionUpdated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.event.imported_events import ImportedRange
    from holdfast.schema.event import SerializedEvent

MOST_SHOWN = 100
"""Characters of a value in a message."""
RECORD = ("session.created.1", "session.updated.1")
DELETED = "session.deleted.1"
ASKED = tuple(f"session.next.{kind}.asked.1" for kind in ("permission", "question", "form"))
ANSWERED = (
    "session.next.permission.replied.1",
    "session.next.question.replied.1",
    "session.next.question.rejected.1",
    "session.next.form.replied.1",
    "session.next.form.cancelled.1",
)
CHANGES = {
    DELETED: "deletes it",
    "session.next.budget.set.1": "sets its budget",
    "session.next.instruction.entry.put.1": "adds an instruction",
    "session.next.instruction.entry.removed.1": "removes an instruction",
}
"""Events that change a Session instead of continuing its conversation, whatever they contain."""
FIELDS = {
    "title": "renames it",
    "directory": "moves it",
    "workspace_id": "moves it to the workspace",
    "project_id": "gives it another project",
    "parent_id": "gives it another parent",
    "agent": "changes its agent",
    "model": "changes its model",
    "permission": "changes its rules",
    "archived": "archives or restores it",
    "pinned": "pins or unpins it",
}
"""Fields of a record that are compared; times, usage and summaries follow from the conversation."""


class _Request(Record):
    id: str


class _Asked(Record):
    request: _Request


class _Answered(Record):
    request_id: str


class Continuation:
    """Looks at all events of a Session in a bundle, in their order. `head` is the last one that is here, -1 if there
    is none, and `imported` are those of them that came from elsewhere."""

    def __init__(self, session_id: str, head: int, imported: Sequence[ImportedRange]) -> None:
        self.changes: list[str] = []
        """What the new events change of a Session that has events of this store."""
        self._session_id = session_id
        self._head = head
        self._imported = imported
        self._own = False
        self._fields: dict[str, object] = {}
        self._waiting_here: set[str] = set()
        self._waiting_elsewhere: set[str] = set()

    @property
    def closed(self) -> int:
        """Requests that wait elsewhere, and that an import closes."""
        return len(self._waiting_elsewhere)

    def look(self, events: Sequence[SerializedEvent]) -> None:
        """Raises BundleConflict for an answer to a request that was made here."""
        for event in events:
            here = event.seq <= self._head and not is_imported(event.seq, self._imported)
            self._own = self._own or here
            self._follow_requests(event, here=here)
            new = event.seq > self._head
            if event.type in CHANGES and new:
                self._change(CHANGES[event.type])
            for name, value in _fields(event).items():
                before = self._fields.get(name)
                if new and value != before:
                    self._change(f"{FIELDS[name]} ({_shown(before)} becomes {_shown(value)})")
                self._fields[name] = value

    def _follow_requests(self, event: SerializedEvent, *, here: bool) -> None:
        if event.type in ASKED:
            id = decoder(_Asked).decode(event.data).request.id
            (self._waiting_here if here else self._waiting_elsewhere).add(id)
        elif event.type in ANSWERED:
            id = decoder(_Answered).decode(event.data).request_id
            if id in self._waiting_here and not here:
                raise BundleConflict(
                    f"{self._session_id} is here, and the event {event.seq} of the bundle answers its request {id}. "
                    "Requests are answered where they were made"
                )
            self._waiting_here.discard(id)
            self._waiting_elsewhere.discard(id)

    def _change(self, change: str) -> None:
        if self._own and change not in self.changes:
            self.changes.append(change)


def _fields(event: SerializedEvent) -> dict[str, object]:
    """The fields of the Session's record that this event sets."""
    if event.type in RECORD:
        info = decoder(SessionUpdated).decode(event.data).info
        times = {"archived": info.time.archived, "pinned": info.time.pinned}
        return {name: times[name] if name in times else getattr(info, name) for name in FIELDS}
    match event.type:
        case "session.next.moved.1":
            location = decoder(Moved).decode(event.data).location
            return {"directory": location.directory, "workspace_id": location.workspace_id}
        case "session.next.agent.switched.1":
            return {"agent": decoder(AgentSwitched).decode(event.data).agent}
        case "session.next.model.switched.1":
            return {"model": decoder(ModelSwitched).decode(event.data).model}
        case _:
            return {}


def _shown(value: object) -> str:
    return "nothing" if value is None else repr(str(value))[:MOST_SHOWN]
