"""Reads of what a Session still has to do: open turns, activities, calls that wait for a person, blocked input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.session.activity import Activity, OpenTurn, Used
from holdfast.core.session.answer_outcome import ActivityEnd
from holdfast.core.session.stored_messages import OpenCall, StoredMessages
from holdfast.core.session.stored_tasks import StoredTasks
from holdfast.schema.codec import decoder, encode_text
from holdfast.schema.frozen import Frozen
from holdfast.schema.insight import Outcome, UnsettledCall
from holdfast.schema.model import ModelRef  # noqa: TC001 - msgspec reads the annotations of rows
from holdfast.schema.turn_event import TurnDispatched  # noqa: TC001 - as above

if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.core.database.unit import Value

LAST_ID = "\U0010ffff"
"""Greater than every Session id."""
NEVER_ACTIVE = Outcome(type="idle")


class Dispatch(Frozen):
    """The newest dispatch of a Session, and whether a revert came after it."""

    event: TurnDispatched
    reverted: bool


class ResumableCall(Frozen):
    """A call that may be executed again."""

    call: OpenCall
    answered: bool
    """Whether there is nothing to wait for any more."""
    task: bool
    """Whether it waits for a child, not for a person."""


class Blocked(Frozen):
    """Why pending input cannot start."""

    since: int
    name: str
    message: str


class StoredActivity(StoredMessages, StoredTasks):
    async def activity(self, session_id: str) -> Activity | None:
        """The activity of a Session, whichever process works on it."""
        found = await self._activities(first=session_id, last=session_id, limit=1)
        return found[0] if found else None

    async def activities(self, limit: int = 1000) -> list[Activity]:
        """The activities of all Sessions, whichever process works on them; oldest first."""
        return await self._activities(first="", last=LAST_ID, limit=limit)

    async def ending(self, session_id: str) -> Outcome:
        """How the last activity that ended did so; `idle` if there was none."""
        return (await self.endings([session_id])).get(session_id, NEVER_ACTIVE)

    async def endings(self, ids: Collection[str]) -> dict[str, Outcome]:
        """The same for several Sessions."""
        if not ids:
            return {}
        key: dict[str, Value] = {"ids": encode_text([*ids])}
        return {row.id: row.outcome() for row in await self._database.fetch("activity.endings", key, into=ActivityEnd)}

    async def blocked(self, session_id: str) -> Blocked | None:
        """Why pending input cannot start, if a process tried."""
        rows = await self._database.fetch("blocked.of", {"session_id": session_id}, into=Blocked)
        return rows[0] if rows else None

    async def answered_calls(self, session_id: str) -> bool:
        """Whether a call waits whose last request was answered, and no process has taken the answer, or whose task is
        over."""
        return any(found.answered for found in await self.resumable_calls(session_id))

    async def resumable_calls(self, session_id: str) -> list[ResumableCall]:
        """Calls without settlement that may be executed again: they wait for a person and have started nothing, or they
        gave a task to a child."""
        found = []
        calls = await self.open_calls(session_id)
        tasks = {task.call[1:]: task for task in await self.open_tasks(session_id)} if calls else {}
        for call in calls:
            if (task := tasks.get(call.key)) is not None:
                state = None if task.background else await self.task_state(task)
                found.append(ResumableCall(call, answered=state is None or state.over, task=True))
                continue
            key = {"session_id": session_id, "message_id": call.message_id, "call_id": call.call_id}
            rows = await self._database.fetch("request.of_call", key, into=RequestRow)
            waiting = [row for row in rows if row.resumable and not row.taken]
            unanswered = any(row.reply is None for row in waiting)
            if waiting and (unanswered or waiting[-1] is rows[-1]):
                found.append(ResumableCall(call, answered=not unanswered, task=False))
        return found

    async def rejections(self, session_id: str) -> int:
        """How many answers were rejected since the newest prompt that asks for one."""
        rows = await self._database.fetch("activity.rejections", {"session_id": session_id})
        return int(str(rows[0][0]))

    async def last_dispatch(self, session_id: str) -> Dispatch | None:
        rows = await self._database.fetch("turn.last_dispatch", {"session_id": session_id}, into=Dispatch)
        return rows[0] if rows else None

    async def _activities(self, **key: Value) -> list[Activity]:
        return [row.activity() for row in await self._database.fetch("activity.range", key, into=ActivityRow)]


class RequestRow(Frozen):
    """A request that a tool call made to a person."""

    id: str
    kind: str
    data: str
    reply: str | None
    resumable: bool
    taken: bool


class OpenRequest(Frozen):
    """A request of a Session without an answer; `data` is the request."""

    kind: str
    data: str


class TreeRequestRow(Frozen):
    """An open request of a Session or of a descendant."""

    session_id: str
    id: str
    kind: str
    data: str
    since: int


class ActivityRow(Frozen):
    session_id: str
    seq: int
    time_started: int
    suspended: bool
    time_compacting: int | None
    newest_type: str | None
    agent: str | None
    model: ModelRef | None
    attempt: int | None
    message_id: str | None
    time_dispatched: int | None
    used: Used | None
    asks: bool
    delegates: bool
    attempts: int
    decision_seq: int | None
    calls: str | None
    """As JSON."""

    def activity(self) -> Activity:
        return Activity(
            session_id=self.session_id,
            seq=self.seq,
            since=self.time_started,
            suspended=self.suspended,
            compacting=self.time_compacting is not None,
            between=self.newest_type == "assistant",
            turn=self._turn(),
            asks=self.asks,
            delegates=self.delegates,
            attempts=self.attempts,
            decision_seq=self.decision_seq,
            calls=decoder(tuple[UnsettledCall, ...]).decode(self.calls) if self.calls is not None else (),
        )

    def _turn(self) -> OpenTurn | None:
        if self.agent is None or self.model is None or self.attempt is None or self.time_dispatched is None:
            return None
        return OpenTurn(self.agent, self.model, self.attempt, self.message_id, self.time_dispatched, self.used)
