"""What Sessions do and wait for. The number of queries does not depend on the number of Sessions."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from holdfast.core.database.read import Read
from holdfast.core.runtime.subagent_wait import Delegation, subagent_wait
from holdfast.core.runtime.waits import ToolRow, TurnRow, blocked_wait, form_wait, recovery_wait
from holdfast.core.session.activity import described, needs_decision
from holdfast.core.session.budgets import ENDS
from holdfast.core.session.budgets import described as used_of
from holdfast.core.session.stored_activity import Blocked
from holdfast.schema.codec import decode_any, encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.insight import WaitInfo

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from holdfast.core.clock import Clock
    from holdfast.core.database.database import Database
    from holdfast.core.runtime.execution import Execution
    from holdfast.core.session.store import SessionStore
    from holdfast.core.session.stored_trees import NodeRow, StoredTrees, TreePlace
    from holdfast.schema.insight import Outcome
    from holdfast.schema.tree import Ending, NodeState, SessionStatus

TEXT = 200
"""Characters of a request."""
HOLDING = ("permission", "question", "form", "authorization", "subagent", "budget")
"""Kinds of waits because of which a Session is said to wait, whether or not it is executed."""


ASKING = ("permission", "question", "form", "authorization")
"""Kinds of waits that a person ends with an answer."""
STATUS_OF_ENDING: Mapping[Ending | None, SessionStatus] = {
    None: "new",
    "completed": "finished",
    "failed": "failed",
    "interrupted": "stopped",
}


class States(Frozen):
    """What some Sessions do at one moment."""

    rows: Mapping[str, NodeRow]
    """Of those that exist; parents before their children."""
    places: Mapping[str, TreePlace]
    """Of the same."""
    running: frozenset[str]
    """Those that a process executes."""
    waiting: Mapping[str, list[WaitInfo]]
    endings: Mapping[str, Outcome]
    """Of those that have nothing to do: how their last activity ended."""
    undecided: frozenset[str]
    """Those that no process works on until a person has decided."""

    def waits(self, session_id: str) -> tuple[WaitInfo, ...]:
        return tuple(self.waiting.get(session_id, ()))

    def cause(self, session_id: str) -> WaitInfo | None:
        """The first wait, of those that its state comes from if there are any."""
        waits = self.waits(session_id)
        return next((wait for wait in waits if wait.kind in HOLDING), waits[0] if waits else None)

    def state(self, session_id: str) -> NodeState:
        row, kinds = self.rows[session_id], {wait.kind for wait in self.waits(session_id)}
        if kinds.intersection(HOLDING):
            return "waiting"
        if session_id in self.running:
            return "running"
        if row.owes:
            return "unfinished"
        if "blocked" in kinds:
            return "blocked"
        return "pending" if row.pending else "idle"

    def outcome(self, session_id: str) -> Ending | None:
        """How the last activity of an idle Session ended; None if there was none."""
        ending = self.endings[session_id].type if session_id in self.endings else None
        return ending if ending in ("completed", "failed", "interrupted") else None

    def status(self, session_id: str) -> SessionStatus:
        """The state in one word for people, by what the Session or a subagent of it waits for. Every list and screen
        shows what this returns."""
        causes = [wait.cause or wait for wait in self.waits(session_id)]
        kinds = {cause.kind for cause in causes}
        if kinds.intersection(ASKING):
            return "waiting"
        if "budget" in kinds:
            return "paused"
        state = self.state(session_id)
        if state == "idle":
            return STATUS_OF_ENDING[self.outcome(session_id)]
        left = {cause.session_id or session_id for cause in causes if cause.kind == "recovery"}
        if left or state == "unfinished":
            return "interrupted" if self.undecided.intersection(left or {session_id}) else "resuming"
        if state != "waiting":
            return state
        return "blocked" if "blocked" in kinds else "pending" if "input" in kinds else "running"


class SessionStates:
    def __init__(
        self, database: Database, store: SessionStore, stored: StoredTrees, execution: Execution, clock: Clock
    ) -> None:
        self._database = database
        self._store = store
        self._stored = stored
        self._execution = execution
        self._clock = clock

    async def of(self, ids: Collection[str]) -> States:
        rows, places = await self._stored.placed_nodes(ids)
        running = frozenset(await self._execution.active()).intersection(ids)
        busy = [id for id, row in rows.items() if row.busy or id in running]
        waits, undecided = await self._waits(rows, busy, running)
        endings = await self._store.endings(rows.keys() - set(busy))
        return States(rows, places, running, waits, endings, frozenset(undecided))

    async def _waits(
        self, rows: dict[str, NodeRow], busy: list[str], running: frozenset[str]
    ) -> tuple[dict[str, list[WaitInfo]], set[str]]:
        """For what each of the busy ones waits, and which of them a person decides about."""
        waits: dict[str, list[WaitInfo]] = defaultdict(list)
        if not busy:
            return waits, set()
        key = {"ids": encode(busy).decode()}
        turns, calls, requests, blocked, pauses = await self._database.fetch_large_many(
            Read("tree.turns", key, _TurnOfTree),
            Read("tree.calls", key, _Call),
            Read("tree.requests", key, _Request),
            Read("tree.blocked", key, _BlockedOfTree),
            Read("tree.pauses", key, _Paused),
        )
        now = self._clock.now()
        delegated = defaultdict(list)
        for turn in turns:
            if turn.session_id in running:
                waits[turn.session_id].append(turn.wait(now))
        for call in calls:
            if call.child_id is not None:
                delegated[call.session_id].append(call)
            elif call.session_id in running:
                waits[call.session_id].append(ToolRow(call.key, call.name, call.since).wait())
        for request in requests:
            waits[request.session_id].append(request.wait())
        for row in blocked:
            waits[row.session_id].append(blocked_wait(row))
        await self._add_paused([pause for pause in pauses if pause.session_id not in running], waits)
        left = {id for id in busy if rows[id].owes and id not in running}
        undecided = await self._add_left({id for id in left if not waits[id] and id not in delegated}, waits)
        for id in busy:
            if rows[id].pending and not rows[id].owes and id not in running and not waits[id]:
                waits[id].append(_pending_wait(rows[id]))
        # Of the deepest first, because the wait for a child tells what that one waits for.
        for id in reversed(rows):
            found = [subagent_wait(call.delegation(), waits[call.child_id or ""]) for call in delegated.get(id, ())]
            waits[id][:0] = found
        return waits, undecided

    async def _add_paused(self, paused: list[_Paused], waits: dict[str, list[WaitInfo]]) -> None:
        """What waits for a budget. Each budget is read once."""
        known = {id: await self._store.budgets(id) for id in {row.budget_id for row in paused}}
        for row in paused:
            info = next((info for info in known[row.budget_id] if info.session_id == row.budget_id), None)
            what = f"the budget of {row.budget_id}" + (
                f": {used_of(info)}" if info is not None and info.reached else ""
            )
            wait = WaitInfo(kind="budget", since=row.since, what=what, ends=ENDS, id=row.budget_id, budget=info)
            waits[row.session_id].append(wait)

    async def _add_left(self, left: Collection[str], waits: dict[str, list[WaitInfo]]) -> set[str]:
        """What no process works on. Returns the Sessions that a person decides about: all, where no process continues
        anything by itself."""
        recovers = bool(left) and await self._execution.recovers()
        found = [activity for activity in await self._store.activities() if activity.session_id in left] if left else []
        for activity in found:
            waits[activity.session_id].append(recovery_wait(described(activity)))
        return {activity.session_id for activity in found if needs_decision(activity) or not recovers}


def _pending_wait(row: NodeRow) -> WaitInfo:
    what = f"a start: {row.pending} admitted and not part of the conversation yet"
    return WaitInfo(kind="input", since=row.time_updated, what=what, ends="a prompt or a run begins with it")


class _TurnOfTree(TurnRow):
    session_id: str


class _BlockedOfTree(Blocked):
    session_id: str


class _Call(Frozen):
    session_id: str
    key: str
    name: str
    since: int
    child_id: str | None
    agent: str | None
    description: str | None

    def delegation(self) -> Delegation:
        return Delegation(self.key, self.since, self.child_id or "", self.agent or "", self.description or "")


class _Paused(Frozen):
    session_id: str
    budget_id: str
    since: int


class _Request(Frozen):
    session_id: str
    id: str
    kind: str
    since: int
    data: str

    def wait(self) -> WaitInfo:
        asked = decode_any(self.data)
        if self.kind == "permission":
            what, ends = (
                f"permission: {asked.get('action')} {', '.join(asked.get('resources', []))}",
                "a person replies",
            )
            return WaitInfo(kind="permission", since=self.since, what=what[:TEXT], ends=ends, id=self.id)
        if self.kind == "form":
            return form_wait(asked, self.since)
        questions = asked.get("questions") or [{}]
        what, ends = f"an answer: {questions[0].get('question', '')}", "a person answers or dismisses it"
        return WaitInfo(kind="question", since=self.since, what=what[:TEXT], ends=ends, id=self.id)
